//! Checks the namespace's stored data: every znode against the payload that the znode map declares. `slots.rs` and
//! `queues.rs` know which znodes belong together.

mod queues;
mod slots;

use std::collections::BTreeMap;

use menagerie_kernel::session::{Read, ReadResult};
use menagerie_kernel::{CallError, Term, subtree};
use menagerie_znodes::lookup;

use super::finding::{Findings, Health};

/// Znodes read by one request: few enough that the reply stays below a client's limit whatever they hold.
const AT_ONCE: usize = 100;

/// More would take longer than a person waits.
const ZNODES_MAX: usize = 100_000;

/// Show at most this many damaged znodes one by one.
const DAMAGE_SHOWN_MAX: usize = 20;

/// Stored data by path below the namespace.
#[derive(Debug, Default)]
struct Tree {
    znodes: BTreeMap<String, Vec<u8>>,
    /// The namespace has more znodes than were read.
    is_cut: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Damage {
    health: Health,
    what: String,
    remedy: String,
}

/// Checks everything below the namespace.
pub async fn examine(term: &Term, namespace: &str, findings: &mut Findings) {
    match read(term, namespace).await {
        Ok(tree) => report(&tree, judge(namespace, &tree), findings),
        Err(error) => findings.warn(
            "znodes",
            format!("not all below {namespace} could be read: {error}"),
            "see `menagerie zk acl get`, and set zookeeper.auth to a user with access",
        ),
    }
}

async fn read(term: &Term, namespace: &str) -> Result<Tree, CallError> {
    let mut tree = Tree::default();
    let mut parents = vec![String::new()];
    while !parents.is_empty() {
        let mut below = Vec::new();
        for parents in parents.chunks(AT_ONCE) {
            let reads: Vec<Read> =
                parents.iter().map(|parent| Read::Children(full(namespace, parent))).collect();
            for (parent, found) in parents.iter().zip(term.read_together(&reads).await?) {
                let ReadResult::Children(names) = found else { continue };
                below.extend(names.into_iter().map(|name| format!("{parent}/{name}")));
            }
        }
        parents.clear();
        let room = ZNODES_MAX - tree.znodes.len();
        tree.is_cut |= below.len() > room;
        below.truncate(room);
        for paths in below.chunks(AT_ONCE) {
            let reads: Vec<Read> = paths.iter().map(|path| Read::Data(full(namespace, path))).collect();
            for (path, found) in paths.iter().zip(term.read_together(&reads).await?) {
                // Deleted meanwhile, or not readable for us: nothing to judge.
                let ReadResult::Data(data, stat) = found else { continue };
                if stat.children > 0 {
                    parents.push(path.clone());
                }
                tree.znodes.insert(path.clone(), data);
            }
        }
    }
    Ok(tree)
}

fn full(namespace: &str, path: &str) -> String {
    match path.strip_prefix('/') {
        Some(below) => subtree::join(namespace, below),
        None => namespace.to_owned(),
    }
}

fn judge(namespace: &str, tree: &Tree) -> Vec<Damage> {
    let mut damage = find_unreadable(namespace, tree);
    damage.extend(slots::judge(namespace, tree));
    damage.extend(queues::judge(namespace, tree));
    damage
}

/// Znodes whose data is not what the map declares.
fn find_unreadable(namespace: &str, tree: &Tree) -> Vec<Damage> {
    let mut damage = Vec::new();
    for (path, data) in &tree.znodes {
        let Some((_, entry)) = lookup::find(path) else { continue };
        let Err(error) = (entry.check)(data) else { continue };
        if data.is_empty() && queues::may_be_empty(path) {
            continue;
        }
        let full = full(namespace, path);
        damage.push(Damage {
            health: Health::Fail,
            what: format!("{full} is damaged: {error}: {}", error.source),
            remedy: format!(
                "it holds {}; write that with `menagerie zk set {full}`, or, if nobody needs it, `menagerie zk rm {full}`",
                entry.payload
            ),
        });
    }
    damage
}

fn report(tree: &Tree, damage: Vec<Damage>, findings: &mut Findings) {
    if damage.is_empty() {
        let cut = if tree.is_cut { "; there are more, which were not checked" } else { "" };
        return findings.ok("znodes", format!("{} looked at, and none is damaged{cut}", tree.znodes.len()));
    }
    let more = damage.len().saturating_sub(DAMAGE_SHOWN_MAX);
    for Damage { health, what, remedy } in damage.into_iter().take(DAMAGE_SHOWN_MAX) {
        match health {
            Health::Fail => findings.fail("znodes", what, remedy),
            Health::Warn | Health::Ok => findings.warn("znodes", what, remedy),
        }
    }
    if more > 0 {
        findings.warn("znodes", format!("{more} more are damaged"), "repair these, and run it again");
    }
}

#[cfg(test)]
mod tests;
