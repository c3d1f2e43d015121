//! Access lists: who may do what with a znode.

use std::fmt;
use std::str::FromStr;

use menagerie_znodes::Kind;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use zookeeper_client::{Acl, Acls, AuthId, Permission};

use super::calls::{Created, create_mode};
use super::stat::Stat;
use super::term::Term;
use crate::error::CallError;

const LETTERS: [(char, Permission); 5] = [
    ('c', Permission::CREATE),
    ('d', Permission::DELETE),
    ('r', Permission::READ),
    ('w', Permission::WRITE),
    ('a', Permission::ADMIN),
];

/// One line of an access list: `scheme:id:permissions`, as zkCli writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Access {
    /// The authentication scheme: `world`, `auth`, `digest`, `ip`, `x509`, `sasl`.
    pub scheme: String,
    /// The identity within that scheme.
    pub id: String,
    /// The permissions, as letters of `cdrwa`: create, delete, read, write, administrate.
    pub permissions: String,
}

/// The text is no line of an access list.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no access: it has the form SCHEME:ID:PERMISSIONS, e.g. world:anyone:cdrwa")]
pub struct AccessError(String);

impl Access {
    /// Whether everybody may change something.
    pub fn is_open(&self) -> bool {
        self.scheme == "world" && self.permissions.chars().any(|letter| letter != 'r')
    }

    fn to_client(&self) -> Acl {
        let granted = LETTERS.iter().filter(|(letter, _)| self.permissions.contains(*letter));
        let permission = granted.fold(Permission::NONE, |all, (_, permission)| all | *permission);
        Acl::new(permission, AuthId::new(&self.scheme, &self.id))
    }

    fn from_client(acl: &Acl) -> Self {
        let granted = LETTERS.iter().filter(|(_, permission)| acl.permission().has(*permission));
        Self {
            scheme: acl.scheme().to_owned(),
            id: acl.id().to_owned(),
            permissions: granted.map(|(letter, _)| letter).collect(),
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.scheme, self.id, self.permissions)
    }
}

impl FromStr for Access {
    type Err = AccessError;

    fn from_str(text: &str) -> Result<Self, AccessError> {
        // An id may hold colons itself: `digest:user:hash:cdrwa`.
        let parse = || {
            let (scheme, rest) = text.split_once(':')?;
            let (id, permissions) = rest.rsplit_once(':')?;
            let known = permissions.chars().all(|c| LETTERS.iter().any(|(letter, _)| *letter == c));
            (!scheme.is_empty() && known).then(|| Self {
                scheme: scheme.to_owned(),
                id: id.to_owned(),
                permissions: permissions.to_owned(),
            })
        };
        parse().ok_or_else(|| AccessError(text.to_owned()))
    }
}

impl TryFrom<String> for Access {
    type Error = AccessError;

    fn try_from(text: String) -> Result<Self, AccessError> {
        text.parse()
    }
}

impl From<Access> for String {
    fn from(access: Access) -> Self {
        access.to_string()
    }
}

/// Calls about access lists.
impl Term {
    /// The access list of a znode, and its stat.
    pub async fn access(&self, path: &str) -> Result<(Vec<Access>, Stat), CallError> {
        let (acls, stat) = self.ask(path, |client, path| async move { client.get_acl(&path).await }).await?;
        Ok((acls.iter().map(Access::from_client).collect(), stat.into()))
    }

    /// Replaces the access list of a znode; with a version, only if it is still that one.
    pub async fn set_access(
        &self,
        path: &str,
        access: &[Access],
        version: Option<i32>,
    ) -> Result<Stat, CallError> {
        let acls = to_client(access);
        let stat = self
            .write(path, None, |client, path| async move { client.set_acl(&path, &acls, version).await })
            .await?;
        Ok(stat.into())
    }

    /// Creates a znode with an access list of its own.
    pub async fn create_with_access(
        &self,
        path: &str,
        data: &[u8],
        kind: Kind,
        access: &[Access],
    ) -> Result<Created, CallError> {
        let (data, acls) = (data.to_vec(), to_client(access));
        self.write(path, None, |client, path| async move {
            let (stat, sequence) =
                client.create(&path, &data, &create_mode(kind).with_acls(Acls::new(&acls))).await?;
            Ok(Created::new(path, kind, sequence, stat))
        })
        .await
    }
}

pub(crate) fn to_client(access: &[Access]) -> Vec<Acl> {
    access.iter().map(Access::to_client).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_may_hold_colons_and_survive_both_ways() {
        for text in ["world:anyone:cdrwa", "digest:me:aGFzaA==:r", "auth::cdrwa", "x509:CN=a,O=b:rw"] {
            let access: Access = text.parse().unwrap();
            assert_eq!(access.to_string(), text);
            assert_eq!(Access::from_client(&access.to_client()).id, access.id);
        }
        for text in ["", "world", "world:anyone", "world:anyone:x", ":anyone:r"] {
            assert!(text.parse::<Access>().is_err(), "{text}");
        }
    }

    #[test]
    fn open_is_what_everybody_can_change() {
        assert!("world:anyone:cdrwa".parse::<Access>().unwrap().is_open());
        assert!(!"world:anyone:r".parse::<Access>().unwrap().is_open());
        assert!(!"digest:me:hash:cdrwa".parse::<Access>().unwrap().is_open());
    }
}
