//! Runs the agenda and the mirror against a model of a server: with any events in any order, the mirror of a path never
//! goes back in time, and in the end it equals the server's tree.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;

use super::agenda::{Agenda, Batch, Job};
use super::mirror::Mirror;
use crate::session::Stat;

const ROOT: &str = "/r";
const PATHS: [&str; 7] = ["/r", "/r/a", "/r/a/x", "/r/a/x/y", "/r/a-", "/r/b", "/r/b/z"];
const BATCH: Batch = Batch { paths_max: 3, bytes_max: 15 };

pub fn stat(czxid: i64, mzxid: i64, children: i32) -> Stat {
    Stat {
        czxid,
        mzxid,
        pzxid: czxid,
        ctime_ms: 0,
        mtime_ms: 0,
        version: 0,
        cversion: 0,
        aversion: 0,
        ephemeral_owner: 0,
        data_length: 0,
        children,
    }
}

#[derive(Debug, Clone)]
enum Action {
    Create(usize),
    Set(usize),
    Delete(usize),
    Issue,
    Serve,
    TakeEvent,
    TakeReply(prop::sample::Index),
    Reconnect,
}

type Data = Option<(Vec<u8>, Stat)>;

enum Answer {
    Read(Vec<(Arc<str>, Data)>),
    List(Arc<str>, Vec<String>),
}

#[derive(Default)]
struct World {
    zxid: i64,
    server: BTreeMap<&'static str, (i64, i64)>,
    events: VecDeque<&'static str>,
    requests: VecDeque<Job>,
    /// With the transaction that the server was at.
    replies: Vec<(i64, Answer)>,
    agenda: Agenda,
    mirror: Mirror,
    /// As of when each path is known.
    known: BTreeMap<Arc<str>, i64>,
}

impl World {
    fn children(&self, path: &str) -> Vec<String> {
        let names = self.server.keys().filter_map(|key| key.strip_prefix(path)?.strip_prefix('/'));
        names.filter(|name| !name.contains('/')).map(str::to_owned).collect()
    }

    fn found(&self, path: &str) -> Data {
        let (czxid, mzxid) = *self.server.get(path)?;
        let children = i32::try_from(self.children(path).len()).unwrap();
        Some((mzxid.to_string().into_bytes(), stat(czxid, mzxid, children)))
    }

    fn write(&mut self, path: &'static str, action: &Action) {
        let exists = self.server.contains_key(path);
        let parent = path.rsplit_once('/').unwrap().0;
        let next = self.zxid + 1;
        match action {
            Action::Create(_) if !exists && (path == ROOT || self.server.contains_key(parent)) => {
                self.server.insert(path, (next, next));
            }
            Action::Set(_) if exists => self.server.get_mut(path).unwrap().1 = next,
            Action::Delete(_) if exists && self.children(path).is_empty() => {
                self.server.remove(path);
            }
            _ => return,
        }
        self.zxid = next;
        self.events.push_back(path);
    }

    fn serve(&mut self) {
        let Some(job) = self.requests.pop_front() else { return };
        let answer = match job {
            Job::Read(paths) => {
                Answer::Read(paths.into_iter().map(|path| (path.clone(), self.found(&path))).collect())
            }
            Job::List(path) => {
                let names = self.children(&path);
                Answer::List(path, names)
            }
        };
        self.replies.push((self.zxid, answer));
    }

    fn take(&mut self, index: usize) {
        match self.replies.remove(index) {
            (zxid, Answer::Read(found)) => {
                for (path, found) in found {
                    let before = self.known.insert(path.clone(), zxid).unwrap_or(0);
                    assert!(before <= zxid, "{path} goes back in time");
                    self.agenda.read(&path, found, &mut self.mirror);
                }
            }
            (_, Answer::List(path, names)) => self.agenda.listed(&path, &names, &self.mirror),
        }
    }

    fn reconnect(&mut self) {
        self.events.clear();
        self.requests.clear();
        self.replies.clear();
        self.agenda.restart(&ROOT.into(), &self.mirror);
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Create(i) | Action::Set(i) | Action::Delete(i) => self.write(PATHS[*i], action),
            Action::Issue => self.requests.extend(self.agenda.next(BATCH)),
            Action::Serve => self.serve(),
            Action::TakeEvent => {
                if let Some(path) = self.events.pop_front() {
                    self.agenda.changed(&path.into());
                }
            }
            Action::TakeReply(index) if !self.replies.is_empty() => {
                self.take(index.index(self.replies.len()));
            }
            Action::TakeReply(_) => {}
            Action::Reconnect => self.reconnect(),
        }
    }

    fn settle(&mut self) {
        loop {
            while !self.events.is_empty() {
                self.act(&Action::TakeEvent);
            }
            self.act(&Action::Issue);
            self.serve();
            if self.replies.is_empty() {
                return;
            }
            self.take(0);
        }
    }
}

fn action() -> impl Strategy<Value = Action> {
    let path = 0..PATHS.len();
    prop_oneof![
        4 => path.clone().prop_map(Action::Create),
        2 => path.clone().prop_map(Action::Set),
        3 => path.prop_map(Action::Delete),
        4 => Just(Action::Issue),
        4 => Just(Action::Serve),
        4 => Just(Action::TakeEvent),
        4 => any::<prop::sample::Index>().prop_map(Action::TakeReply),
        1 => Just(Action::Reconnect),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn cache_never_goes_back_and_ends_with_what_the_server_has(
        before in proptest::collection::vec(action(), 0..20),
        during in proptest::collection::vec(action(), 0..120),
    ) {
        let mut world = World::default();
        for action in &before {
            // Nobody watches yet.
            if let Action::Create(i) | Action::Set(i) | Action::Delete(i) = action {
                world.write(PATHS[*i], action);
            }
        }
        world.reconnect();
        for action in &during {
            world.act(action);
        }
        world.settle();
        prop_assert!(world.agenda.is_walked());
        let server: BTreeMap<&str, Data> = world.server.keys().map(|path| (*path, world.found(path))).collect();
        let cached: BTreeMap<&str, Data> = world
            .mirror
            .paths()
            .map(|path| (&**path, world.mirror.get(path).map(|(data, stat)| (data.to_vec(), stat))))
            .collect();
        // Counts of children are as of the last read of the parent: nothing tells of their change.
        let essence = |tree: BTreeMap<&str, Data>| -> Vec<(String, Vec<u8>, i64, i64)> {
            tree.into_iter()
                .filter_map(|(path, found)| found.map(|(data, stat)| (path.to_owned(), data, stat.czxid, stat.mzxid)))
                .collect()
        };
        prop_assert_eq!(essence(cached), essence(server));
    }
}
