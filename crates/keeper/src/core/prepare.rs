//! Turns requests into transactions: judges each against all that was decided before.

use menagerie_wire::{Acl, ErrorCode, MultiOp, OpCode, Perms, Request};

use super::acl;
use super::path;
use super::pending::DecidedZnode;
use super::quota::Usage;
use super::state::{Caller, State};
use super::txn::{Change, Outcome, ParentMark, Txn};
use super::znode::{Kind, data_length};

/// A transaction in the making.
pub(super) struct Draft {
    pub zxid: i64,
    pub time_ms: i64,
    changes: Vec<Change>,
    /// Bytes of the stored form.
    bytes: usize,
    /// Most bytes of the stored form.
    bytes_max: usize,
}

/// Whether an operation is a write: it gets a zxid, goes through the log, and is answered when it is durable.
pub fn is_write(op: OpCode) -> bool {
    matches!(
        op,
        OpCode::Create
            | OpCode::Create2
            | OpCode::CreateContainer
            | OpCode::CreateTtl
            | OpCode::Delete
            | OpCode::DeleteContainer
            | OpCode::SetData
            | OpCode::SetAcl
            | OpCode::Check
            | OpCode::Multi
            | OpCode::Reconfig
            | OpCode::CloseSession
    )
}

impl State {
    /// Decides a write. The result must be made durable and then applied, in the order of zxids.
    pub fn prepare(&mut self, caller: Caller<'_>, request: &Request<'_>, time_ms: i64) -> Txn {
        let mut draft = self.draft(time_ms);
        let result = if !self.sessions.accepts(caller.session) {
            Err(ErrorCode::SessionExpired)
        } else {
            match request {
                Request::CloseSession => Ok(self.close_session(caller.session, &mut draft)),
                Request::Multi(ops) if ops.iter().any(MultiOp::is_read) => Err(ErrorCode::Marshalling),
                Request::Multi(ops) => Ok(self.multi(caller, ops, &mut draft)),
                Request::Create { op, create } => self.create(caller, *op, create, &mut draft),
                Request::Delete { path, version } => self.delete(caller, path, *version, &mut draft),
                Request::SetData { path, data, version } => {
                    self.set_data(caller, path, *data, *version, &mut draft)
                }
                Request::SetAcl { path, acl, version } => {
                    self.set_acl(caller, path, acl, *version, &mut draft)
                }
                // Inside a multi a check reports only that it held; by itself it answers like setData.
                Request::Check { path, version } => self
                    .check(caller, path, *version)
                    .map(|znode| Outcome::Stat(znode.meta.stat(znode.data_length, znode.children))),
                Request::Reconfig => Err(ErrorCode::ReconfigDisabled),
                // Only the server sweeps containers.
                Request::DeleteContainer { .. } => Err(ErrorCode::BadArguments),
                _ => Err(ErrorCode::Unimplemented),
            }
        };
        draft.finish(result)
    }

    /// Refuses a write that could not be decoded: in its turn, and with its own zxid.
    pub fn refuse(&mut self, code: ErrorCode, time_ms: i64) -> Txn {
        self.draft(time_ms).finish(Err(code))
    }

    pub(super) fn draft(&mut self, time_ms: i64) -> Draft {
        Draft {
            zxid: self.next_zxid(),
            time_ms,
            changes: Vec::new(),
            bytes: Txn::EMPTY_BYTES,
            bytes_max: self.options.limits.transaction_bytes,
        }
    }

    fn multi(&mut self, caller: Caller<'_>, ops: &[MultiOp<'_>], draft: &mut Draft) -> Outcome {
        self.pending.begin();
        self.quotas.begin();
        let mut outcomes = Vec::with_capacity(ops.len());
        for (at, op) in ops.iter().enumerate() {
            let result = match op {
                MultiOp::Create { op, create } => {
                    // Inside a multi `create2` answers like `create`: measured, and clients rely on it.
                    let op = if *op == OpCode::Create2 { OpCode::Create } else { *op };
                    self.create(caller, op, create, draft)
                }
                MultiOp::Delete { path, version } => self.delete(caller, path, *version, draft),
                MultiOp::SetData { path, data, version } => {
                    self.set_data(caller, path, *data, *version, draft)
                }
                MultiOp::Check { path, version } => {
                    self.check(caller, path, *version).map(|_| Outcome::Checked)
                }
                MultiOp::GetData { .. } | MultiOp::GetChildren { .. } => Err(ErrorCode::Marshalling),
            };
            match result {
                Ok(outcome) => outcomes.push(outcome),
                Err(code) => {
                    self.pending.take_back();
                    self.quotas.take_back();
                    draft.clear();
                    // Clients find the failed operation by its position: 0 before it, its code, "not tried" after it.
                    return Outcome::Multi(
                        (0..ops.len())
                            .map(|other| match other.cmp(&at) {
                                std::cmp::Ordering::Less => ErrorCode::Ok,
                                std::cmp::Ordering::Equal => code,
                                std::cmp::Ordering::Greater => ErrorCode::RuntimeInconsistency,
                            })
                            .map(Outcome::Refused)
                            .collect(),
                    );
                }
            }
        }
        self.pending.keep();
        self.quotas.keep();
        Outcome::Multi(outcomes)
    }

    fn delete(
        &mut self,
        caller: Caller<'_>,
        path: &str,
        version: i32,
        draft: &mut Draft,
    ) -> Result<Outcome, ErrorCode> {
        let parent_path = parent_to_delete_from(path)?;
        let parent = self.decided(parent_path).ok_or(ErrorCode::NoNode)?;
        acl::check(&parent.acl, caller.ids, Perms::DELETE)?;
        let znode = self.decided(path).ok_or(ErrorCode::NoNode)?;
        check_version(znode.meta.version, version)?;
        if znode.children > 0 {
            return Err(ErrorCode::NotEmpty);
        }
        draft.check_room(Change::delete_bytes(path))?;
        self.remove(path.into(), parent_path, parent, draft);
        Ok(Outcome::Deleted)
    }

    /// Deletes a container or a znode with a time to live, unless it was used since it was found idle.
    pub fn sweep_one(&mut self, path: &str, time_ms: i64) -> Option<Txn> {
        let znode = self.decided(path)?;
        if znode.children > 0 || !is_idle(&znode, time_ms) {
            return None;
        }
        let parent_path = parent_to_delete_from(path).ok()?;
        let parent = self.decided(parent_path)?;
        let mut draft = self.draft(time_ms);
        self.remove(path.into(), parent_path, parent, &mut draft);
        Some(draft.finish(Ok(Outcome::Deleted)))
    }

    /// Some of the paths that [`Self::sweep_one`] should handle now: at most `most`, and none after the first that
    /// brings them to `bytes_max` bytes.
    pub fn idle(&self, time_ms: i64, most: usize, bytes_max: usize) -> Vec<Box<str>> {
        let mut bytes = 0;
        self.tree
            .mortal()
            .filter(|znode| znode.children == 0)
            .filter_map(|znode| {
                self.decided(&znode.path).filter(|znode| is_idle(znode, time_ms)).map(|_| znode.path.clone())
            })
            .take(most)
            .take_while(|path| {
                bytes += path.len();
                bytes - path.len() < bytes_max
            })
            .collect()
    }

    pub(super) fn remove(
        &mut self,
        path: Box<str>,
        parent_path: &str,
        mut parent: DecidedZnode,
        draft: &mut Draft,
    ) {
        parent.meta.pzxid = draft.zxid;
        parent.children -= 1;
        let mark = ParentMark { created: parent.meta.created, pzxid: draft.zxid };
        self.decide_deleted(&path);
        self.pending.set(parent_path, Some(parent), draft.zxid);
        self.pending.set(&path, None, draft.zxid);
        draft.push(Change::Delete { path, parent: mark });
    }

    fn set_data(
        &mut self,
        caller: Caller<'_>,
        path: &str,
        data: Option<&[u8]>,
        version: i32,
        draft: &mut Draft,
    ) -> Result<Outcome, ErrorCode> {
        path::validate(path)?;
        let mut znode = self.decided(path).ok_or(ErrorCode::NoNode)?;
        acl::check(&znode.acl, caller.ids, Perms::WRITE)?;
        let growth = i64::from(data_length(data)) - i64::from(znode.data_length);
        self.check_quota(path, Usage::of_growth(growth))?;
        check_version(znode.meta.version, version)?;
        znode.meta.version = next_version(znode.meta.version);
        znode.meta.mzxid = draft.zxid;
        znode.meta.mtime = draft.time_ms;
        znode.data_length = self.shown_length(path).unwrap_or(data_length(data));
        draft.try_push(Change::SetData {
            path: path.into(),
            data: data.map(Into::into),
            version: znode.meta.version,
            mzxid: draft.zxid,
            mtime: draft.time_ms,
        })?;
        self.decide_resized(path, data, growth);
        let stat = znode.meta.stat(znode.data_length, znode.children);
        self.pending.set(path, Some(znode), draft.zxid);
        Ok(Outcome::Stat(stat))
    }

    fn set_acl(
        &mut self,
        caller: Caller<'_>,
        path: &str,
        sent: &[Acl],
        version: i32,
        draft: &mut Draft,
    ) -> Result<Outcome, ErrorCode> {
        path::validate(path)?;
        let list = acl::resolve(sent, caller.ids, self.options.x509)?;
        let mut znode = self.decided(path).ok_or(ErrorCode::NoNode)?;
        acl::check(&znode.acl, caller.ids, Perms::ADMIN)?;
        check_version(znode.meta.aversion, version)?;
        znode.meta.aversion = next_version(znode.meta.aversion);
        znode.acl = self.acls.share(list);
        draft.try_push(Change::SetAcl {
            path: path.into(),
            acl: znode.acl.clone(),
            aversion: znode.meta.aversion,
        })?;
        let stat = znode.meta.stat(znode.data_length, znode.children);
        self.pending.set(path, Some(znode), draft.zxid);
        Ok(Outcome::Stat(stat))
    }

    fn check(&self, caller: Caller<'_>, path: &str, version: i32) -> Result<DecidedZnode, ErrorCode> {
        path::validate(path)?;
        let znode = self.decided(path).ok_or(ErrorCode::NoNode)?;
        acl::check(&znode.acl, caller.ids, Perms::READ)?;
        check_version(znode.meta.version, version)?;
        Ok(znode)
    }
}

impl Draft {
    /// Adds a change without a limit: the server's own decisions, and the end of a session, which must always be possible.
    pub(super) fn push(&mut self, change: Change) {
        self.bytes += change.bytes();
        self.changes.push(change);
    }

    /// Adds a change that a client asked for, if the transaction does not get too long.
    #[inline]
    pub(super) fn try_push(&mut self, change: Change) -> Result<(), ErrorCode> {
        let bytes = change.bytes();
        self.check_room(bytes)?;
        self.bytes += bytes;
        self.changes.push(change);
        Ok(())
    }

    /// Refuses a change of this length if the transaction would exceed its limit. This must happen before anything is in
    /// the log: a record that cannot be written ends the process.
    pub(super) fn check_room(&self, bytes: usize) -> Result<(), ErrorCode> {
        if self.bytes + bytes <= self.bytes_max { Ok(()) } else { Err(ErrorCode::BadArguments) }
    }

    fn clear(&mut self) {
        self.changes.clear();
        self.bytes = Txn::EMPTY_BYTES;
    }

    pub(super) fn finish(self, result: Result<Outcome, ErrorCode>) -> Txn {
        let Self { zxid, changes, bytes, .. } = self;
        match result {
            Ok(outcome) => Txn { zxid, changes, outcome, bytes },
            Err(code) => {
                Txn { zxid, changes: Vec::new(), outcome: Outcome::Refused(code), bytes: Txn::EMPTY_BYTES }
            }
        }
    }
}

fn parent_to_delete_from(path: &str) -> Result<&str, ErrorCode> {
    if path::UNDELETABLE.contains(&path) {
        return Err(ErrorCode::BadArguments);
    }
    path::parent_unchecked(path).ok_or(ErrorCode::BadArguments)
}

/// -1 means any version.
fn check_version(actual: i32, expected: i32) -> Result<(), ErrorCode> {
    if expected == -1 || expected == actual { Ok(()) } else { Err(ErrorCode::BadVersion) }
}

/// The version after this one. It never becomes -1, which would match every expectation.
fn next_version(version: i32) -> i32 {
    match version.wrapping_add(1) {
        -1 => 0,
        next => next,
    }
}

fn is_idle(znode: &DecidedZnode, time_ms: i64) -> bool {
    znode.children == 0
        && match znode.meta.kind {
            Kind::Container => znode.meta.created > 0,
            Kind::Ttl(ttl) => time_ms - znode.meta.mtime > ttl,
            Kind::Persistent | Kind::Ephemeral(_) => false,
        }
}
