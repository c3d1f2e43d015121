//! Answers requests that change no znode: reads, watches, and queries about the caller. They see only the tree.

use menagerie_wire::request::SetWatches;
use menagerie_wire::{
    ErrorCode, EventKind, Id, MultiOp, MultiResult, Perms, Request, Response, Stat, WatchMode, WatcherKind,
};

use super::acl;
use super::apply::Notice;
use super::path;
use super::state::{Caller, ConnId, State};
use super::tree::{Slot, Tree};
use super::watches::Full;
use super::znode::Znode;

impl State {
    /// Answers a request of connection `conn` that is not a write. Notifications that are due at once (for watches set
    /// again after a reconnect) go to `notify`, before the answer.
    pub fn read(
        &mut self,
        conn: ConnId,
        caller: Caller<'_>,
        request: &Request<'_>,
        notify: &mut dyn FnMut(Notice<'_>),
    ) -> Result<Response<'_>, ErrorCode> {
        match *request {
            Request::Ping => Ok(Response::Empty),
            Request::Exists { path, watch } => self.exists(conn, path, watch),
            Request::GetData { path, watch } => {
                let znode = readable(&self.tree, caller, path)?;
                if watch {
                    self.watches.watch_data(canonical(path), conn)?;
                }
                Ok(Response::Data { data: znode.data.as_deref(), stat: znode.stat() })
            }
            Request::GetChildren { path, watch } => {
                let (names, _) = self.list(conn, caller, path, watch)?;
                Ok(Response::Names(names))
            }
            Request::GetChildren2 { path, watch } => {
                let (names, stat) = self.list(conn, caller, path, watch)?;
                Ok(Response::Children2 { names, stat })
            }
            Request::GetAcl { path } => self.get_acl(caller, path),
            Request::MultiRead(ref ops) => self.multi_read(caller, ops),
            Request::GetEphemerals { prefix } => Ok(Response::Names(
                self.tree
                    .ephemerals(caller.session)
                    .map(|znode| &*znode.path)
                    .filter(|path| path.starts_with(prefix))
                    .collect(),
            )),
            Request::GetAllChildrenNumber { path } => {
                readable(&self.tree, caller, path)?;
                let slot = self.tree.slot(canonical(path)).ok_or(ErrorCode::NoNode)?;
                Ok(Response::Number(self.tree.descendants(slot).len() as i32))
            }
            Request::WhoAmI => Ok(Response::Identities(caller.ids.iter().map(public_name).collect())),
            Request::AddWatch { path, mode } => {
                let mode = WatchMode::from_code(mode).ok_or(ErrorCode::Marshalling)?;
                check_watchable(path)?;
                self.watches.watch_always(canonical(path), conn, mode)?;
                Ok(Response::Code(ErrorCode::Ok))
            }
            Request::CheckWatches { path, kind } => {
                let kind = WatcherKind::from_code(kind).ok_or(ErrorCode::Marshalling)?;
                found(self.watches.has(canonical(path), conn, kind))
            }
            Request::RemoveWatches { path, kind } => {
                let kind = WatcherKind::from_code(kind).ok_or(ErrorCode::Marshalling)?;
                found(self.watches.remove(canonical(path), conn, kind))
            }
            Request::SetWatches(ref watches) | Request::SetWatches2(ref watches) => {
                self.set_watches(conn, watches, notify)?;
                Ok(Response::Empty)
            }
            _ => Err(ErrorCode::Unimplemented),
        }
    }

    /// Approximate bytes of the answer to a request once all decisions are durable: requests that wait for a write are
    /// answered all at once, so their answers are counted in advance.
    pub fn answer_bytes(&self, caller: Caller<'_>, request: &Request<'_>) -> usize {
        let data = |path: &str| self.decided(canonical(path)).map_or(0, |znode| znode.data_length as usize);
        match request {
            Request::GetData { path, .. } => data(path),
            Request::GetChildren { path, .. } | Request::GetChildren2 { path, .. } => self.names_bytes(path),
            Request::MultiRead(ops) => ops
                .iter()
                .map(|op| match op {
                    MultiOp::GetData { path, .. } => data(path),
                    MultiOp::GetChildren { path, .. } => self.names_bytes(path),
                    _ => 0,
                })
                .sum(),
            Request::GetEphemerals { .. } => {
                self.tree.ephemerals(caller.session).map(|znode| znode.path.len()).sum()
            }
            Request::GetAcl { path } => {
                self.decided(canonical(path)).map_or(0, |znode| acl::bytes(&znode.acl))
            }
            Request::WhoAmI => caller.ids.iter().map(|id| id.id.len()).sum(),
            // A short answer, but a walk over the tree.
            Request::GetAllChildrenNumber { .. } => self.tree.len(),
            _ => 0,
        }
    }

    fn names_bytes(&self, path: &str) -> usize {
        /// Average length of a name that is not durable yet.
        const NAME_BYTES: usize = 64;
        let pending = self.decided(canonical(path)).map_or(0, |znode| znode.children as usize * NAME_BYTES);
        let slot = self.tree.slot(canonical(path));
        let known = slot.map_or(0, |slot| names(&self.tree, slot).1);
        pending.max(known)
    }

    fn exists(&mut self, conn: ConnId, path: &str, watch: bool) -> Result<Response<'_>, ErrorCode> {
        if path.contains('\0') {
            return Err(ErrorCode::BadArguments);
        }
        let path = canonical(path);
        if watch {
            check_watchable(path)?;
            // Also on a missing znode: this is how clients wait for its creation.
            self.watches.watch_data(path, conn)?;
        }
        self.tree.get(path).map(|znode| Response::Stat(znode.stat())).ok_or(ErrorCode::NoNode)
    }

    fn list(
        &mut self,
        conn: ConnId,
        caller: Caller<'_>,
        path: &str,
        watch: bool,
    ) -> Result<(Vec<&str>, Stat), ErrorCode> {
        readable(&self.tree, caller, path)?;
        let slot = self.tree.slot(canonical(path)).ok_or(ErrorCode::NoNode)?;
        let (names, bytes) = names(&self.tree, slot);
        if bytes > self.options.limits.names_bytes {
            return Err(ErrorCode::BadArguments);
        }
        if watch {
            self.watches.watch_children(canonical(path), conn)?;
        }
        Ok((names, self.tree.at(slot).stat()))
    }

    fn get_acl(&self, caller: Caller<'_>, path: &str) -> Result<Response<'_>, ErrorCode> {
        let znode = self.tree.get(canonical(path)).ok_or(ErrorCode::NoNode)?;
        acl::check(&znode.acl, caller.ids, Perms::READ.or(Perms::ADMIN))?;
        let may_administer = acl::permits(&znode.acl, caller.ids, Perms::ADMIN);
        let list = if may_administer { znode.acl.to_vec() } else { acl::masked(&znode.acl) };
        Ok(Response::Acl { acl: list, stat: znode.stat() })
    }

    /// Watch flags inside are ignored, as in the reference.
    fn multi_read(&self, caller: Caller<'_>, ops: &[MultiOp<'_>]) -> Result<Response<'_>, ErrorCode> {
        if !ops.iter().all(MultiOp::is_read) {
            return Err(ErrorCode::Marshalling);
        }
        let result = |op: &MultiOp<'_>| match *op {
            MultiOp::GetData { path, .. } => readable(&self.tree, caller, path)
                .map(|znode| MultiResult::Data { data: znode.data.as_deref(), stat: znode.stat() }),
            MultiOp::GetChildren { path, .. } => {
                readable(&self.tree, caller, path)?;
                let slot = self.tree.slot(canonical(path)).ok_or(ErrorCode::NoNode)?;
                Ok(MultiResult::Children(names(&self.tree, slot).0))
            }
            _ => Err(ErrorCode::Marshalling),
        };
        let mut bytes = 0;
        let mut results = Vec::with_capacity(ops.len());
        for op in ops {
            let result = result(op).unwrap_or_else(MultiResult::Error);
            bytes += match &result {
                MultiResult::Data { data, .. } => data.map_or(0, <[u8]>::len),
                MultiResult::Children(names) => names.iter().map(|name| name.len() + 4).sum(),
                _ => 0,
            };
            // A small request must not produce a reply that no client could accept.
            if bytes > self.options.limits.multi_read_bytes {
                return Err(ErrorCode::BadArguments);
            }
            results.push(result);
        }
        Ok(Response::Multi(results))
    }

    /// Compares what the client last saw with the tree: missed changes fire at once, the other watches are set again.
    fn set_watches(
        &mut self,
        conn: ConnId,
        watches: &SetWatches<'_>,
        notify: &mut dyn FnMut(Notice<'_>),
    ) -> Result<(), Full> {
        // It reports a difference and not one transaction, so the zxid is unknown, as in the reference.
        let mut tell = |kind, path| notify(Notice { conn, kind, path, zxid: -1, readers: None });
        for path in watches.data.iter().copied().map(canonical) {
            match self.tree.get(path) {
                None => tell(EventKind::Deleted, path),
                Some(znode) if znode.meta.mzxid > watches.relative_zxid => {
                    tell(EventKind::DataChanged, path);
                }
                Some(_) => self.watches.watch_data(path, conn)?,
            }
        }
        for path in watches.exist.iter().copied().map(canonical) {
            match self.tree.get(path) {
                Some(_) => tell(EventKind::Created, path),
                // No znode can be created there, so this watch would never fire.
                None if check_watchable(path).is_err() => {}
                None => self.watches.watch_data(path, conn)?,
            }
        }
        for path in watches.child.iter().copied().map(canonical) {
            match self.tree.get(path) {
                None => tell(EventKind::Deleted, path),
                Some(znode) if znode.meta.pzxid > watches.relative_zxid => {
                    tell(EventKind::ChildrenChanged, path);
                }
                Some(_) => self.watches.watch_children(path, conn)?,
            }
        }
        for (paths, mode) in [
            (&watches.persistent, WatchMode::Persistent),
            (&watches.recursive, WatchMode::PersistentRecursive),
        ] {
            for path in paths.iter().copied().filter(|path| check_watchable(path).is_ok()) {
                self.watches.watch_always(canonical(path), conn, mode)?;
            }
        }
        Ok(())
    }
}

/// Refuses paths that are too long for any znode.
fn check_watchable(path: &str) -> Result<(), ErrorCode> {
    if path.len() <= path::BYTES_MAX { Ok(()) } else { Err(ErrorCode::BadArguments) }
}

/// The empty path is another name of the root, for reads only, as in the reference.
fn canonical(path: &str) -> &str {
    if path.is_empty() { path::ROOT } else { path }
}

fn readable<'t>(tree: &'t Tree, caller: Caller<'_>, path: &str) -> Result<&'t Znode, ErrorCode> {
    let znode = tree.get(canonical(path)).ok_or(ErrorCode::NoNode)?;
    acl::check(&znode.acl, caller.ids, Perms::READ)?;
    Ok(znode)
}

/// The names of a znode's children, and their bytes in a reply.
fn names(tree: &Tree, slot: Slot) -> (Vec<&str>, usize) {
    let mut bytes = 0;
    let name = |child| {
        let name = path::name(&tree.at(child).path);
        bytes += name.len() + 4;
        name
    };
    let names = tree.children(slot).map(name).collect();
    (names, bytes)
}

fn found(there: bool) -> Result<Response<'static>, ErrorCode> {
    if there { Ok(Response::Empty) } else { Err(ErrorCode::NoWatcher) }
}

/// An identity as it may be shown: a digest's user without the digest.
fn public_name(id: &Id) -> Id {
    match id.scheme.as_str() {
        "digest" => Id::new("digest", id.id.split(':').next().unwrap_or_default()),
        _ => id.clone(),
    }
}
