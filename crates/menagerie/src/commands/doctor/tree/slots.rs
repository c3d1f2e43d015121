//! Checks which znodes of a pool belong together.

use menagerie_znodes::quote::unquote;
use menagerie_znodes::slots::{self, Holder};
use menagerie_znodes::{Name, Payload as _};

use super::super::finding::Health;
use super::{Damage, Tree, full};

/// Checks every pool.
pub fn judge(namespace: &str, tree: &Tree) -> Vec<Damage> {
    let pools = tree.znodes.keys().filter_map(|path| path.strip_prefix("/slots/"));
    let pools = pools.filter(|name| !name.contains('/')).filter_map(|name| Name::new(unquote(name)?).ok());
    let parts = |pool: Name| {
        [
            folders(namespace, tree, &pool),
            find_unreleasable(namespace, tree, &pool),
            find_orphaned_tickets(namespace, tree, &pool),
        ]
    };
    pools.flat_map(parts).flatten().collect()
}

fn folders(namespace: &str, tree: &Tree, pool: &Name) -> Vec<Damage> {
    let disarmed = slots::disarmed_dir(pool);
    let missing = slots::folders(pool).into_iter().filter(|folder| !tree.znodes.contains_key(folder.path()));
    let mut damage: Vec<Damage> = missing
        .map(|folder| Damage {
            health: Health::Fail,
            what: format!("{} is missing, a part of pool {pool}", full(namespace, folder.path())),
            remedy: if folder.path() == disarmed.path() {
                format!(
                    "look which hosts are out of service; `menagerie slots rearm {pool} HOST` for one that is not begins \
                     the list anew, and then nobody is on it"
                )
            } else {
                format!("the next change of the pool makes it again, such as `menagerie slots set-max {pool} N`")
            },
        })
        .collect();
    let is_born = |path: &String| {
        path.strip_prefix(slots::pool(pool).path())
            .and_then(|child| child.strip_prefix('/'))
            .is_some_and(|child| slots::born_unique(child).is_some())
    };
    if !tree.znodes.keys().any(is_born) {
        damage.push(Damage {
            health: Health::Warn,
            what: format!(
                "pool {pool} has nothing that tells it from an earlier one of that name: an older version made it, or \
                 somebody has deleted {}/born-…",
                full(namespace, slots::pool(pool).path())
            ),
            remedy: format!("when nobody is in, `menagerie slots delete {pool}`, and create it again"),
        });
    }
    damage
}

/// Tickets of slots that somebody deleted by hand. The next holder admitted to such a slot removes the ticket.
fn find_orphaned_tickets(namespace: &str, tree: &Tree, pool: &Name) -> Vec<Damage> {
    let within = format!("{}/", slots::tickets(pool).path());
    let tickets = tree.znodes.range(within.clone()..).take_while(|(path, _)| path.starts_with(&within));
    tickets
        .filter_map(|(path, _)| Some((path, slots::ticket_slot(&path[within.len()..])?)))
        .filter(|(_, slot)| !tree.znodes.contains_key(slots::slot(pool, *slot).path()))
        .map(|(path, slot)| Damage {
            health: Health::Warn,
            what: format!(
                "slot {slot} of pool {pool} is gone, and its ticket {} is left: somebody has deleted {} by hand",
                full(namespace, path),
                full(namespace, slots::slot(pool, slot).path())
            ),
            remedy: format!(
                "next time use `menagerie slots release {pool} HOLDER --force`; whoever is admitted next tidies up"
            ),
        })
        .collect()
}

/// Slots that cannot be released, because their ticket is gone.
fn find_unreleasable(namespace: &str, tree: &Tree, pool: &Name) -> Vec<Damage> {
    let within = format!("{}/", slots::pool(pool).path());
    let of_pool = tree.znodes.range(within.clone()..).take_while(|(path, _)| path.starts_with(&within));
    let mut damage = Vec::new();
    for (path, data) in of_pool {
        let Some(slot) = slots::slot_number(&path[within.len()..]) else { continue };
        let Ok(Holder { holder, ticket: Some(ticket), .. }) = Holder::decode(data) else { continue };
        let ticket = slots::ticket(pool, &ticket);
        if !tree.znodes.contains_key(ticket.path()) {
            damage.push(Damage {
                health: Health::Fail,
                what: format!(
                    "{holder} holds slot {slot} of pool {pool}, and its ticket {} is gone: it cannot give the slot back",
                    full(namespace, ticket.path())
                ),
                remedy: format!(
                    "if it does not need the slot any more, `menagerie slots release {pool} {holder} --force`"
                ),
            });
        }
    }
    damage
}
