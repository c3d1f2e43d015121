//! Notifications, against a naive list of watches that is searched linearly.

use std::collections::{BTreeMap, BTreeSet};

use menagerie_wire::{Acl, EventKind, Perms, Request, WatchMode, WatcherKind};
use proptest::collection::vec;
use proptest::prelude::*;

use super::model::{Model, parent};
use super::script::{Pick, Step, Version, Who, Write, identities, step};
use super::world::{Notification, WATCH_BYTES_MAX, WATCH_BYTES_PER_CONNECTION, World};
use crate::core::watches::WATCH_BYTES;
use crate::core::{Caller, Change, ConnId, invariants};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Data,
    Child,
    Persistent,
    Recursive,
}

use Kind::{Child, Data, Persistent, Recursive};

/// Every watch there is, and who may read what.
#[derive(Debug)]
struct Naive {
    watches: BTreeSet<(ConnId, String, Kind)>,
    acls: BTreeMap<String, Vec<Acl>>,
}

impl Naive {
    fn new() -> Self {
        let acls = Model::new().nodes.into_iter().map(|(path, node)| (path, node.acl)).collect();
        Self { watches: BTreeSet::new(), acls }
    }

    /// Fires an event; one-shot watches that fired are gone.
    fn fire(&mut self, kind: EventKind, at: &str, zxid: i64, notified: &mut Vec<Notification>) {
        let exact: &[Kind] = match kind {
            EventKind::Created | EventKind::DataChanged => &[Data, Persistent, Recursive],
            EventKind::Deleted => &[Data, Child, Persistent, Recursive],
            EventKind::ChildrenChanged => &[Child, Persistent],
        };
        let is_above = |path: &str| path == "/" || at.starts_with(&format!("{path}/"));
        let hears = |(_, path, watch): &&(ConnId, String, Kind)| {
            path == at && exact.contains(watch)
                || *watch == Recursive && kind != EventKind::ChildrenChanged && is_above(path)
        };
        let conns: BTreeSet<ConnId> = self.watches.iter().filter(hears).map(|(conn, _, _)| *conn).collect();
        let readers = Some(self.acls[at].clone());
        let path = at.to_owned();
        notified.extend(conns.into_iter().map(|conn| Notification {
            conn,
            kind,
            path: path.clone(),
            zxid,
            readers: readers.clone(),
        }));
        let used_up: &[Kind] = match kind {
            EventKind::Created | EventKind::DataChanged => &[Data],
            EventKind::Deleted => &[Data, Child],
            EventKind::ChildrenChanged => &[Child],
        };
        self.watches.retain(|(_, path, watch)| path != at || !used_up.contains(watch));
    }

    /// The notifications of one durable transaction.
    fn fire_all(&mut self, zxid: i64, changes: &[Change]) -> Vec<Notification> {
        let mut notified = Vec::new();
        for change in changes {
            let (kind, path) = match change {
                Change::Create { path, acl, .. } => {
                    self.acls.insert(path.to_string(), acl.to_vec());
                    (EventKind::Created, path)
                }
                Change::Delete { path, .. } => (EventKind::Deleted, path),
                Change::SetData { path, .. } => (EventKind::DataChanged, path),
                Change::SetAcl { path, acl, .. } => {
                    self.acls.insert(path.to_string(), acl.to_vec());
                    continue;
                }
                Change::OpenSession { .. } | Change::CloseSession { .. } => continue,
            };
            self.fire(kind, path, zxid, &mut notified);
            if kind != EventKind::DataChanged {
                let above = parent(path).expect("only what has a parent comes and goes");
                self.fire(EventKind::ChildrenChanged, above, zxid, &mut notified);
            }
        }
        notified
    }

    /// Whether another watch would be within the limits, or costs nothing.
    fn has_room(&self, conn: ConnId, path: &str) -> bool {
        let pairs: BTreeSet<(ConnId, &str)> =
            self.watches.iter().map(|(conn, path, _)| (*conn, path.as_str())).collect();
        let cost = |(_, path): &(ConnId, &str)| path.len() + WATCH_BYTES;
        let own: usize = pairs.iter().filter(|(other, _)| *other == conn).map(cost).sum();
        let all: usize = pairs.iter().map(cost).sum();
        let more = cost(&(conn, path));
        pairs.contains(&(conn, path))
            || own + more <= WATCH_BYTES_PER_CONNECTION && all + more <= WATCH_BYTES_MAX
    }

    fn has(&self, conn: ConnId, path: &str, kind: WatcherKind) -> bool {
        kinds(kind).iter().any(|watch| self.watches.contains(&(conn, path.to_owned(), *watch)))
    }

    fn remove(&mut self, conn: ConnId, path: &str, kind: WatcherKind) {
        let kinds = kinds(kind);
        self.watches.retain(|(c, p, k)| *c != conn || p != path || !kinds.contains(k));
    }
}

fn kinds(kind: WatcherKind) -> Vec<Kind> {
    match kind {
        WatcherKind::Data => vec![Data],
        WatcherKind::Children => vec![Child],
        WatcherKind::Any => vec![Data, Child, Persistent, Recursive],
        WatcherKind::Persistent => vec![Persistent],
        WatcherKind::PersistentRecursive => vec![Recursive],
    }
}

/// What happens.
#[derive(Debug, Clone)]
enum Act {
    /// A client asks something about watches on a path.
    Ask(Ask, Pick),
    HangUp,
    Step(Step),
}

#[derive(Debug, Clone, Copy)]
enum Ask {
    Exists,
    GetData,
    GetChildren,
    AddWatch(WatchMode),
    Check(WatcherKind),
    Remove(WatcherKind),
}

fn act() -> impl Strategy<Value = Act> {
    let pick = prop_oneof![
        3 => (0..8usize).prop_map(Pick::Known),
        2 => (0..100usize).prop_map(Pick::Existing),
        1 => (0..100usize, 0..3usize).prop_map(|(number, name)| Pick::Below(number, name)),
    ];
    let mode = prop_oneof![Just(WatchMode::Persistent), Just(WatchMode::PersistentRecursive)];
    let kind = || (1..6i32).prop_map(|code| WatcherKind::from_code(code).expect("there are five kinds"));
    let ask = prop_oneof![
        2 => Just(Ask::Exists),
        2 => Just(Ask::GetData),
        2 => Just(Ask::GetChildren),
        2 => mode.prop_map(Ask::AddWatch),
        1 => kind().prop_map(Ask::Check),
        1 => kind().prop_map(Ask::Remove),
    ];
    prop_oneof![
        10 => (ask, pick).prop_map(|(ask, pick)| Act::Ask(ask, pick)),
        1 => Just(Act::HangUp),
        12 => step().prop_map(Act::Step),
    ]
}

/// Performs it on both.
fn perform(world: &mut World, naive: &mut Naive, conn: ConnId, act: &Act) {
    match act {
        Act::Ask(asked, pick) => {
            let path = pick.resolve(&world.visible);
            ask(world, naive, conn, *asked, &path);
        }
        Act::HangUp => {
            world.state.watches.drop_conn(conn);
            naive.watches.retain(|(other, _, _)| *other != conn);
        }
        Act::Step(step) => world.step(step),
    }
}

/// Sends the request, checks the answer, and records what is watched from now on.
fn ask(world: &mut World, naive: &mut Naive, conn: ConnId, ask: Ask, path: &str) {
    let request = match ask {
        Ask::Exists => Request::Exists { path, watch: true },
        Ask::GetData => Request::GetData { path, watch: true },
        Ask::GetChildren => Request::GetChildren2 { path, watch: true },
        Ask::AddWatch(mode) => Request::AddWatch { path, mode: mode as i32 },
        Ask::Check(kind) => Request::CheckWatches { path, kind: kind as i32 },
        Ask::Remove(kind) => Request::RemoveWatches { path, kind: kind as i32 },
    };
    let ids = identities(0);
    let caller = Caller { session: world.sessions[0].0, ids: &ids };
    let answered = world.state.read(conn, caller, &request, &mut |_| panic!("nothing is due")).is_ok();
    let node = world.visible.nodes.get(path);
    let readable = node.is_some_and(|node| {
        node.acl.iter().any(|entry| entry.id.scheme == "world" && entry.perms.intersects(Perms::READ))
    });
    let (expected, watched) = match ask {
        // A missing znode can be watched, too.
        Ask::Exists => (node.is_some(), Some(Data)),
        Ask::GetData => (readable, readable.then_some(Data)),
        Ask::GetChildren => (readable, readable.then_some(Child)),
        Ask::AddWatch(WatchMode::Persistent) => (true, Some(Persistent)),
        Ask::AddWatch(WatchMode::PersistentRecursive) => (true, Some(Recursive)),
        Ask::Check(kind) | Ask::Remove(kind) => (naive.has(conn, path, kind), None),
    };
    let fits = watched.is_none() || naive.has_room(conn, path);
    assert_eq!(answered, expected && fits, "{request:?}");
    naive.watches.extend(watched.filter(|_| fits).map(|kind| (conn, path.to_owned(), kind)));
    if let Ask::Remove(kind) = ask {
        naive.remove(conn, path, kind);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everybody_who_watches_is_told_once_and_nobody_else(acts in vec((0..3u64, act()), 0..80)) {
        let (mut world, mut naive) = (World::new(), Naive::new());
        for (conn, act) in &acts {
            perform(&mut world, &mut naive, ConnId(*conn), act);
            // One by one, to know which transaction caused what.
            while let Some(txn) = world.next_durable() {
                world.notified.clear();
                let mut expected = naive.fire_all(txn.zxid, &txn.changes);
                world.apply(txn);
                // The order between connections does not matter; the order within each does.
                let mut notified = std::mem::take(&mut world.notified);
                notified.sort_by_key(|notified| notified.conn);
                expected.sort_by_key(|notified| notified.conn);
                prop_assert_eq!(notified, expected);
            }
            prop_assert_eq!(invariants::violated(&world.state), None);
        }
        let watched: BTreeSet<_> = naive.watches.iter().map(|(conn, path, _)| (*conn, path.clone())).collect();
        prop_assert_eq!(world.state.watches.len(), watched.len());
    }
}

#[test]
fn multi_tells_a_one_shot_watch_once_and_a_recursive_one_of_each_step() {
    let (mut world, who) = (World::new(), Who { session: 0, user: 0 });
    let a = || Pick::Known(0);
    let (once, always) = (ConnId(1), ConnId(2));
    perform(&mut world, &mut Naive::new(), once, &Act::Ask(Ask::Exists, a()));
    perform(
        &mut world,
        &mut Naive::new(),
        always,
        &Act::Ask(Ask::AddWatch(WatchMode::PersistentRecursive), a()),
    );
    let version = Version::Any;
    world.step(&Step::Multi(
        who,
        vec![
            Write::Create { mode: 0, path: a(), data: None, acl: 0 },
            Write::SetData { path: a(), data: None, version },
            Write::Delete { path: a(), version },
        ],
    ));
    world.step(&Step::Durable(1));
    let told_to = |conn| -> Vec<EventKind> {
        world.notified.iter().filter(|notified| notified.conn == conn).map(|notified| notified.kind).collect()
    };
    assert_eq!(told_to(once), [EventKind::Created]);
    assert_eq!(told_to(always), [EventKind::Created, EventKind::DataChanged, EventKind::Deleted]);
}
