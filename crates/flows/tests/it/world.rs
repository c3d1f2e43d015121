//! Fixtures: a root of its own, a journal, a folder with files, coordinators, peers, and what they wrote.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use menagerie_flows::JobId;
use menagerie_flows::client::{self, Ended, Jobs};
use menagerie_flows::coordinator::Coordinator;
use menagerie_flows::files::output;
use menagerie_flows::job::{Document, Job, read};
use menagerie_flows::peer::Peers;
use menagerie_journal::Journal;
use menagerie_journal::client::{Address, Client};
use menagerie_journal::token::Token;
use menagerie_journal_directory::Journals;
use menagerie_kernel::Session;
use menagerie_testkit::{LocalJournal, Proxy};
use menagerie_znodes::Name;
use menagerie_znodes::flows::{Deployment, PeerRecord};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The head and the ends of a job; the test adds what is between `read` and `write`.
const ENDS: &str = r#"
name = "test"
[[catalog]]
name = "read"
type = "input"
plugin = "jsonl"
path = "in/*.jsonl"
[[catalog]]
name = "write"
type = "output"
plugin = "jsonl"
path = "out"
"#;

/// A task that counts words, behind a grouper.
const COUNT: &str = r#"
[[catalog]]
name = "by-word"
type = "grouper"
key = ".word"
[[catalog]]
name = "count"
type = "aggregator"
builtin = "count"
"#;

/// A world with a journal in this process, and files.
pub struct World {
    world: menagerie_testkit::World,
    pub journal: LocalJournal,
    folder: TempDir,
}

impl Deref for World {
    type Target = menagerie_testkit::World;

    fn deref(&self) -> &Self::Target {
        &self.world
    }
}

/// Something that runs in the background until it is stopped.
pub struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Running {
    /// Stops it, and waits until it has.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        (&mut self.task).await.unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A test that has failed leaves nothing running.
        self.task.abort();
    }
}

impl World {
    pub fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("in")).unwrap();
        Self { world: menagerie_testkit::World::new(name), journal: LocalJournal::new(), folder }
    }

    pub fn deployment(&self) -> Deployment {
        Deployment::new(Name::new("test").unwrap())
    }

    pub fn jobs(&self, session: &Session) -> Jobs {
        Jobs { session: session.clone(), deployment: self.deployment() }
    }

    /// The journal, called directly within this process.
    pub fn journals(&self) -> Journals {
        Journals::from([("local".to_owned(), Arc::new(self.journal.store().clone()) as _)])
    }

    /// The journal over a network that the test disturbs.
    pub fn journals_through_proxy(&mut self) -> (Journals, Proxy) {
        self.journal.serve();
        let proxy = Proxy::of_bytes(self.journal.address());
        let token = Token::read(&self.journal.token_file()).unwrap();
        let client = Client::new(Address::plain(proxy.address().to_string(), token));
        (Journals::from([("local".to_owned(), Arc::new(client) as _)]), proxy)
    }

    /// Writes an input file.
    pub fn write(&self, name: &str, lines: impl IntoIterator<Item = String>) -> PathBuf {
        let path = self.folder.path().join("in").join(name);
        let text: String = lines.into_iter().map(|line| line + "\n").collect();
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes a file of so many words; returns how often each of them is there.
    pub fn write_words(&self, name: &str, count: u64, distinct: u64) -> BTreeMap<String, u64> {
        let words: Vec<String> = (0..count).map(|n| format!("w{}", n * n % distinct)).collect();
        self.write(name, words.iter().map(|word| format!("{{\"word\": \"{word}\"}}")));
        let mut counts = BTreeMap::new();
        words.into_iter().for_each(|word| *counts.entry(word).or_default() += 1);
        counts
    }

    pub fn job(&self, workflow: &str, rest: &str) -> Job {
        let text = format!("workflow = {workflow}\n{ENDS}\n{rest}");
        read::job(&Document::parse(&text).unwrap().value, self.folder.path()).unwrap()
    }

    /// The word count of the documentation.
    pub fn word_count(&self) -> Job {
        self.job(r#"[["read", "by-word"], ["by-word", "count"], ["count", "write"]]"#, COUNT)
    }

    /// The same with a second grouper beside the first: every word counts twice.
    pub fn diamond(&self) -> Job {
        let other = COUNT.replace("by-word", "also-by-word").split("[[catalog]]").nth(1).unwrap().to_owned();
        let workflow = r#"[["read", "by-word"], ["read", "also-by-word"], ["by-word", "count"],
            ["also-by-word", "count"], ["count", "write"]]"#;
        self.job(workflow, &format!("{COUNT}\n[[catalog]]\n{other}"))
    }

    pub async fn submit(&self, session: &Session, job: &Job) -> JobId {
        let id = client::new_id();
        // As `flow submit` does; the same folder may have been another job's.
        let out = self.folder.path().join("out");
        let _ = fs::remove_dir_all(&out);
        output::claim(&out, id.as_str()).unwrap();
        self.jobs(session).submit(&id, job).await.unwrap();
        id
    }

    pub async fn wait(&self, session: &Session, id: &JobId) -> Ended {
        self.jobs(session).wait(id, |_| {}).await.unwrap()
    }

    /// Starts a coordinator; it stands for election when this returns.
    pub async fn coordinator(&self, session: &Session, journals: Journals) -> Running {
        let engine = Coordinator { session: session.clone(), journals, deployment: self.deployment() };
        let (stop, stopped) = oneshot::channel();
        let (tell, stands) = oneshot::channel();
        let task = tokio::spawn(async move {
            let standing = async || tell.send(()).unwrap_or_default();
            engine.run("test", standing, async { drop(stopped.await) }).await.unwrap();
        });
        stands.await.unwrap();
        Running { stop: Some(stop), task }
    }

    /// Starts a peer in a session of its own; it has registered when this returns.
    pub async fn peer(&self, session: Session, journals: Journals) -> Running {
        let record = PeerRecord { host: "test".to_owned(), pid: 1 };
        let peers = Peers { journals, deployment: self.deployment(), record };
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, registered) = oneshot::channel();
        let task = tokio::spawn(async move {
            let lived = async { drop(peers.run(&session, || tell.send(()).unwrap_or_default()).await) };
            tokio::select! {
                () = lived => {}
                _ = stopped => session.close().await,
            }
        });
        registered.await.unwrap();
        Running { stop: Some(stop), task }
    }

    /// Starts so many peers.
    pub async fn peers(&self, count: usize, journals: &Journals) -> Vec<Running> {
        let mut peers = Vec::new();
        for _ in 0..count {
            peers.push(self.peer(self.session().await, journals.clone()).await);
        }
        peers
    }

    /// Replaces the output folder by one with a file of this name.
    pub fn give_away_output(&self, name: &str) -> PathBuf {
        let out = self.folder.path().join("out");
        fs::remove_dir_all(&out).unwrap();
        fs::create_dir(&out).unwrap();
        fs::write(out.join(name), "precious").unwrap();
        out.join(name)
    }

    /// The lines of all parts, in the order of their names. The job must have said that it is complete.
    pub fn written(&self) -> Vec<String> {
        let out = self.folder.path().join("out");
        assert!(out.join("_SUCCESS").exists());
        let mut parts: Vec<PathBuf> =
            fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()).collect();
        parts.sort();
        let is_known = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name == "_SUCCESS" || name.starts_with("part-") && name.ends_with(".jsonl")
        };
        assert!(parts.iter().all(is_known), "{parts:?}");
        let texts = parts
            .iter()
            .filter(|path| !path.ends_with("_SUCCESS"))
            .map(|path| fs::read_to_string(path).unwrap());
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    /// The counts that were written; every key once.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for line in self.written() {
            let value: serde_json::Value = serde_json::from_str(&line).unwrap();
            let key = value["key"].as_str().unwrap().to_owned();
            let again = counts.insert(key, value["value"].as_u64().unwrap());
            assert_eq!(again, None, "{line}");
        }
        counts
    }

    /// Topics of flows that the journal has.
    pub async fn topics(&self) -> Vec<String> {
        let topics = self.journal.store().topics().await.unwrap();
        topics.into_iter().map(|view| view.topic.as_str().to_owned()).collect()
    }
}
