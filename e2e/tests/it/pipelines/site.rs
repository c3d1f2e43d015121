//! A site with repositories, and a user who operates pipelines over them.

use std::fs;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use menagerie_testkit::{Daemon, eventually};
use serde_json::Value;

use crate::cli::{Done, User};

/// Pipelines of the config project.
const PIPELINES: &str = "
- pipeline:
    name: check
    manager: independent
    trigger:
      local:
        - event: patchset-created
    success:
      local:
        Verified: 1
    failure:
      local:
        Verified: -1
- pipeline:
    name: gate
    manager: dependent
    trigger:
      local:
        - event: comment-added
          approval:
            - Approved: 1
    success:
      local:
        Verified: 2
        submit: true
    failure:
      local:
        Verified: -2
- queue:
    name: integrated
";

const MENAGERIE_TOML: &str = r#"[pipelines]
tenants = "tenants.yaml"
[pipelines.connections.local]
driver = "git"
baseurl = "git"
poll = "1s"
submit = { Approved = 1 }
"#;

/// A job's program. It prints what it sees, waits while builds are held, and fails if the change under test adds a file below
/// `fail/`.
const TEST: &str = "#!/bin/sh
while [ -e HOLD ]; do sleep 0.02; done
echo commit $ZUUL_COMMIT parent $ZUUL_PARENT head $(git rev-parse HEAD) first $(git rev-parse HEAD^1)
! git diff --name-only HEAD^1 HEAD | grep -q '^fail/'
";

/// Repositories, and a user.
pub struct Site {
    user: User,
}

impl Deref for Site {
    type Target = User;

    fn deref(&self) -> &User {
        &self.user
    }
}

impl Site {
    /// A site whose projects run two jobs in check and gate, and share a queue.
    pub fn new(user: User, projects: &[&str]) -> Self {
        let site = Self::without_repositories(user, projects);
        for project in projects {
            site.make_usual(project);
        }
        site
    }

    /// A site with pipelines, whose tenant has these projects, but no repositories of them yet.
    pub fn without_repositories(user: User, projects: &[&str]) -> Self {
        let site = Self { user };
        let mut tenants = "- tenant:\n    name: main\n    source:\n      local:\n        config-projects:\n          - org/config\n        untrusted-projects:\n".to_owned();
        for project in projects {
            tenants.push_str(&format!("          - {project}\n"));
        }
        site.write("tenants.yaml", &tenants);
        site.write("menagerie.toml", MENAGERIE_TOML);
        site.make("org/config", &[("zuul.yaml", PIPELINES)]);
        site
    }

    /// Lets repositories be looked at so often; for roles that are started from now on.
    pub fn poll(&self, interval: &str) {
        let text = MENAGERIE_TOML.replace("poll = \"1s\"", &format!("poll = \"{interval}\""));
        self.write("menagerie.toml", &text);
    }

    /// Adds pipelines to the usual ones.
    pub fn add_pipelines(&self, more: &str) {
        self.push_by_hand("org/config", &[("zuul.yaml", &format!("{PIPELINES}{more}"))]);
    }

    /// Starts one of every role, and waits until the pipelines are there.
    pub fn fleet(&self) -> Fleet {
        let fleet = Fleet {
            _journal: self.serve(&["journal"]),
            _merger: self.start(&["merger"]),
            _executor: self.serve(&["executor", "--jobs", "8"]),
            _scheduler: self.start(&["scheduler"]),
        };
        wait_for_pipelines(self);
        fleet
    }

    /// A repository with two jobs in check and gate.
    pub fn make_usual(&self, project: &str) {
        let test = TEST.replace("HOLD", self.hold_file().to_str().expect("its name is text"));
        let files = [(".zuul.yaml", &*jobs(project)), ("ci/test.sh", &*test), ("shared.txt", "one\n")];
        self.make(project, &files);
    }

    fn hold_file(&self) -> PathBuf {
        self.folder().join("hold")
    }

    /// Holds the usual jobs where they begin.
    pub fn hold_builds(&self) {
        fs::write(self.hold_file(), "").expect("a file can be written");
    }

    /// Lets them go on.
    pub fn release_builds(&self) {
        fs::remove_file(self.hold_file()).expect("builds are held");
    }

    /// Makes a repository with these files on its branch `main`. What lies in `ci/` is executable.
    pub fn make(&self, project: &str, files: &[(&str, &str)]) {
        let bare = self.bare(project);
        fs::create_dir_all(&bare).expect("a folder can be made");
        git(&bare, &["init", "-q", "--bare", "-b", "main", "."]);
        let work = self.work(project);
        fs::create_dir_all(&work).expect("a folder can be made");
        git(&work, &["init", "-q", "-b", "main", "."]);
        git(&work, &["remote", "add", "origin", bare.to_str().expect("its name is text")]);
        self.commit(project, files, "The beginning");
        git(&work, &["push", "-q", "origin", "main"]);
    }

    /// The folder of a project's repository.
    pub fn bare(&self, project: &str) -> PathBuf {
        self.folder().join("git").join(project)
    }

    fn work(&self, project: &str) -> PathBuf {
        self.folder().join("work").join(project)
    }

    fn commit(&self, project: &str, files: &[(&str, &str)], message: &str) {
        let work = self.work(project);
        for (name, text) in files {
            let path = work.join(name);
            fs::create_dir_all(path.parent().expect("it lies in a folder")).expect("a folder can be made");
            fs::write(&path, text).expect("a file can be written");
            if name.starts_with("ci/") {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
            }
            git(&work, &["add", "--", name]);
        }
        git(&work, &["commit", "-q", "--allow-empty", "-m", message]);
    }

    /// Proposes a change from what `main` was in the beginning; returns its name.
    pub fn propose(&self, project: &str, topic: &str, files: &[(&str, &str)], message: &str) -> String {
        let (work, branch) = (self.work(project), format!("propose/main/{topic}"));
        git(&work, &["checkout", "-q", "-B", &branch, "main"]);
        self.commit(project, files, message);
        git(&work, &["push", "-q", "-f", "origin", &branch]);
        git(&work, &["checkout", "-q", "main"]);
        format!("{project}:{branch}")
    }

    /// A push by hand to the branch `main` as it is now.
    pub fn push_by_hand(&self, project: &str, files: &[(&str, &str)]) -> String {
        let work = self.work(project);
        loop {
            git(&work, &["fetch", "-q", "origin", "main"]);
            git(&work, &["checkout", "-q", "-B", "by-hand", "FETCH_HEAD"]);
            self.commit(project, files, "By hand");
            let pushed =
                git_command(&work, &["push", "-q", "origin", "by-hand:main"]).output().expect("git runs");
            let commit = git(&work, &["rev-parse", "HEAD"]);
            git(&work, &["checkout", "-q", "main"]);
            // The gate may have been faster.
            if pushed.status.success() {
                return commit;
            }
        }
    }

    /// A ref of the repository; empty if there is none.
    pub fn reference(&self, project: &str, name: &str) -> String {
        let found = git_command(&self.bare(project), &["rev-parse", "-q", "--verify", name])
            .output()
            .expect("git runs");
        String::from_utf8_lossy(&found.stdout).trim().to_owned()
    }

    /// Commits of `main` along first parents, the newest first, each with its first parent.
    pub fn history_of_main(&self, project: &str) -> Vec<(String, String)> {
        let text = git(&self.bare(project), &["log", "--first-parent", "--format=%H %P", "main"]);
        let pair = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            (words.next().unwrap_or_default(), words.next().unwrap_or_default())
        };
        text.lines().map(pair).collect()
    }

    /// Whether a file is on `main`.
    pub fn has(&self, project: &str, file: &str) -> bool {
        !self.reference(project, &format!("main:{file}")).is_empty()
    }

    /// The notes on a commit: votes, comments and reports, a JSON object a line.
    pub fn notes(&self, project: &str, commit: &str) -> String {
        let args = ["notes", "--ref", "menagerie", "show", commit];
        let found = git_command(&self.bare(project), &args).output().expect("git runs");
        String::from_utf8_lossy(&found.stdout).into_owned()
    }

    /// Runs git in the user's clone of a project.
    pub fn git_in_work(&self, project: &str, args: &[&str]) -> String {
        git(&self.work(project), args)
    }

    /// All buildsets of the history, newest first.
    pub fn history(&self, args: &[&str]) -> Vec<Value> {
        let found = self.json(&[&["pipeline", "history", "--limit", "0"], args].concat());
        found.as_array().expect("a list").clone()
    }

    /// Waits for a change's result in a pipeline.
    pub fn wait(&self, change: &str, pipeline: &str) -> Done {
        self.run(&["pipeline", "wait", change, "--pipeline", pipeline])
    }

    /// Approves a change, and insists that it is merged.
    #[track_caller]
    pub fn merge(&self, change: &str) {
        self.ok(&["pipeline", "approve", change]);
        let done = self.wait(change, "gate");
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    }

    /// The newest buildset of a change in a pipeline, once there is one. Quicker than `pipeline wait`, which makes sure that no
    /// other result is on its way.
    #[track_caller]
    pub fn newest(&self, change: &str, pipeline: &str) -> Value {
        let args = ["--pipeline", pipeline, "--change", change];
        eventually("a result", || self.history(&args).first().cloned())
    }

    /// Waits until the status of all pipelines is as `wanted` has it.
    #[track_caller]
    pub fn wait_for_status<T>(&self, what: &str, wanted: impl Fn(&Value) -> Option<T>) -> T {
        eventually(what, || wanted(&self.json(&["pipeline", "status"])))
    }

    /// How a change ended in the gate, last.
    pub fn result(&self, change: &str) -> Option<String> {
        let found = self.history(&["--pipeline", "gate", "--change", change]);
        Some(found.first()?["result"].as_str()?.to_owned())
    }
}

/// One of every role. Dropping it kills them.
pub struct Fleet {
    _journal: Daemon,
    _merger: Daemon,
    _executor: Daemon,
    _scheduler: Daemon,
}

/// Waits until the first layout was made: before, there are neither tenants nor pipelines.
pub fn wait_for_pipelines(user: &User) {
    eventually("pipelines", || {
        let status = user.run(&["pipeline", "status", "-o", "json"]).text();
        status.contains("\"manager\"").then_some(())
    });
}

fn jobs(project: &str) -> String {
    let name = project.replace('/', "-");
    format!(
        "
- job:
    name: {name}-show
    run: ci/test.sh
    timeout: 60
- job:
    name: {name}-test
    run: ci/test.sh
    timeout: 60
- project:
    queue: integrated
    check:
      jobs:
        - {name}-test
    gate:
      jobs:
        - {name}-show
        - {name}-test
"
    )
}

fn git_command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(folder)
        .args(["-c", "user.name=Somebody", "-c", "user.email=somebody@localhost"])
        .args(args);
    command
}

#[track_caller]
fn git(folder: &Path, args: &[&str]) -> String {
    let output = git_command(folder, args).output().expect("git runs");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
