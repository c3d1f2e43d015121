//! Reading the registry.

use menagerie_znodes::components::{self, Component};
use menagerie_znodes::quote::unquote;
use menagerie_znodes::{Name, Payload as _};

use super::{MemberList, MembershipError};
use crate::error::CallError;
use crate::session::{Session, Stat, Term};

/// Entries read by one request: they must fit into one reply.
const AT_ONCE: usize = 200;

/// A component as listed.
#[derive(Debug, Clone, PartialEq)]
pub struct Registered {
    /// The kind that it is listed under.
    pub kind: Name,
    /// The name of its znode.
    pub name: String,
    /// What it last published.
    pub component: Component,
    /// The ZooKeeper session that owns the entry; 0 if a person made it as a persistent znode.
    pub session_id: i64,
    /// The transaction that created the entry; orders entries by age.
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

/// The registry, for readers.
#[derive(Debug, Clone)]
pub struct Registry {
    session: Session,
}

impl Registry {
    /// The registry of the namespace.
    pub fn new(session: &Session) -> Self {
        Self { session: session.clone() }
    }

    /// All components of a kind, oldest first.
    pub async fn members(&self, kind: &Name) -> Result<Vec<Registered>, MembershipError> {
        let dir = components::kind(kind).path().to_owned();
        let term = self.session.term().patient();
        let members = async {
            term.sync(&dir).await?;
            list(&term, kind).await
        };
        members.await.map_err(|source| MembershipError::Call { path: dir.clone(), source })
    }

    /// All components by kind, oldest first.
    pub async fn all(&self) -> Result<Vec<Registered>, MembershipError> {
        let root = components::root().path().to_owned();
        let term = self.session.term().patient();
        let all = async {
            term.sync(&root).await?;
            let mut kinds: Vec<Name> = children(&term, &root)
                .await?
                .iter()
                // Other names are not ours.
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

    /// All components of a kind, kept up to date.
    pub async fn watch(&self, kind: &Name) -> Result<MemberList, MembershipError> {
        MemberList::open(&self.session, kind).await
    }
}

async fn list(term: &Term, kind: &Name) -> Result<Vec<Registered>, CallError> {
    let dir = components::kind(kind);
    let names = children(term, dir.path()).await?;
    let mut members: Vec<Registered> = read(term, kind, &names).await?.into_iter().flatten().collect();
    members.sort_by_key(|member| member.zxid);
    Ok(members)
}

/// The children of a directory that may not exist yet.
pub(super) async fn children(term: &Term, path: &str) -> Result<Vec<String>, CallError> {
    match term.children(path).await {
        Err(CallError::NoZnode { .. }) => Ok(Vec::new()),
        names => names,
    }
}

/// Reads these entries; `None` for those that are gone.
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
