//! Creating znodes.

use menagerie_wire::request::Create;
use menagerie_wire::{ErrorCode, OpCode, Perms};

use super::acl;
use super::path;
use super::pending::DecidedZnode;
use super::prepare::Draft;
use super::quota::Usage;
use super::state::{Caller, State};
use super::txn::{Change, Outcome, ParentMark};
use super::znode::{Kind, Meta, data_length};

/// The longest time to live: 40 bits of milliseconds, as the reference stores it.
const TTL_MS_MAX: i64 = 0xff_ffff_ffff;

/// The meaning of a request's flags.
struct Mode {
    kind: Kind,
    sequential: bool,
}

impl State {
    pub(super) fn create(
        &mut self,
        caller: Caller<'_>,
        op: OpCode,
        create: &Create<'_>,
        draft: &mut Draft,
    ) -> Result<Outcome, ErrorCode> {
        let mode = mode(caller, op, create)?;
        let parent_path = path::parent_unchecked(create.path).ok_or(ErrorCode::BadArguments)?;
        let list = acl::resolve(&create.acl, caller.ids, self.options.x509)?;
        let mut parent = self.decided(parent_path).ok_or(ErrorCode::NoNode)?;
        acl::check(&parent.acl, caller.ids, Perms::CREATE)?;
        let path: Box<str> = if mode.sequential {
            format!("{}{:010}", create.path, parent.meta.created).into()
        } else {
            create.path.into()
        };
        path::validate(&path)?;
        if path.len() > path::BYTES_MAX {
            return Err(ErrorCode::BadArguments);
        }
        if self.decided(&path).is_some() {
            return Err(ErrorCode::NodeExists);
        }
        if matches!(parent.meta.kind, Kind::Ephemeral(_)) {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        let length = data_length(create.data);
        self.check_quota(&path, Usage::of_one(length))?;
        if let Kind::Ephemeral(session) = mode.kind
            && self.tree.ephemeral_bytes(session) > self.options.limits.ephemeral_bytes
        {
            return Err(ErrorCode::QuotaExceeded);
        }

        parent.meta.created = parent.meta.created.wrapping_add(1);
        parent.meta.pzxid = draft.zxid;
        parent.children += 1;
        let mark = ParentMark { created: parent.meta.created, pzxid: draft.zxid };
        let meta = Meta::new(draft.zxid, draft.time_ms, mode.kind);
        let acl = self.acls.share(list);
        draft.try_push(Change::Create {
            path: path.clone(),
            data: create.data.map(Into::into),
            acl: acl.clone(),
            meta,
            parent: mark,
        })?;
        self.pending.set(parent_path, Some(parent), draft.zxid);
        let znode = DecidedZnode { meta, acl, children: 0, data_length: length };
        self.pending.set(&path, Some(znode), draft.zxid);
        self.decide_created(&path, create.data, length);
        let length = self.shown_length(&path).unwrap_or(length);
        Ok(Outcome::Created { path, stat: meta.stat(length, 0), with_stat: op != OpCode::Create })
    }
}

fn mode(caller: Caller<'_>, op: OpCode, create: &Create<'_>) -> Result<Mode, ErrorCode> {
    let sequential = matches!(create.flags, 2 | 3 | 6);
    let kind = match (op, create.flags) {
        // Whatever the flags say, this operation creates containers.
        (OpCode::CreateContainer, 0..=4) => Kind::Container,
        (OpCode::CreateTtl, 5 | 6) => match create.ttl {
            Some(ttl @ 1..=TTL_MS_MAX) => Kind::Ttl(ttl),
            _ => return Err(ErrorCode::BadArguments),
        },
        (OpCode::Create | OpCode::Create2, 0 | 2) => Kind::Persistent,
        (OpCode::Create | OpCode::Create2, 1 | 3) => Kind::Ephemeral(caller.session),
        (OpCode::Create | OpCode::Create2, 4) => Kind::Container,
        _ => return Err(ErrorCode::BadArguments),
    };
    Ok(Mode { kind, sequential })
}
