//! A state and its model, side by side.

use std::collections::{BTreeMap, VecDeque};

use menagerie_wire::request::Create;
use menagerie_wire::{Acl, ErrorCode, EventKind, OpCode, Request};

use super::model::{Model, Node, TRANSACTION_BYTES_MAX};
use super::script::{Step, Who, identities};
use crate::core::sessions::Millis;
use crate::core::watches::WATCH_BYTES;
use crate::core::{Caller, ConnId, Limits, Notice, Options, Outcome, SessionId, State, Txn, invariants};

/// So low that scripts reach them.
const LIMITS: Limits = Limits {
    transaction_bytes: TRANSACTION_BYTES_MAX,
    ephemeral_bytes: u64::MAX,
    watch_bytes_per_connection: WATCH_BYTES_PER_CONNECTION,
    watch_bytes: WATCH_BYTES_MAX,
    sessions: usize::MAX,
    names_bytes: usize::MAX,
    multi_read_bytes: usize::MAX,
};

/// Room for three watches with short paths, and in all for five.
pub const WATCH_BYTES_PER_CONNECTION: usize = 3 * WATCH_BYTES + 16;
pub const WATCH_BYTES_MAX: usize = 5 * WATCH_BYTES + 32;

/// A notification, as a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    pub conn: ConnId,
    pub kind: EventKind,
    pub path: String,
    pub zxid: i64,
    /// The list that decides whether the connection may be notified.
    pub readers: Option<Vec<Acl>>,
}

/// Runs scripts and compares after every step.
pub struct World {
    pub state: State,
    /// Everything that was accepted.
    pub decided: Model,
    /// Everything that is durable: what readers must see.
    pub visible: Model,
    /// Writes in flight, each with the model once it is durable.
    pub under_way: VecDeque<(Txn, Model)>,
    /// All sessions ever opened; `true` once their end is decided.
    pub sessions: Vec<(SessionId, bool)>,
    pub notified: Vec<Notification>,
    pub time_ms: i64,
}

impl World {
    pub fn new() -> Self {
        let mut world = Self {
            state: State::new(Options { enforce_quota: true, limits: LIMITS, ..Options::default() }),
            decided: Model::new(),
            visible: Model::new(),
            under_way: VecDeque::new(),
            sessions: Vec::new(),
            notified: Vec::new(),
            time_ms: 1000,
        };
        for _ in 0..3 {
            world.open();
        }
        world.make_durable(usize::MAX);
        world
    }

    /// Performs one step, and compares the answer and what readers see.
    pub fn step(&mut self, step: &Step) {
        self.time_ms += 1;
        match step {
            Step::Write(who, write) => {
                let resolved = write.resolve(&self.decided);
                self.write(*who, &resolved.request());
            }
            Step::Multi(who, writes) => {
                let resolved: Vec<_> = writes.iter().map(|write| write.resolve(&self.decided)).collect();
                self.write(*who, &Request::Multi(resolved.iter().map(|write| write.operation()).collect()));
            }
            Step::Open => self.open(),
            Step::Close(session) => {
                let who = Who { session: *session, user: 0 };
                self.write(who, &Request::CloseSession);
            }
            Step::Expire(session) => self.expire(*session),
            Step::Sweep(later_ms) => self.sweep(*later_ms),
            Step::Quota(who, quota) => {
                for (path, data) in quota.znodes() {
                    self.put(*who, &path, data.as_bytes());
                }
            }
            Step::SweepOne(pick) => {
                let path = pick.resolve(&self.decided);
                self.sweep_one(&path);
            }
            Step::Durable(count) => self.make_durable(*count),
        }
        self.compare();
    }

    fn session(&mut self, number: usize) -> &mut (SessionId, bool) {
        let count = self.sessions.len();
        &mut self.sessions[number % count]
    }

    fn write(&mut self, who: Who, request: &Request<'_>) {
        let (session, ended) = *self.session(who.session);
        let ids = identities(who.user);
        let caller = Caller { session, ids: &ids };
        let pending_before = self.pending();
        let txn = self.state.prepare(caller, request, self.time_ms);
        let expected = if ended {
            Outcome::Refused(ErrorCode::SessionExpired)
        } else if *request == Request::CloseSession {
            self.decided.close(session, txn.zxid);
            self.session(who.session).1 = true;
            Outcome::SessionClosed
        } else {
            self.decided.write(caller, request, txn.zxid, self.time_ms)
        };
        assert_eq!(txn.outcome, expected, "{request:?}");
        let is_end = txn.outcome == Outcome::SessionClosed;
        assert!(is_end || txn.bytes <= TRANSACTION_BYTES_MAX, "{} bytes for {request:?}", txn.bytes);
        if is_refusal(&txn.outcome) {
            assert!(txn.changes.is_empty(), "a refusal changes nothing: {request:?}");
            assert_eq!(self.pending(), pending_before, "a refusal leaves no trace: {request:?}");
        }
        self.accept(txn);
    }

    fn put(&mut self, who: Who, path: &str, data: &[u8]) {
        let data = Some(data);
        let create = Create { path, data, acl: vec![Acl::open()], flags: 0, ttl: None };
        if self.decided.nodes.contains_key(path) {
            self.write(who, &Request::SetData { path, data, version: -1 });
        } else {
            self.write(who, &Request::Create { op: OpCode::Create, create });
        }
    }

    /// A session can be used at once: clients send requests along with the handshake.
    fn open(&mut self) {
        let id = self.state.new_session_id(self.time_ms);
        let txn = self.state.open_session(id, [7; 16], 1000, self.time_ms);
        self.accept(txn);
        self.sessions.push((id, false));
    }

    fn expire(&mut self, number: usize) {
        let (id, ended) = *self.session(number);
        let txn = self.state.expire_session(id, self.time_ms);
        assert_eq!(txn.is_none(), ended, "a session ends once");
        if let Some(txn) = txn {
            self.decided.close(id, txn.zxid);
            self.session(number).1 = true;
            self.accept(txn);
        }
    }

    fn sweep(&mut self, later_ms: i64) {
        self.time_ms += later_ms;
        let found = self.state.idle(self.time_ms, usize::MAX, usize::MAX);
        if self.under_way.is_empty() {
            let mut sorted: Vec<&str> = found.iter().map(|path| &**path).collect();
            sorted.sort_unstable();
            let idle = |path: &&str| self.decided.is_idle(path, self.time_ms);
            let expected: Vec<&str> = self.decided.nodes.keys().map(String::as_str).filter(idle).collect();
            assert_eq!(sorted, expected, "with nothing under way the sweep finds all that is idle");
        }
        for path in found {
            self.sweep_one(&path);
        }
    }

    fn sweep_one(&mut self, path: &str) {
        let txn = self.state.sweep_one(path, self.time_ms);
        assert_eq!(txn.is_some(), self.decided.is_idle(path, self.time_ms), "{path}");
        if let Some(txn) = txn {
            self.decided.remove(path, txn.zxid);
            self.accept(txn);
        }
    }

    fn accept(&mut self, txn: Txn) {
        let last = self.under_way.back().map_or(self.state.applied_zxid(), |(txn, _)| txn.zxid);
        assert_eq!(txn.zxid, last + 1, "every write uses up one zxid");
        let mut stored = Vec::new();
        txn.encode(&mut stored);
        assert_eq!(txn.bytes, stored.len(), "it is known before how long it will be: {:?}", txn.changes);
        self.under_way.push_back((txn, self.decided.clone()));
    }

    /// Makes the next write durable; returns it before it is applied, so that callers can store it first.
    pub fn next_durable(&mut self) -> Option<Txn> {
        let (txn, visible) = self.under_way.pop_front()?;
        self.visible = visible;
        Some(txn)
    }

    /// Applies a durable write to the tree.
    pub fn apply(&mut self, txn: Txn) {
        let notified = &mut self.notified;
        self.state.apply(txn.zxid, txn.changes, Millis(0), &mut |notice| {
            let Notice { conn, kind, path, zxid, readers } = notice;
            let readers = readers.map(|acl| acl.to_vec());
            notified.push(Notification { conn, kind, path: path.to_owned(), zxid, readers });
        });
    }

    pub fn make_durable(&mut self, count: usize) {
        for _ in 0..count {
            let Some(txn) = self.next_durable() else { return };
            self.apply(txn);
        }
    }

    fn compare(&self) {
        assert_eq!(invariants::violated(&self.state), None);
        assert_eq!(self.state.is_settled(), self.under_way.is_empty());
        assert_eq!(tree(&self.state), expected(&self.visible), "readers see what is durable, and only that");
    }

    fn pending(&self) -> BTreeMap<String, String> {
        self.state.pending.iter().map(|(path, znode)| (path.to_owned(), format!("{znode:?}"))).collect()
    }
}

fn is_refusal(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Refused(_) => true,
        Outcome::Multi(all) => all.iter().any(|one| matches!(one, Outcome::Refused(_))),
        _ => false,
    }
}

/// A znode as readers see it, with the names of its children.
type Seen = (Node, Vec<String>);

/// The tree in the model's terms.
pub fn tree(state: &State) -> BTreeMap<String, Seen> {
    let seen = |slot| {
        let znode = state.tree.at(slot);
        let node = Node {
            data: znode.data.as_deref().map(<[u8]>::to_vec),
            acl: znode.acl.to_vec(),
            kind: znode.meta.kind,
            next_sequence: znode.meta.created,
            stat: znode.stat(),
        };
        let mut children: Vec<String> =
            state.tree.children(slot).map(|child| state.tree.at(child).path.to_string()).collect();
        children.sort_unstable();
        (node, children)
    };
    state
        .tree
        .iter()
        .map(|znode| (znode.path.to_string(), seen(state.tree.slot(&znode.path).unwrap())))
        .collect()
}

fn expected(model: &Model) -> BTreeMap<String, Seen> {
    let seen = |(path, node): (&String, &Node)| {
        let children = model.children(path).into_iter().map(str::to_owned).collect();
        (path.clone(), (Node { stat: model.stat(path), ..node.clone() }, children))
    };
    model.nodes.iter().map(seen).collect()
}
