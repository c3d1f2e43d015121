//! Invariants that hold after every step.

use super::path;
use super::state::State;
use super::znode::Kind;

/// Describes the first violated invariant; `None` if all hold. Walks the tree.
pub fn violated(state: &State) -> Option<String> {
    for znode in state.tree.iter() {
        let at = &znode.path;
        let slot = state.tree.slot(at)?;
        if let Some(parent) = path::parent(at) {
            let Some(parent_slot) = state.tree.slot(parent) else {
                return Some(format!("{at} has no parent"));
            };
            if !state.tree.children(parent_slot).any(|child| child == slot) {
                return Some(format!("{at} is not among its parent's children"));
            }
            if matches!(state.tree.at(parent_slot).meta.kind, Kind::Ephemeral(_)) {
                return Some(format!("{at} lies below an ephemeral znode"));
            }
        }
        if state.tree.children(slot).count() != znode.children as usize {
            return Some(format!("{at} miscounts its children"));
        }
        if let Kind::Ephemeral(session) = znode.meta.kind {
            if state.sessions.get(session).is_none() {
                return Some(format!("{at} has outlived its session"));
            }
            if !state.tree.ephemerals(session).any(|other| other.path == *at) {
                return Some(format!("{at} is not known to its session"));
            }
        }
        if znode.meta.czxid > state.applied_zxid() || znode.meta.mzxid > state.applied_zxid() {
            return Some(format!("{at} is newer than the last transaction"));
        }
    }
    if let Some(target) = state.miscounted_quota() {
        return Some(format!("the quota of {target} is miscounted"));
    }
    if !state.watches.is_coherent() {
        return Some("the two indexes of watches disagree".to_owned());
    }
    if state.is_settled() && !state.pending.is_empty() {
        return Some("everything is applied, yet something is pending".to_owned());
    }
    (state.applied_zxid() > state.last_zxid()).then(|| "applied what was never decided".to_owned())
}
