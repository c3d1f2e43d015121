//! Fixtures: a root of its own, repositories, requests, and what came of them.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use menagerie_kernel::recipes::lock::Lock;
use menagerie_kernel::recipes::sequence_queue::{Content, LIMIT, SequenceQueue};
use menagerie_kernel::{Session, Transaction, retry, unique};
use menagerie_pipelines::executor::Executor;
use menagerie_pipelines::git::Caches;
use menagerie_pipelines::merger::Merger;
use menagerie_pipelines::settings::POLL;
use menagerie_pipelines::{Connection, Folder, PipelineError, Settings};
use menagerie_testkit::eventually_async;
use menagerie_znodes::pipelines::{
    BranchState, BuildParams, Change, Checkout, FrozenJob, Id, JobQueue, MergeParams, Outcome, Params,
    PipelineRef, PipelineZnodes, RepoState, Request, RequestState, Sha, Source, Subject,
};
use menagerie_znodes::{MaybeDamaged, Name, Payload as _};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_local};

pub const PROJECT: &str = "org/app";

pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub fn draw_id() -> Id {
    name(&unique::hex())
}

pub fn source() -> Source {
    Source { connection: "local".into(), project: PROJECT.into() }
}

pub fn change(topic: &str) -> Change {
    Change { project: PROJECT.into(), target: "main".into(), topic: topic.into() }
}

/// A world with one remote repository, which has a commit on `main`, and somebody's clone of it.
pub struct Stage {
    world: menagerie_testkit::World,
    folder: TempDir,
    /// To look at what others do.
    pub witness: Session,
}

impl Deref for Stage {
    type Target = menagerie_testkit::World;

    fn deref(&self) -> &Self::Target {
        &self.world
    }
}

/// A role that runs in the background until it is stopped.
pub struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), PipelineError>>,
}

impl Running {
    /// Stops it, and waits until it has.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        (&mut self.task).await.unwrap().unwrap();
    }

    /// Tells it to stop.
    pub fn begin_stop(&mut self) {
        drop(self.stop.take());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A test that has failed leaves nothing running.
        self.task.abort();
    }
}

impl Stage {
    pub async fn new(name: &str) -> Self {
        let world = menagerie_testkit::World::new(name);
        let witness = world.session().await;
        let stage = Self { world, folder: tempfile::tempdir().unwrap(), witness };
        fs::create_dir_all(stage.path("git/org")).unwrap();
        stage.git_in(&stage.path("git/org"), &["init", "-q", "--bare", "-b", "main", "app.git"]);
        stage.git_in(&stage.path(""), &["init", "-q", "-b", "main", "clone"]);
        stage.git(&["remote", "add", "origin", stage.path("git/org/app.git").to_str().unwrap()]);
        stage.commit("README", "one\ntwo\nthree\n");
        stage.git(&["push", "-q", "origin", "main"]);
        stage
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn git(&self, args: &[&str]) -> String {
        self.git_in(&self.path("clone"), args)
    }

    fn git_in(&self, folder: &Path, args: &[&str]) -> String {
        let output = Command::new("git")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
            .args(args)
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub fn sha(&self, name: &str) -> Sha {
        self.git(&["rev-parse", name]).parse().unwrap()
    }

    /// Commits a file; scripts are executable.
    pub fn commit(&self, file: &str, content: &str) -> Sha {
        let path = self.path("clone").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        let mode = if content.starts_with("#!") { 0o755 } else { 0o644 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", &format!("Change {file}")]);
        self.sha("HEAD")
    }

    /// Pushes a proposal of one commit on top of `main`, and returns to `main`.
    pub fn propose(&self, topic: &str, file: &str, content: &str) -> Sha {
        let branch = format!("propose/main/{topic}");
        self.git(&["checkout", "-q", "-B", &branch, "main"]);
        let patchset = self.commit(file, content);
        self.git(&["push", "-q", "-f", "origin", &branch]);
        self.git(&["checkout", "-q", "main"]);
        patchset
    }

    pub fn settings(&self) -> Settings {
        let connection = Connection {
            baseurl: self.path("git").display().to_string(),
            host: "git.example.org".into(),
            poll: POLL,
            submit: BTreeMap::new(),
        };
        Settings { tenants: String::new(), connections: [("local".to_owned(), connection)].into() }
    }

    /// The data folder of a machine.
    pub fn data(&self, machine: &str) -> Folder {
        Folder(self.path(machine))
    }

    /// Starts a merger, on a machine of its own; returns when it is ready.
    pub async fn merger(&self, session: Session, machine: &str) -> Running {
        self.merger_with(self.settings(), session, machine).await
    }

    /// The same, with settings of its own.
    pub async fn merger_with(&self, settings: Settings, session: Session, machine: &str) -> Running {
        let folder = self.data(machine);
        let merger = Merger { session, settings, folder, name: machine.to_owned() };
        start(async move |Signals { ready, stop }| {
            // Told by dropping the sender.
            let stop = async { drop(stop.await) };
            merger.run(async || ready.send(()).unwrap(), stop).await
        })
        .await
    }

    /// Starts an executor, which may run two builds at a time.
    pub async fn executor(&self, session: Session, machine: &str) -> Running {
        let (settings, folder) = (self.settings(), self.data(machine));
        let guard = menagerie_testkit::binary().to_owned();
        let executor = Executor { session, settings, folder, name: machine.to_owned(), jobs: 2, guard };
        start(async move |Signals { ready, stop }| {
            // Told by dropping the sender.
            let stop = async { drop(stop.await) };
            executor.run(async || ready.send(()).unwrap(), stop).await
        })
        .await
    }

    pub fn gate(&self) -> PipelineZnodes {
        PipelineZnodes { tenant: name("main"), pipeline: name("gate") }
    }

    /// Requests something for the gate, as a scheduler does.
    pub async fn request(&self, queue: JobQueue, precedence: u32, params: Params) -> Id {
        let id = draw_id();
        self.submit(queue, &id, &self.of_gate(precedence), &params).await;
        id
    }

    fn of_gate(&self, precedence: u32) -> Request {
        let PipelineZnodes { tenant, pipeline } = self.gate();
        let pipeline = Some(PipelineRef { tenant, pipeline });
        Request { state: RequestState::Requested, precedence, pipeline, worker: None }
    }

    /// Creates a request as it is.
    pub async fn submit(&self, queue: JobQueue, id: &Id, request: &Request, params: &Params) {
        self.submit_maybe_damaged(queue, id, request, &MaybeDamaged::Sound(params.clone())).await;
    }

    async fn submit_maybe_damaged(
        &self,
        queue: JobQueue,
        id: &Id,
        request: &Request,
        params: &MaybeDamaged<Params>,
    ) {
        let term = self.witness.term();
        for directory in queue.directories() {
            retry::ensure(&term, directory.path(), b"").await.unwrap();
        }
        let transaction = Transaction::new(&term)
            .create(&queue.param(id).maybe_damaged(), params)
            .create(&queue.request(id), request);
        transaction.commit().await.unwrap();
    }

    /// Requests something for the gate with parameters that do not decode.
    pub async fn request_damaged(&self, queue: JobQueue, params: &str) -> Id {
        let params = MaybeDamaged::Damaged { data: params.into(), why: String::new() };
        let id = draw_id();
        self.submit_maybe_damaged(queue, &id, &self.of_gate(200), &params).await;
        id
    }

    pub fn merge_params(&self, topic: &str, patchset: &Sha, onto: Option<BranchState>) -> Params {
        Params::Merge(MergeParams {
            buildset: name("buildset"),
            source: source(),
            change: change(topic),
            patchset: patchset.clone(),
            onto,
        })
    }

    /// The parameters of a build of a merged change, whose job runs `run`.
    pub fn build_params(&self, state: &BranchState, run: &str) -> BuildParams {
        let link = state.links.last().unwrap();
        let parent = state.links.iter().rev().nth(1).map_or(&state.base, |link| &link.commit).clone();
        let checkout = Checkout { source: source(), host: "git.example.org".into(), branch: "main".into() };
        let branches = BTreeMap::from([("main".to_owned(), state.clone())]);
        BuildParams {
            tenant: name("main"),
            pipeline: name("gate"),
            buildset: name("buildset"),
            job: job(run),
            attempt: 1,
            subject: Subject::Change { change: link.change.clone(), patchset: link.patchset.clone() },
            commit: link.commit.clone(),
            parent,
            checkouts: vec![checkout.clone()],
            run_from: Some(checkout),
            state: RepoState(BTreeMap::from([(PROJECT.to_owned(), branches)])),
        }
    }

    /// Merges a proposal onto `main`, as a merger of another machine would.
    pub async fn merged(&self, topic: &str, patchset: &Sha) -> BranchState {
        let url = self.path("git/org/app.git").display().to_string();
        let repository =
            Caches::new(self.path("elsewhere")).repository("local", PROJECT, &url).await.unwrap();
        let base: Sha = self.git(&["rev-parse", "origin/main"]).parse().unwrap();
        repository.require(&[&base, patchset]).await.unwrap();
        let merged = repository.merge(&base, &change(topic), patchset).await.unwrap();
        let menagerie_pipelines::git::Merge::Commit(commit) = merged else { panic!("{merged:?}") };
        let link =
            menagerie_znodes::pipelines::Link { change: change(topic), patchset: patchset.clone(), commit };
        BranchState { base, links: vec![link] }
    }

    /// All results that were put for the gate, in order.
    pub async fn outcomes(&self) -> Vec<Outcome> {
        let results = SequenceQueue::new(&self.witness, self.gate().results(), LIMIT);
        let entries = results.entries(None, 1_000).await.unwrap();
        let decode = |content| match content {
            Content::Whole(data) => Outcome::decode(&data).unwrap(),
            Content::Damaged(why) => panic!("{why}"),
        };
        entries.into_iter().map(|entry| decode(entry.content)).collect()
    }

    /// Waits until this many results were put.
    pub async fn wait_for_outcomes(&self, count: usize) -> Vec<Outcome> {
        eventually_async("results are put", async || {
            Some(self.outcomes().await).filter(|outcomes| outcomes.len() >= count)
        })
        .await
    }

    pub async fn state(&self, queue: JobQueue, id: &Id) -> Option<Request> {
        self.witness.term().read(&queue.request(id)).await.unwrap().map(|found| found.value)
    }

    pub async fn wait_for_state(&self, queue: JobQueue, id: &Id, state: RequestState) {
        eventually_async("the request gets there", async || {
            self.state(queue, id).await.filter(|request| request.state == state).map(drop)
        })
        .await;
    }

    /// Who holds or wants a request.
    pub async fn holders(&self, queue: JobQueue, id: &Id) -> Vec<String> {
        let contenders = Lock::new(&self.witness, queue.lock(id)).contenders().await.unwrap();
        contenders.into_iter().map(|contender| contender.identifier).collect()
    }
}

/// A job that runs a file of the project.
pub fn job(run: &str) -> FrozenJob {
    FrozenJob {
        name: "unit".into(),
        run: run.into(),
        project: PROJECT.into(),
        branch: "main".into(),
        is_trusted: false,
        is_voting: true,
        timeout_s: 600,
        attempts: 3,
        dependencies: Vec::new(),
        required_projects: Vec::new(),
        vars: [("colour".to_owned(), "green".into())].into_iter().collect(),
    }
}

/// Tells that a role is ready, and hears when it is to stop.
struct Signals {
    ready: oneshot::Sender<()>,
    stop: oneshot::Receiver<()>,
}

/// Starts a role, and waits until it is ready.
async fn start(role: impl AsyncFnOnce(Signals) -> Result<(), PipelineError> + 'static) -> Running {
    let (stop, stopped) = oneshot::channel();
    let (ready, is_ready) = oneshot::channel();
    let task = spawn_local(role(Signals { ready, stop: stopped }));
    is_ready.await.expect("it becomes ready");
    Running { stop: Some(stop), task }
}
