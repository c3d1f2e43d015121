//! Applies transactions to the tree: live, when they are durable, and again in recovery.

use menagerie_wire::EventKind;

use super::acl::AclRef;
use super::path;
use super::sessions::Millis;
use super::state::{ConnId, State};
use super::txn::{Change, ParentMark};
use super::znode::{Znode, data_length};

/// A notification to send.
#[derive(Debug)]
pub struct Notice<'a> {
    /// The connection to notify.
    pub conn: ConnId,
    /// The kind of event.
    pub kind: EventKind,
    /// The znode's path.
    pub path: &'a str,
    /// The transaction; -1 if unknown.
    pub zxid: i64,
    /// Notify only connections that may read by this list: a watch must not reveal more than a read would. `None` for a
    /// path that the client has seen before and watches again.
    pub readers: Option<&'a AclRef>,
}

impl State {
    /// Applies a durable transaction to the tree, and calls `notify` for each watcher. The same code runs live and in
    /// recovery; only in recovery can a change meet a znode that is newer or gone already, because the snapshot was
    /// taken while writes went on. Changes are final states, so skipping those is right.
    pub fn apply(
        &mut self,
        zxid: i64,
        changes: Vec<Change>,
        now: Millis,
        notify: &mut dyn FnMut(Notice<'_>),
    ) {
        for change in changes {
            match change {
                Change::Create { path, data, acl, meta, parent } => {
                    self.settle_with_parent(&path, zxid);
                    self.mark_parent(&path, parent);
                    let length = data_length(data.as_deref());
                    self.tree.put(Znode::new(path.clone(), data, acl.clone(), meta));
                    self.show_created(&path, length);
                    self.fire(EventKind::Created, &path, zxid, &acl, notify);
                    self.fire_parent(&path, zxid, notify);
                }
                Change::Delete { path, parent } => {
                    self.settle_with_parent(&path, zxid);
                    self.mark_parent(&path, parent);
                    let Some(slot) = self.tree.slot(&path) else { continue };
                    for below in self.tree.descendants(slot).into_iter().rev() {
                        self.tree.remove(below);
                    }
                    let znode = self.tree.remove(slot);
                    self.show_deleted(&path, data_length(znode.data.as_deref()));
                    self.fire(EventKind::Deleted, &path, zxid, &znode.acl, notify);
                    self.fire_parent(&path, zxid, notify);
                }
                Change::SetData { path, data, version, mzxid, mtime } => {
                    self.pending.settle(&path, zxid);
                    let Some(slot) = self.tree.slot(&path) else { continue };
                    let data = self.shown_instead(&path).or(data);
                    let before = i64::from(data_length(self.tree.at(slot).data.as_deref()));
                    let after = i64::from(data_length(data.as_deref()));
                    self.tree.set_data(slot, data);
                    let znode = self.tree.at_mut(slot);
                    (znode.meta.version, znode.meta.mzxid, znode.meta.mtime) = (version, mzxid, mtime);
                    let acl = znode.acl.clone();
                    self.show_resized(&path, after - before);
                    self.fire(EventKind::DataChanged, &path, zxid, &acl, notify);
                }
                Change::SetAcl { path, acl, aversion } => {
                    self.pending.settle(&path, zxid);
                    let Some(slot) = self.tree.slot(&path) else { continue };
                    let znode = self.tree.at_mut(slot);
                    (znode.acl, znode.meta.aversion) = (acl, aversion);
                }
                Change::OpenSession { id, password, timeout_ms } => {
                    self.last_session = self.last_session.max(id.0);
                    self.sessions.open(id, password, timeout_ms, now);
                }
                Change::CloseSession { id } => {
                    self.sessions.close(id);
                }
            }
        }
        self.applied_zxid = self.applied_zxid.max(zxid);
        self.last_zxid = self.last_zxid.max(zxid);
    }

    fn settle_with_parent(&mut self, path: &str, zxid: i64) {
        if self.pending.is_empty() {
            return;
        }
        self.pending.settle(path, zxid);
        if let Some(parent) = path::parent(path) {
            self.pending.settle(parent, zxid);
        }
    }

    fn mark_parent(&mut self, path: &str, mark: ParentMark) {
        if let Some(slot) = path::parent(path).and_then(|parent| self.tree.slot(parent)) {
            let parent = self.tree.at_mut(slot);
            (parent.meta.created, parent.meta.pzxid) = (mark.created, mark.pzxid);
        }
    }

    fn fire(
        &mut self,
        kind: EventKind,
        path: &str,
        zxid: i64,
        acl: &AclRef,
        notify: &mut dyn FnMut(Notice<'_>),
    ) {
        if !self.watches.is_empty() {
            self.watches
                .fire(kind, path, |conn| notify(Notice { conn, kind, path, zxid, readers: Some(acl) }));
        }
    }

    fn fire_parent(&mut self, path: &str, zxid: i64, notify: &mut dyn FnMut(Notice<'_>)) {
        if self.watches.is_empty() {
            return;
        }
        let Some(parent) = path::parent(path) else { return };
        if let Some(acl) = self.tree.get(parent).map(|znode| znode.acl.clone()) {
            self.fire(EventKind::ChildrenChanged, parent, zxid, &acl, notify);
        }
    }
}
