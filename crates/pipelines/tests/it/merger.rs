//! Mergers: what they answer.

use std::collections::BTreeMap;
use std::fs;

use menagerie_kernel::recipes::blob::Blob;
use menagerie_kernel::retry;
use menagerie_pipelines::Settings;
use menagerie_testkit::eventually_async;
use menagerie_znodes::Payload as _;
use menagerie_znodes::pipelines::{
    CatParams, FilesRead, JobQueue, MergeResult, Outcome, Params, Request, RequestState, TipsParams,
};
use tokio::task::LocalSet;

use crate::stage::{PROJECT, Stage, draw_id, name, source};

const QUEUE: JobQueue = JobQueue::Merger;

/// The result of the only merge.
fn result(outcomes: &[Outcome]) -> &MergeResult {
    let [Outcome::Merge { result, .. }] = outcomes else { panic!("{outcomes:?}") };
    result
}

#[tokio::test]
async fn a_change_is_merged_onto_its_branch_and_others_build_on_that() {
    let stage = Stage::new("merger-merges").await;
    let local = LocalSet::new();
    local
        .run_until(async {
            let merger = stage.merger(stage.session().await, "one").await;
            let first = stage.propose("first", "zuul.d/jobs.yaml", "[]\n");
            let request = stage.request(QUEUE, 200, stage.merge_params("first", &first, None)).await;
            let outcomes = stage.wait_for_outcomes(1).await;
            let MergeResult::Merged { state, parent, files, config } = result(&outcomes) else {
                panic!("{outcomes:?}")
            };
            assert_eq!((&state.base, parent), (&stage.sha("main"), &stage.sha("main")));
            assert_eq!(files.as_deref().unwrap(), ["zuul.d/jobs.yaml"]);
            assert_eq!(config.as_ref().unwrap()["zuul.d/jobs.yaml"], "[]\n");
            let done = stage.state(QUEUE, &request).await.unwrap();
            assert_eq!((done.state, done.worker.unwrap().name), (RequestState::Completed, "one".to_owned()));
            assert_eq!(stage.holders(QUEUE, &request).await, [""; 0]);
            merger.stop().await;

            // A machine that has nothing makes the first merge again, and the second on top of it.
            let second = stage.propose("second", "file", "text\n");
            let _merger = stage.merger(stage.session().await, "two").await;
            stage.request(QUEUE, 200, stage.merge_params("second", &second, Some(state.clone()))).await;
            let outcomes = stage.wait_for_outcomes(2).await;
            let MergeResult::Merged { state: both, parent, files, config } = result(&outcomes[1..]) else {
                panic!("{outcomes:?}")
            };
            assert_eq!((parent, files, config), (state.head(), &Some(vec!["file".to_owned()]), &None));
            assert_eq!((both.links.len(), &both.links[0]), (2, &state.links[0]));
        })
        .await;
}

#[tokio::test]
async fn what_cannot_be_merged_is_explained() {
    let stage = Stage::new("merger-explains").await;
    let local = LocalSet::new();
    local
        .run_until(async {
            let clash = stage.propose("clash", "README", "one\nzwei\nthree\n");
            stage.commit("README", "one\ndeux\nthree\n");
            stage.git(&["push", "-q", "origin", "main"]);
            let _merger = stage.merger(stage.session().await, "one").await;
            let mut no_target = stage.merge_params("clash", &clash, None);
            let mut no_patchset = no_target.clone();
            let Params::Merge(params) = &mut no_target else { unreachable!() };
            params.change.target = "stable".into();
            let Params::Merge(params) = &mut no_patchset else { unreachable!() };
            params.patchset = "1".repeat(40).parse().unwrap();
            for (params, message) in [
                (stage.merge_params("clash", &clash, None), "merge conflict in README"),
                (no_target, "org/app has no branch stable"),
                (no_patchset, "commit 1111111111111111111111111111111111111111 is not there"),
            ] {
                let count = stage.outcomes().await.len();
                stage.request(QUEUE, 200, params).await;
                let outcomes = stage.wait_for_outcomes(count + 1).await;
                match result(&outcomes[count..]) {
                    MergeResult::Conflict { message: told } => {
                        assert_eq!((count, told.as_str()), (0, message))
                    }
                    MergeResult::Failed { message: told } => assert!(told.starts_with(message), "{told}"),
                    merged @ MergeResult::Merged { .. } => panic!("{merged:?}"),
                }
            }
        })
        .await;
}

#[tokio::test]
async fn a_merger_that_cannot_leaves_the_request_to_others() {
    let stage = Stage::new("merger-gives-back").await;
    let local = LocalSet::new();
    local
        .run_until(async {
            let unconfigured = Settings { connections: BTreeMap::new(), ..stage.settings() };
            let _without = stage.merger_with(unconfigured, stage.session().await, "without").await;
            let patchset = stage.propose("topic", "file", "text\n");
            let merge = stage.request(QUEUE, 200, stage.merge_params("topic", &patchset, None)).await;
            let wanted = vec![(source(), "main".to_owned())];
            let tips = Params::Tips(TipsParams { buildset: name("buildset"), wanted });
            let tips = stage.request(QUEUE, 200, tips).await;
            let request =
                Request { state: RequestState::Requested, precedence: 0, pipeline: None, worker: None };
            let (cat, params) =
                (draw_id(), Params::Cat(CatParams { source: source(), commit: stage.sha("main") }));
            let term = stage.witness.term();
            retry::create(&term, QUEUE.waiter(&cat).path(), b"").await.unwrap();
            stage.submit(QUEUE, &cat, &request, &params).await;
            let given_back_by = async |worker: &str| {
                for id in [&merge, &tips, &cat] {
                    eventually_async("somebody has tried it and given it back", async || {
                        let found = stage.state(QUEUE, id).await?;
                        let is_free = stage.holders(QUEUE, id).await.is_empty();
                        (found.worker?.name == worker && is_free).then_some(())
                    })
                    .await;
                }
            };
            given_back_by("without").await;
            fs::write(stage.data("full").0, "no folder can be made here").unwrap();
            let _full = stage.merger(stage.session().await, "full").await;
            given_back_by("full").await;
            assert_eq!(stage.outcomes().await, []);
            let _able = stage.merger(stage.session().await, "able").await;
            let outcomes = stage.wait_for_outcomes(2).await;
            let is_good = |outcome: &Outcome| match outcome {
                Outcome::Merge { result, .. } => matches!(result, MergeResult::Merged { .. }),
                Outcome::Tips { tips, .. } => tips.is_ok(),
                Outcome::Build { .. } => false,
            };
            assert!(outcomes.iter().all(is_good), "{outcomes:?}");
            stage.wait_for_state(QUEUE, &cat, RequestState::Completed).await;
        })
        .await;
}

#[tokio::test]
async fn lists_that_no_znode_could_hold_are_left_out_or_refused() {
    let stage = Stage::new("merger-limits").await;
    let local = LocalSet::new();
    local
        .run_until(async {
            let _merger = stage.merger(stage.session().await, "one").await;
            stage.git(&["checkout", "-q", "-B", "propose/main/wide", "main"]);
            let folder = stage.path("clone/zuul.d").join("d".repeat(180));
            fs::create_dir_all(&folder).unwrap();
            for number in 0..1_100 {
                fs::write(folder.join(format!("{number}.yaml")), "").unwrap();
            }
            let wide = stage.commit("zuul.d/jobs.yaml", "[]\n");
            stage.git(&["push", "-q", "origin", "propose/main/wide"]);
            stage.git(&["checkout", "-q", "main"]);
            stage.request(QUEUE, 200, stage.merge_params("wide", &wide, None)).await;
            let outcomes = stage.wait_for_outcomes(1).await;
            let MergeResult::Merged { files: None, config: Some(config), .. } = result(&outcomes) else {
                panic!("{outcomes:?}")
            };
            assert_eq!(config.len(), 1_101, "the files are still looked at");

            let long = stage.propose("long", "zuul.yaml", &"# text\n".repeat(40_000));
            stage.request(QUEUE, 200, stage.merge_params("long", &long, None)).await;
            let outcomes = stage.wait_for_outcomes(2).await;
            let MergeResult::Failed { message } = result(&outcomes[1..]) else { panic!("{outcomes:?}") };
            let expected = "the configuration files of org/app exceed 256 KB together. Shorten them";
            assert!(message.starts_with(expected), "{message}");
        })
        .await;
}

#[tokio::test]
async fn damaged_parameters_fail_the_request_of_whoever_can_be_told() {
    let stage = Stage::new("merger-damaged").await;
    let local = LocalSet::new();
    local
        .run_until(async {
            let _merger = stage.merger(stage.session().await, "one").await;
            let merge = stage.request_damaged(QUEUE, r#"{"merge":{"buildset":"b1","new":1}}"#).await;
            stage.wait_for_outcomes(1).await;
            let tips = stage.request_damaged(QUEUE, r#"{"tips":{"buildset":"b2"}}"#).await;
            let outcomes = stage.wait_for_outcomes(2).await;
            let [
                Outcome::Merge { request: first, buildset: b1, result: MergeResult::Failed { message } },
                Outcome::Tips { request: second, buildset: b2, tips: Err(_) },
            ] = &outcomes[..]
            else {
                panic!("{outcomes:?}")
            };
            assert_eq!((first, b1, second, b2), (&merge, &name("b1"), &tips, &name("b2")));
            let expected =
                format!("one cannot read the parameters of request {merge}: missing field `source`");
            assert!(message.starts_with(&expected), "{message}");
            for id in [&merge, &tips] {
                stage.wait_for_state(QUEUE, id, RequestState::Completed).await;
            }
            let nobodys = stage.request_damaged(QUEUE, "garbage").await;
            stage.wait_for_state(QUEUE, &nobodys, RequestState::Running).await;
            eventually_async("it is given back", async || {
                stage.holders(QUEUE, &nobodys).await.is_empty().then_some(())
            })
            .await;
            assert_eq!(stage.outcomes().await.len(), 2);
        })
        .await;
}

#[tokio::test]
async fn tips_are_told_in_order_and_a_missing_branch_is_named() {
    let stage = Stage::new("merger-tips").await;
    let local = LocalSet::new();
    local
        .run_until(async {
            stage.git(&["push", "-q", "origin", "main:stable"]);
            let _merger = stage.merger(stage.session().await, "one").await;
            let wanted = |branches: &[&str]| {
                let wanted = branches.iter().map(|branch| (source(), (*branch).to_owned())).collect();
                Params::Tips(TipsParams { buildset: name("buildset"), wanted })
            };
            stage.request(QUEUE, 200, wanted(&["stable", "main"])).await;
            stage.wait_for_outcomes(1).await;
            stage.request(QUEUE, 200, wanted(&["main", "nowhere"])).await;
            let outcomes = stage.wait_for_outcomes(2).await;
            let [Outcome::Tips { tips: Ok(tips), .. }, Outcome::Tips { tips: Err(why), .. }] = &outcomes[..]
            else {
                panic!("{outcomes:?}")
            };
            let tip = stage.sha("main");
            let tip = |branch: &str| (PROJECT.to_owned(), branch.to_owned(), tip.clone());
            assert_eq!(tips, &[tip("stable"), tip("main")]);
            assert!(why.starts_with("org/app has no branch nowhere"), "{why}");
        })
        .await;
}

#[tokio::test]
async fn files_are_read_for_whoever_waits_and_for_nobody_else() {
    let stage = Stage::new("merger-cat").await;
    let local = LocalSet::new();
    local
        .run_until(async {
            let commit = stage.commit(".zuul.yaml", "- job: {name: unit}\n");
            stage.git(&["push", "-q", "origin", "main"]);
            let (waited, forgotten) = (draw_id(), draw_id());
            let term = stage.witness.term();
            let request =
                Request { state: RequestState::Requested, precedence: 0, pipeline: None, worker: None };
            let params = Params::Cat(CatParams { source: source(), commit });
            // The directories exist once something was submitted.
            stage.submit(QUEUE, &forgotten, &request, &params).await;
            retry::create(&term, QUEUE.waiter(&waited).path(), b"").await.unwrap();
            stage.submit(QUEUE, &waited, &request, &params).await;
            let _merger = stage.merger(stage.session().await, "one").await;
            eventually_async("the result is there", async || {
                term.stat(QUEUE.result(&waited).path()).await.unwrap()
            })
            .await;
            let blob = Blob::new(&stage.witness, QUEUE.result_data(&waited));
            let read = FilesRead::decode(&blob.read().await.unwrap().unwrap().0).unwrap();
            let files = read.files.unwrap();
            assert_eq!(
                files.into_iter().collect::<Vec<_>>(),
                [(".zuul.yaml".into(), "- job: {name: unit}\n".into())]
            );
            assert_eq!(stage.state(QUEUE, &waited).await.unwrap().state, RequestState::Completed);
            for gone in [QUEUE.request(&forgotten).path(), QUEUE.lock(&forgotten).path()] {
                eventually_async("what nobody waits for is removed", async || {
                    term.stat(gone).await.unwrap().is_none().then_some(())
                })
                .await;
            }
            assert_eq!(Blob::new(&stage.witness, QUEUE.result_data(&forgotten)).read().await.unwrap(), None);
        })
        .await;
}
