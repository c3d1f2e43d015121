//! The keeper's whole state.

use menagerie_wire::{Acl, Id, Perms};

use super::acl::{AclRef, AclTable};
use super::limits::Limits;
use super::path;
use super::pending::{DecidedZnode, Pending};
use super::quota::Quotas;
use super::sessions::{SessionId, Sessions};
use super::tree::Tree;
use super::watches::Watches;
use super::znode::{Kind, Meta, Znode, data_length};

/// The number of a connection; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(pub u64);

/// The caller of a request.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// The caller's session.
    pub session: SessionId,
    /// The identities that its connection has proved.
    pub ids: &'a [Id],
}

/// Options of the state.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Refuse writes beyond a quota instead of only counting.
    pub enforce_quota: bool,
    /// `super:BASE64`: whoever proves this digest may do everything.
    pub superuser_digest: Option<String>,
    /// Clients present certificates, so access lists may name them.
    pub x509: bool,
    /// Limits on what clients make us write and hold.
    pub limits: Limits,
}

/// All znodes, sessions and watches.
#[derive(Debug)]
pub struct State {
    /// The durable znodes.
    pub tree: Tree,
    /// All sessions.
    pub sessions: Sessions,
    /// All watches.
    pub watches: Watches,
    /// The configured options.
    pub options: Options,
    pub(super) pending: Pending,
    pub(super) acls: AclTable,
    pub(super) quotas: Quotas,
    pub(super) open_acl: AclRef,
    pub(super) last_zxid: i64,
    pub(super) applied_zxid: i64,
    pub(super) last_session: i64,
}

impl State {
    /// The state of a server that has just been set up.
    pub fn new(options: Options) -> Self {
        let mut acls = AclTable::default();
        let open_acl = acls.share(vec![Acl::open()]);
        let mut state = Self {
            tree: Tree::default(),
            sessions: Sessions::default(),
            watches: Watches::new(options.limits),
            options,
            pending: Pending::default(),
            acls,
            quotas: Quotas::default(),
            open_acl,
            last_zxid: 0,
            applied_zxid: 0,
            last_session: 0,
        };
        state.plant();
        state
    }

    /// The znodes that exist from the start.
    fn plant(&mut self) {
        // Only the operator may write the configuration; everybody may read it.
        let readable = self.acls.share(vec![Acl { perms: Perms::READ, id: Id::new("world", "anyone") }]);
        let meta = Meta::new(0, 0, Kind::Persistent);
        let open = self.open_acl.clone();
        let empty = || Some(Box::default());
        self.tree.put(Znode::new(path::ROOT.into(), empty(), open.clone(), meta));
        self.tree.put(Znode::new(path::SYSTEM.into(), empty(), open.clone(), meta));
        let config = Meta { aversion: -1, ..meta };
        self.tree.put(Znode::new(path::CONFIG.into(), empty(), readable, config));
        self.tree.put(Znode::new(path::QUOTA.into(), empty(), open, meta));
    }

    /// The last transaction in the tree: the zxid of every reply.
    pub fn applied_zxid(&self) -> i64 {
        self.applied_zxid
    }

    /// The last transaction decided.
    pub fn last_zxid(&self) -> i64 {
        self.last_zxid
    }

    /// Whether all decisions are durable and applied.
    pub fn is_settled(&self) -> bool {
        self.applied_zxid == self.last_zxid
    }

    /// The shared access lists, for decoding stored znodes.
    pub fn acls_mut(&mut self) -> &mut AclTable {
        &mut self.acls
    }

    /// The highest session number ever given out.
    pub fn last_session(&self) -> i64 {
        self.last_session
    }

    /// Continues from the position of a stored state.
    pub fn resume_at(&mut self, zxid: i64, last_session: i64) {
        self.last_zxid = self.last_zxid.max(zxid);
        self.applied_zxid = self.last_zxid;
        self.last_session = self.last_session.max(last_session);
    }

    /// A new session number: it includes the time, so that a fresh data folder does not repeat the numbers of an
    /// earlier one, and is always above the last.
    pub fn new_session_id(&mut self, wall_ms: i64) -> SessionId {
        const SERVER: i64 = 1 << 56;
        let by_time = SERVER | ((wall_ms << 24) >> 8 & (SERVER - 1));
        self.last_session = (self.last_session + 1).max(by_time);
        SessionId(self.last_session)
    }

    pub(super) fn next_zxid(&mut self) -> i64 {
        self.last_zxid += 1;
        self.last_zxid
    }

    /// A znode as it will be when all decisions so far are durable.
    pub(super) fn decided(&self, path: &str) -> Option<DecidedZnode> {
        let mut znode = match self.pending.get(path) {
            Some(decided) => decided.cloned(),
            None => self.tree.get(path).map(|znode| DecidedZnode {
                meta: znode.meta,
                acl: znode.acl.clone(),
                children: znode.children as i32,
                data_length: data_length(znode.data.as_deref()),
            }),
        };
        if let Some(length) = self.shown_length(path)
            && let Some(znode) = &mut znode
        {
            znode.data_length = length;
        }
        znode
    }
}
