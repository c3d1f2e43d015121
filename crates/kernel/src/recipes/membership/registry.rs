//! Who is listed.

use menagerie_znodes::components::{self, Component};
use menagerie_znodes::quote::unquote;
use menagerie_znodes::{Name, Payload as _};

use super::{MembershipError, View};
use crate::error::CallError;
use crate::session::{Session, Stat, Term};

/// Entries that are asked for in one request: they must fit into one reply.
const AT_ONCE: usize = 200;

/// Somebody who is listed.
#[derive(Debug, Clone, PartialEq)]
pub struct Registered {
    /// Of which kind.
    pub kind: Name,
    /// The name of its entry.
    pub name: String,
    /// What it says about itself.
    pub component: Component,
    /// The ZooKeeper session that the entry lives with; 0 if a person made it, and it stays.
    pub session_id: i64,
    /// The transaction that created the entry: who came first has the lowest.
    pub zxid: i64,
    /// Since when it is listed, by the server's clock.
    pub since_ms: i64,
}

impl Registered {
    pub(super) fn new(kind: &Name, name: &str, data: &[u8], stat: &Stat) -> Self {
        // Reading a component never fails.
        let component = Component::decode(data).unwrap_or_default();
        Self {
            kind: kind.clone(),
            name: name.to_owned(),
            component,
            session_id: stat.ephemeral_owner,
            zxid: stat.czxid,
            since_ms: stat.ctime_ms,
        }
    }
}

/// The registry, for who only looks.
#[derive(Debug, Clone)]
pub struct Registry {
    session: Session,
}

impl Registry {
    /// The registry of the namespace.
    pub fn new(session: &Session) -> Self {
        Self { session: session.clone() }
    }

    /// All of a kind, in the order in which they came.
    pub async fn members(&self, kind: &Name) -> Result<Vec<Registered>, MembershipError> {
        let dir = components::kind(kind).path().to_owned();
        let term = self.session.term().patient();
        let members = async {
            term.sync(&dir).await?;
            list(&term, kind).await
        };
        members.await.map_err(|source| MembershipError::Call { path: dir.clone(), source })
    }

    /// All of all kinds, by kind, in the order in which they came.
    pub async fn all(&self) -> Result<Vec<Registered>, MembershipError> {
        let root = components::root().path().to_owned();
        let term = self.session.term().patient();
        let all = async {
            term.sync(&root).await?;
            let mut kinds: Vec<Name> = children(&term, &root)
                .await?
                .iter()
                // What is no name of ours is nobody of ours.
                .filter_map(|kind| Name::new(unquote(kind)?).ok())
                .collect();
            kinds.sort();
            let mut all = Vec::new();
            for kind in &kinds {
                all.extend(list(&term, kind).await?);
            }
            Ok(all)
        };
        all.await.map_err(|source| MembershipError::Call { path: root.clone(), source })
    }

    /// All of a kind, as a level that follows every change.
    pub async fn watch(&self, kind: &Name) -> Result<View, MembershipError> {
        View::open(&self.session, kind).await
    }
}

async fn list(term: &Term, kind: &Name) -> Result<Vec<Registered>, CallError> {
    let dir = components::kind(kind);
    let names = children(term, dir.path()).await?;
    let mut members: Vec<Registered> = read(term, kind, &names).await?.into_iter().flatten().collect();
    members.sort_by_key(|member| member.zxid);
    Ok(members)
}

/// The children of a directory that may not be there yet.
pub(super) async fn children(term: &Term, path: &str) -> Result<Vec<String>, CallError> {
    match term.children(path).await {
        Err(CallError::NoZnode { .. }) => Ok(Vec::new()),
        names => names,
    }
}

/// What these entries say; `None` where there is none any more.
pub(super) async fn read(
    term: &Term,
    kind: &Name,
    names: &[String],
) -> Result<Vec<Option<Registered>>, CallError> {
    let dir = components::kind(kind);
    let mut members = Vec::with_capacity(names.len());
    for names in names.chunks(AT_ONCE) {
        let paths: Vec<String> = names.iter().map(|name| format!("{dir}/{name}")).collect();
        let found = term.get_many(&paths).await?;
        members.extend(names.iter().zip(found).map(|(name, found)| {
            let (data, stat) = found?;
            Some(Registered::new(kind, name, &data, &stat))
        }));
    }
    Ok(members)
}
