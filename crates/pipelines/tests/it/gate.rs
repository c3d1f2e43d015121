//! Scheduler, merger and executor over real servers, real git and a real journal: from a pushed proposal to the merge.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use menagerie_journal::Journal;
use menagerie_journal_directory::Journals;
use menagerie_kernel::{Session, retry};
use menagerie_pipelines::executor::Executor;
use menagerie_pipelines::history::{self, Filter};
use menagerie_pipelines::merger::Merger;
use menagerie_pipelines::scheduler::Scheduler;
use menagerie_pipelines::{Connection, Folder, Settings};
use menagerie_testkit::{LocalJournal, World, binary, eventually_async};
use menagerie_znodes::pipelines::{HistoryRecord, PipelineRecord, PipelineZnodes};
use menagerie_znodes::{Name, Payload as _};
use serde_json::json;
use tempfile::TempDir;

const PIPELINES: &str = "
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
- pipeline:
    name: post
    manager: independent
    trigger:
      local:
        - event: ref-updated
          ref: ^refs/heads/.*$
";

const JOBS: &str = "
- job:
    name: test
    run: test.sh
- project:
    gate:
      jobs: [test]
    post:
      jobs: [test]
";

/// Repositories, a journal, and a folder for everybody's data.
struct Site {
    folder: TempDir,
    world: World,
    journal: LocalJournal,
}

impl Site {
    fn new(name: &str) -> Self {
        Self::with_jobs(name, JOBS)
    }

    fn with_jobs(name: &str, jobs: &str) -> Self {
        let site = Self {
            folder: tempfile::tempdir().unwrap(),
            world: World::new(name),
            journal: LocalJournal::new(),
        };
        site.make("config", &[("zuul.yaml", PIPELINES)]);
        let test = "#!/bin/sh\necho saw $ZUUL_COMMIT\ntest ! -e broken\n";
        site.make("app", &[(".zuul.yaml", jobs), ("test.sh", test)]);
        site
    }

    fn bare(&self, project: &str) -> PathBuf {
        self.folder.path().join("git").join(project)
    }

    fn work(&self, project: &str) -> PathBuf {
        self.folder.path().join("work").join(project)
    }

    fn make(&self, project: &str, files: &[(&str, &str)]) {
        std::fs::create_dir_all(self.bare(project)).unwrap();
        std::fs::create_dir_all(self.work(project)).unwrap();
        git(&self.bare(project), &["init", "-q", "--bare", "-b", "main", "."]);
        git(&self.work(project), &["init", "-q", "-b", "main", "."]);
        git(&self.work(project), &["remote", "add", "origin", self.bare(project).to_str().unwrap()]);
        self.commit(project, files);
        git(&self.work(project), &["push", "-q", "origin", "main"]);
    }

    fn commit(&self, project: &str, files: &[(&str, &str)]) {
        for (name, text) in files {
            std::fs::write(self.work(project).join(name), text).unwrap();
            git(&self.work(project), &["add", "--", name]);
            if name.ends_with(".sh") {
                git(&self.work(project), &["update-index", "--chmod=+x", name]);
            }
        }
        git(&self.work(project), &["commit", "-q", "-m", "A change"]);
    }

    /// Proposes a change that is approved already.
    fn propose(&self, topic: &str, files: &[(&str, &str)]) {
        let (work, branch) = (self.work("app"), format!("propose/main/{topic}"));
        git(&work, &["checkout", "-q", "-b", &branch, "main"]);
        self.commit("app", files);
        let line = json!({
            "id": topic, "change": format!("app:{branch}"), "by": "somebody", "at_ms": 1, "votes": {"Approved": 1},
        });
        git(&work, &["notes", "--ref=menagerie", "add", "-m", &line.to_string(), "HEAD"]);
        git(&work, &["push", "-q", "origin", &branch, "refs/notes/menagerie"]);
        git(&work, &["checkout", "-q", "main"]);
    }

    fn settings(&self) -> Settings {
        let tenants = "- tenant:\n    name: main\n    source:\n      local:\n        config-projects: [config]\n        untrusted-projects: [app]\n";
        let connection = Connection {
            baseurl: self.folder.path().join("git").to_str().unwrap().to_owned(),
            host: "localhost".to_owned(),
            poll: Duration::from_millis(200),
            submit: BTreeMap::from([("Approved".to_owned(), 1)]),
        };
        Settings {
            tenants: tenants.to_owned(),
            connections: BTreeMap::from([("local".to_owned(), connection)]),
        }
    }

    fn journals(&self) -> Journals {
        Journals::from([("journal".to_owned(), Arc::new(self.journal.store().clone()) as Arc<dyn Journal>)])
    }

    fn data(&self, name: &str) -> Folder {
        Folder(self.folder.path().join(name))
    }

    async fn session(&self) -> Session {
        self.world.session().await
    }

    /// Waits until as many buildsets of a pipeline have ended.
    async fn ended(&self, pipeline: &str, count: usize) -> Vec<HistoryRecord> {
        eventually_async("buildsets have ended", async || {
            let filter = Filter { pipeline: Some(pipeline.to_owned()), ..Filter::default() };
            let mut found = history::list(&self.journals(), &filter).await.unwrap_or_default();
            // What is behind a failing item is tested again.
            found.retain(|record| record.result != "CANCELED");
            (found.len() >= count).then_some(found)
        })
        .await
    }

    fn main(&self) -> String {
        git(&self.bare("app"), &["rev-parse", "main"])
    }

    /// One of every role, for as long as the work takes.
    async fn with_fleet(&self, work: impl Future<Output = ()>) {
        let session = self.session().await;
        let (settings, name) = (self.settings(), "one".to_owned());
        let scheduler = Scheduler {
            session: session.clone(),
            journals: self.journals(),
            settings: settings.clone(),
            folder: self.data("scheduler"),
            name: name.clone(),
        };
        let merger = Merger {
            session: session.clone(),
            settings: settings.clone(),
            folder: self.data("merger"),
            name: name.clone(),
        };
        let guard = binary().to_owned();
        let executor = Executor { session, settings, folder: self.data("executor"), name, jobs: 2, guard };
        let never = std::future::pending::<()>;
        let done = tokio::time::timeout(Duration::from_secs(120), async {
            tokio::select! {
                ended = scheduler.run(async || {}, never()) => panic!("{ended:?}"),
                ended = merger.run(async || {}, never()) => panic!("{ended:?}"),
                ended = executor.run(async || {}, never()) => panic!("{ended:?}"),
                () = work => {}
            }
        });
        done.await.unwrap();
    }
}

fn git(folder: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command
        .current_dir(folder)
        .args(["-c", "user.name=Somebody", "-c", "user.email=somebody@localhost"])
        .args(args);
    let output = command.output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approved_proposal_is_tested_and_merged_as_it_was_tested() {
    let site = Site::new("gate");
    let before = site.main();
    site.propose("good", &[("greeting", "hello\n")]);
    site.propose("bad", &[("broken", "yes\n")]);
    site.with_fleet(async {
        let ended = site.ended("gate", 2).await;
        let of = |topic: &str| {
            let branch = format!("propose/main/{topic}");
            ended.iter().find(|record| record.refs[0].change.as_deref() == Some(branch.as_str())).unwrap()
        };
        let (good, bad) = (of("good"), of("bad"));
        assert_eq!((good.result.as_str(), bad.result.as_str()), ("SUCCESS", "FAILURE"), "{ended:#?}");
        assert!(good.refs[0].merged && !bad.refs[0].merged);
        let main = site.main();
        assert_eq!(good.refs[0].commit.as_ref().unwrap().as_str(), main);
        assert_eq!(good.refs[0].parent.as_ref().unwrap().as_str(), before);
        assert_eq!(git(&site.bare("app"), &["rev-parse", "main^1"]), before);
        assert_eq!(git(&site.bare("app"), &["rev-parse", "refs/menagerie/merged/main/good"]), main);
        let log = site.data("executor").log(good.builds[0].uuid.as_str());
        assert_eq!(std::fs::read_to_string(log).unwrap(), format!("saw {main}\n"));
        // The branch has moved, which is an event of its own.
        let post = site.ended("post", 1).await;
        assert_eq!(post[0].refs[0].newrev.as_ref().unwrap().as_str(), main);
        assert_eq!(post[0].result, "SUCCESS");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pass_that_does_not_fit_into_one_transaction_is_made_in_several() {
    // Jobs and parameters of three builds: together more than a transaction may be.
    let text = "x".repeat(250_000);
    let job = |name: &str| format!("- job: {{name: {name}, run: test.sh, vars: {{text: {text}}}}}\n");
    let project = "- project: {gate: {jobs: [a, b, c]}}\n";
    let site = Site::with_jobs("gate-long", &format!("{}{}{}{project}", job("a"), job("b"), job("c")));
    site.propose("good", &[("greeting", "hello\n")]);
    site.with_fleet(async {
        let ended = site.ended("gate", 1).await;
        assert_eq!((ended[0].result.as_str(), ended[0].builds.len()), ("SUCCESS", 3), "{ended:#?}");
        assert_eq!(ended[0].refs[0].commit.as_ref().unwrap().as_str(), site.main());
        let session = site.session().await;
        let term = session.term();
        let name = |text: &str| Name::new(text).unwrap();
        let gate = PipelineZnodes { tenant: name("main"), pipeline: name("gate") };
        assert!(term.stat(gate.dirty().path()).await.unwrap().is_none());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pass_that_was_interrupted_after_it_deleted_a_queue_does_not_stop_the_pipeline() {
    let site = Site::new("gate-interrupted");
    let name = |text: &str| Name::new(text).unwrap();
    let gate = PipelineZnodes { tenant: name("main"), pipeline: name("gate") };
    let session = site.session().await;
    let left = PipelineRecord { passes: 7, queues: vec![name("gone")], ..PipelineRecord::default() };
    retry::ensure(&session.term(), gate.root().path(), &left.encode()).await.unwrap();
    retry::ensure(&session.term(), gate.dirty().path(), b"").await.unwrap();
    site.propose("good", &[("greeting", "hello\n")]);
    site.with_fleet(async {
        let ended = site.ended("gate", 1).await;
        assert_eq!(ended[0].result, "SUCCESS", "{ended:#?}");
        assert!(session.term().stat(gate.dirty().path()).await.unwrap().is_none());
    })
    .await;
}
