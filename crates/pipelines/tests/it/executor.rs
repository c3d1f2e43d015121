//! Executors: programs in their work trees, and what is reported of them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use menagerie_kernel::Transaction;
use menagerie_testkit::{SHORT, eventually_async};
use menagerie_znodes::pipelines::{BuildParams, Id, JobQueue, Outcome, Params, RequestState};
use serde_json::Value;
use tokio::task::LocalSet;

use crate::stage::Stage;

const QUEUE: JobQueue = JobQueue::Executor;

/// Prints that it has begun, and never ends by itself.
const ENDLESS: &str = "#!/bin/sh\necho begun\nexec sleep 1000\n";

/// A stage with a proposal that adds a program, and the parameters of its build.
async fn stage(name: &str, script: &str) -> (Stage, BuildParams) {
    let stage = Stage::new(name).await;
    let patchset = stage.propose("topic", "ci/test.sh", script);
    let state = stage.merged("topic", &patchset).await;
    let params = stage.build_params(&state, "ci/test.sh");
    (stage, params)
}

async fn request(stage: &Stage, params: &BuildParams) -> Id {
    stage.request(QUEUE, 200, Params::Build(Box::new(params.clone()))).await
}

/// Result and detail of the only build.
fn result(outcomes: &[Outcome]) -> (&str, Option<&str>) {
    let [Outcome::Build { result, detail, executor, start_ms, end_ms, .. }] = outcomes else {
        panic!("{outcomes:?}")
    };
    assert_eq!((executor.as_str(), start_ms <= end_ms), ("one", true));
    (result, detail.as_deref())
}

fn log(stage: &Stage, build: &Id) -> String {
    fs::read_to_string(stage.data("one").log(build.as_str())).unwrap_or_default()
}

async fn wait_until_begun(stage: &Stage, build: &Id) {
    eventually_async("the program has begun", async || (log(stage, build) == "begun\n").then_some(())).await;
}

/// Waits until nothing of a build is left but its log.
async fn wait_until_removed(stage: &Stage) {
    let builds = stage.data("one").builds();
    eventually_async("the work folder is removed", async || {
        (builds.read_dir().unwrap().count() == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_program_runs_in_its_repository_and_knows_what_it_tests() {
    let script = "#!/bin/sh\npwd\necho complaint >&2\ngit log -1 --format=%H\ngit rev-parse --abbrev-ref HEAD\n\
                  git rev-parse origin/main\ngit remote get-url origin\nstat -c %a \"$MENAGERIE_WORK\"\n\
                  env | grep -E '^(ZUUL_|MENAGERIE_(WORK|FENCE|VARS))' | sort\ncat \"$MENAGERIE_VARS\"\n";
    let (stage, params) = stage("executor-runs", script).await;
    LocalSet::new().run_until(async {
        let _executor = stage.executor(stage.session().await, "one").await;
        let build = request(&stage, &params).await;
        let outcomes = stage.wait_for_outcomes(1).await;
        assert_eq!(result(&outcomes), ("SUCCESS", None), "{}", log(&stage, &build));
        assert_eq!(stage.state(QUEUE, &build).await.unwrap().state, RequestState::Completed);
        assert_eq!(stage.holders(QUEUE, &build).await, [""; 0]);
        wait_until_removed(&stage).await;

        let root = stage.data("one").builds().join(build.as_str()).display().to_string();
        let log_file = stage.data("one").log(build.as_str());
        assert_eq!(fs::metadata(log_file).unwrap().permissions().mode() & 0o777, 0o600);
        let log = log(&stage, &build);
        let (plain, vars) = log.split_at(log.find('{').unwrap());
        let lines: Vec<&str> = plain.lines().filter(|line| !line.starts_with("MENAGERIE_FENCE=")).collect();
        let patchset = stage.git(&["rev-parse", "origin/propose/main/topic"]);
        let (commit, parent) = (&params.commit, &params.parent);
        let expected = format!(
            "{root}/work/src/git.example.org/org/app\ncomplaint\n{commit}\nmain\n{parent}\nfile:///dev/null\n700\n\
             MENAGERIE_VARS={root}/vars.json\nMENAGERIE_WORK={root}/work\nZUUL_BRANCH=main\nZUUL_BUILDSET=buildset\n\
             ZUUL_CHANGE=propose/main/topic\nZUUL_COMMIT={commit}\nZUUL_JOB=unit\nZUUL_PARENT={parent}\n\
             ZUUL_PATCHSET={patchset}\nZUUL_PIPELINE=gate\nZUUL_PROJECT=org/app\nZUUL_TENANT=main\nZUUL_UUID={build}"
        );
        assert_eq!(lines, expected.lines().collect::<Vec<_>>());
        assert!(plain.lines().any(|line| line.starts_with("MENAGERIE_FENCE=")), "{plain}");
        let vars: Value = serde_json::from_str(vars).unwrap();
        assert_eq!((&vars["colour"], &vars["zuul"]["job"]), (&"green".into(), &"unit".into()));
        let project = &vars["zuul"]["projects"]["git.example.org/org/app"];
        assert_eq!(project["src_dir"], "src/git.example.org/org/app");
        assert_eq!(project["commit"], commit.as_str());
    }).await;
}

#[tokio::test]
async fn a_program_inherits_no_way_to_remotes_in_our_name() {
    // The environment of this process is that of all tests, so this one runs again in a process of its own.
    if std::env::var_os("SSH_AUTH_SOCK").is_none_or(|socket| socket != "/ours") {
        let test = "executor::a_program_inherits_no_way_to_remotes_in_our_name";
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env("SSH_AUTH_SOCK", "/ours")
            .envs([("SSH_AGENT_PID", "1"), ("SSH_ASKPASS", "ours"), ("GIT_ASKPASS", "ours")])
            .envs([("GIT_SSH", "ours"), ("GIT_SSH_COMMAND", "ours"), ("GIT_CEILING_DIRECTORIES", "/")])
            .envs([("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "a.b"), ("GIT_CONFIG_VALUE_0", "ours")])
            .env("KEPT", "yes")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    let (stage, params) =
        stage("executor-environment", "#!/bin/sh\nenv | grep -E '^(SSH_|GIT_|KEPT)'\n").await;
    LocalSet::new()
        .run_until(async {
            let _executor = stage.executor(stage.session().await, "one").await;
            let build = request(&stage, &params).await;
            assert_eq!(result(&stage.wait_for_outcomes(1).await), ("SUCCESS", None));
            assert_eq!(log(&stage, &build), "KEPT=yes\n");
        })
        .await;
}

#[tokio::test]
async fn damaged_parameters_are_an_error() {
    let stage = Stage::new("executor-damaged").await;
    LocalSet::new()
        .run_until(async {
            let _executor = stage.executor(stage.session().await, "one").await;
            let build = stage.request_damaged(QUEUE, r#"{"build":{"buildset":"buildset"}}"#).await;
            let outcomes = stage.wait_for_outcomes(1).await;
            let (result, detail) = result(&outcomes);
            assert_eq!(result, "ERROR");
            assert!(detail.unwrap().contains("cannot read the parameters"), "{detail:?}");
            stage.wait_for_state(QUEUE, &build, RequestState::Completed).await;
        })
        .await;
}

#[tokio::test]
async fn a_trusted_program_is_that_of_the_branch_whatever_is_proposed() {
    let stage = Stage::new("executor-trusted").await;
    stage.commit("ci/test.sh", "#!/bin/sh\necho trusted; cat ci/test.sh\n");
    stage.git(&["push", "-q", "origin", "main"]);
    let patchset = stage.propose("topic", "ci/test.sh", "#!/bin/sh\necho proposed\n");
    let state = stage.merged("topic", &patchset).await;
    let mut params = stage.build_params(&state, "ci/test.sh");
    params.job.is_trusted = true;
    LocalSet::new()
        .run_until(async {
            let _executor = stage.executor(stage.session().await, "one").await;
            let build = request(&stage, &params).await;
            assert_eq!(result(&stage.wait_for_outcomes(1).await), ("SUCCESS", None));
            assert_eq!(log(&stage, &build), "trusted\n#!/bin/sh\necho proposed\n");
        })
        .await;
}

#[tokio::test]
async fn what_cannot_be_run_is_explained_in_the_result_and_in_the_log() {
    let (stage, params) = stage("executor-explains", "echo not executable\n").await;
    stage.git(&["checkout", "-q", "propose/main/topic"]);
    std::os::unix::fs::symlink("/bin/true", stage.path("clone/ci/escape.sh")).unwrap();
    let patchset = stage.commit("ci/strange.sh", "#!/no/such/interpreter\n");
    stage.git(&["push", "-q", "origin", "HEAD:propose/main/other"]);
    let other = stage.build_params(&stage.merged("other", &patchset).await, "");
    let run = |run: &str, params: &BuildParams| {
        let mut params = params.clone();
        params.job.run = run.to_owned();
        params
    };
    let mut nowhere = params.clone();
    nowhere.run_from = None;
    LocalSet::new().run_until(async {
        let _executor = stage.executor(stage.session().await, "one").await;
        for (params, why) in [
            (params.clone(), "ci/test.sh of org/app on main is not executable. Try: git update-index --chmod=+x ci/test.sh"),
            (run("ci/missing.sh", &params), "org/app has no file ci/missing.sh on main"),
            (run("ci", &params), "org/app has no file ci on main"),
            (run("ci/escape.sh", &other), "ci/escape.sh of org/app leads out of the repository"),
            (run("ci/strange.sh", &other), "ci/strange.sh of org/app cannot be run: No such file or directory"),
            (nowhere, "the job unit runs ci/test.sh of org/app, which the tenant has lost"),
        ] {
            let count = stage.outcomes().await.len();
            let build = request(&stage, &params).await;
            let outcomes = stage.wait_for_outcomes(count + 1).await;
            let (result, detail) = result(&outcomes[count..]);
            assert_eq!(result, "ERROR");
            assert!(detail.is_some_and(|detail| detail.starts_with(why)), "{detail:?}");
            assert_eq!(log(&stage, &build).trim_end(), detail.unwrap());
        }
    }).await;
}

#[tokio::test]
async fn exit_codes_signals_and_time_limits_are_told_apart() {
    let script = "#!/bin/sh\ncase $ZUUL_JOB in signal) kill -9 $$;; slow) sleep 1000;; *) exit 3;; esac\n";
    let (stage, params) = stage("executor-ends", script).await;
    LocalSet::new()
        .run_until(async {
            let _executor = stage.executor(stage.session().await, "one").await;
            for (job, expected) in [
                ("failing", ("FAILURE", None)),
                ("signal", ("FAILURE", Some("it was ended by signal 9"))),
                ("slow", ("TIMED_OUT", Some("it took longer than 1 s"))),
            ] {
                let mut params = params.clone();
                params.job.name = job.to_owned();
                params.job.timeout_s = if job == "slow" { 1 } else { 600 };
                let count = stage.outcomes().await.len();
                request(&stage, &params).await;
                let outcomes = stage.wait_for_outcomes(count + 1).await;
                assert_eq!(result(&outcomes[count..]), expected);
            }
        })
        .await;
}

#[tokio::test]
async fn a_cancelled_build_is_stopped_and_a_deleted_one_leaves_nothing() {
    let (stage, params) = stage("executor-cancel", ENDLESS).await;
    LocalSet::new()
        .run_until(async {
            let _executor = stage.executor(stage.session().await, "one").await;
            let (cancelled, deleted) = (request(&stage, &params).await, request(&stage, &params).await);
            wait_until_begun(&stage, &cancelled).await;
            wait_until_begun(&stage, &deleted).await;
            let term = stage.witness.term();
            let withdraw = Transaction::new(&term)
                .create(&QUEUE.cancel(&cancelled), &())
                .delete(&QUEUE.request(&deleted), None)
                .delete(&QUEUE.param(&deleted), None);
            withdraw.commit().await.unwrap();
            let outcomes = stage.wait_for_outcomes(1).await;
            assert_eq!(result(&outcomes), ("CANCELED", None));
            wait_until_removed(&stage).await;
            assert_eq!(term.stat(QUEUE.lock(&deleted).path()).await.unwrap(), None);
            assert_eq!(stage.outcomes().await.len(), 1);
        })
        .await;
}

#[tokio::test]
async fn a_build_cancelled_before_it_is_taken_never_runs() {
    let (stage, params) = stage("executor-cancelled-early", ENDLESS).await;
    LocalSet::new()
        .run_until(async {
            let build = request(&stage, &params).await;
            let term = stage.witness.term();
            Transaction::new(&term).create(&QUEUE.cancel(&build), &()).commit().await.unwrap();
            let _executor = stage.executor(stage.session().await, "one").await;
            assert_eq!(result(&stage.wait_for_outcomes(1).await), ("CANCELED", None));
            assert_eq!(log(&stage, &build), "");
        })
        .await;
}

#[tokio::test]
async fn a_cut_off_executor_ends_its_program_and_reports_nothing() {
    let (stage, params) = stage("executor-cut-off", ENDLESS).await;
    LocalSet::new()
        .run_until(async {
            let (session, proxy) = stage.session_through_proxy(SHORT).await;
            let _executor = stage.executor(session, "one").await;
            let lost = request(&stage, &params).await;
            wait_until_begun(&stage, &lost).await;
            proxy.partition();
            wait_until_removed(&stage).await;
            eventually_async("its session is over", async || {
                stage.holders(QUEUE, &lost).await.is_empty().then_some(())
            })
            .await;
            proxy.heal();
            // It goes on with its next session, and leaves the lost one to the scheduler.
            let mut next = params.clone();
            next.job.run = "ci/missing.sh".into();
            request(&stage, &next).await;
            assert_eq!(result(&stage.wait_for_outcomes(1).await).0, "ERROR");
            assert_eq!(stage.state(QUEUE, &lost).await.unwrap().state, RequestState::Running);
        })
        .await;
}

#[tokio::test]
async fn a_stopping_executor_lets_builds_end_and_takes_no_more() {
    let stage = Stage::new("executor-stops").await;
    let open = stage.path("open");
    let script = format!("#!/bin/sh\necho begun\nwhile ! test -e {}; do sleep 0.05; done\n", open.display());
    let patchset = stage.propose("topic", "ci/test.sh", &script);
    let params = stage.build_params(&stage.merged("topic", &patchset).await, "ci/test.sh");
    LocalSet::new()
        .run_until(async {
            let mut executor = stage.executor(stage.session().await, "one").await;
            let build = request(&stage, &params).await;
            wait_until_begun(&stage, &build).await;
            executor.begin_stop();
            fs::write(open, "").unwrap();
            executor.stop().await;
            let late = request(&stage, &params).await;
            assert_eq!(result(&stage.outcomes().await), ("SUCCESS", None));
            assert_eq!(stage.state(QUEUE, &late).await.unwrap().state, RequestState::Requested);
        })
        .await;
}
