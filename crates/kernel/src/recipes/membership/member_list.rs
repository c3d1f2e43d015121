//! The list of a kind, kept up to date.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::FutureExt as _;
use menagerie_znodes::{Name, components};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::warn;

use super::MembershipError;
use super::registry::{Registered, children, read};
use crate::error::CallError;
use crate::session::{Session, Term, TreeEvent};

/// All components of a kind, kept up to date until this is dropped.
#[derive(Debug)]
pub struct MemberList {
    members: watch::Receiver<Vec<Registered>>,
    follower: JoinHandle<()>,
}

impl MemberList {
    /// Reads the list, and follows it from then on.
    pub(super) async fn open(session: &Session, kind: &Name) -> Result<Self, MembershipError> {
        let (members, members_seen) = watch::channel(Vec::new());
        // Closed without a value once the list was read for the first time.
        let (first, mut first_seen) = watch::channel(None);
        let (session, followed) = (session.clone(), kind.clone());
        let follower = tokio::spawn(async move {
            let mut first = Some(first);
            if let Err(error) = follow(&session, &followed, &members, &mut first).await {
                match first {
                    Some(first) => drop(first.send(Some(error))),
                    None => {
                        warn!(kind = %followed, %error, "component list no longer followed")
                    }
                }
            }
        });
        let view = Self { members: members_seen, follower };
        let failure = match first_seen.changed().await {
            Ok(()) => first_seen.borrow_and_update().clone(),
            Err(_) => None,
        };
        match failure {
            Some(source) => {
                Err(MembershipError::Call { path: components::kind(kind).path().to_owned(), source })
            }
            None => Ok(view),
        }
    }

    /// The list, oldest first. While the connection is lost it stays as it was; when the session is closed, the sender
    /// is dropped.
    pub fn members(&self) -> watch::Receiver<Vec<Registered>> {
        self.members.clone()
    }
}

impl Drop for MemberList {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

/// What must be read again.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Doubt {
    Everything,
    Names(BTreeSet<String>),
}

impl Doubt {
    /// Adds what an event leaves in doubt. Events say where something changed, never what is there now.
    fn add(&mut self, dir: &str, event: &TreeEvent) {
        match (event, self) {
            (TreeEvent::At(path, _), Self::Names(names)) => {
                // The directory itself, or something below an entry: neither changes the list.
                let name = path.strip_prefix(dir).and_then(|rest| rest.strip_prefix('/'));
                if let Some(name) = name.filter(|name| !name.contains('/')) {
                    names.insert(name.to_owned());
                }
            }
            (TreeEvent::At(..) | TreeEvent::Suspended | TreeEvent::Resumed | TreeEvent::Ended, _) => {}
        }
    }
}

type First = Option<watch::Sender<Option<CallError>>>;

async fn follow(
    session: &Session,
    kind: &Name,
    members: &watch::Sender<Vec<Registered>>,
    first: &mut First,
) -> Result<(), CallError> {
    let mut terms = session.term_by_term();
    loop {
        let followed = follow_in(&terms.term().patient(), kind, members, first).await;
        // If only the watch was lost with its connection, set it again.
        if let Some(Err(error)) = terms.finished(followed).await {
            return Err(error);
        }
    }
}

/// Follows until the watch is lost: when the connection was lost and is back.
async fn follow_in(
    term: &Term,
    kind: &Name,
    members: &watch::Sender<Vec<Registered>>,
    first: &mut First,
) -> Result<(), CallError> {
    let dir = components::kind(kind);
    let mut events = term.watch_tree(dir.path()).await?;
    let mut known: BTreeMap<String, Registered> = BTreeMap::new();
    let mut doubt = Doubt::Everything;
    loop {
        let names: Vec<String> = match std::mem::replace(&mut doubt, Doubt::Names(BTreeSet::new())) {
            Doubt::Everything => children(term, dir.path()).await?,
            Doubt::Names(names) => names.into_iter().collect(),
        };
        let found = read(term, kind, &names).await?;
        for (name, found) in names.into_iter().zip(found) {
            match found {
                Some(member) => drop(known.insert(name, member)),
                None => drop(known.remove(&name)),
            }
        }
        publish(&known, members);
        *first = None;
        let mut event = events.next().await;
        loop {
            match event {
                TreeEvent::Ended => return Err(CallError::Expired),
                // The client does not restore this kind of watch.
                TreeEvent::Resumed => return Ok(()),
                TreeEvent::At(..) | TreeEvent::Suspended => doubt.add(dir.path(), &event),
            }
            // One read covers all events that have arrived by now.
            match events.next().now_or_never() {
                Some(next) => event = next,
                None => break,
            }
        }
    }
}

fn publish(known: &BTreeMap<String, Registered>, members: &watch::Sender<Vec<Registered>>) {
    let mut list: Vec<Registered> = known.values().cloned().collect();
    list.sort_by_key(|member| member.zxid);
    members.send_if_modified(|members| {
        let changed = *members != list;
        *members = list;
        changed
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Change;

    #[test]
    fn events_leave_in_doubt_what_they_touch_and_no_more() {
        let mut doubt = Doubt::Names(BTreeSet::new());
        for path in ["/components/web/a1", "/components/web", "/components/web/a1/x", "/components/webb/b1"] {
            doubt.add("/components/web", &TreeEvent::At(path.to_owned(), Change::Data));
        }
        doubt.add("/components/web", &TreeEvent::Suspended);
        assert_eq!(doubt, Doubt::Names(BTreeSet::from(["a1".to_owned()])));
        let mut doubt = Doubt::Everything;
        doubt.add("/components/web", &TreeEvent::At("/components/web/a2".to_owned(), Change::Data));
        assert_eq!(doubt, Doubt::Everything);
    }
}
