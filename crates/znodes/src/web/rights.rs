//! What a token allows: scopes, each in one area or in all of them.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What can be done. None includes another: a token that submits cannot read, unless it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
pub enum Scope {
    /// See what there is.
    Read,
    /// Bring new work: put messages, submit jobs, enqueue changes.
    Submit,
    /// Change what becomes of work: freeze, pause, retry, kill, dequeue.
    Operate,
    /// Decide who may do what.
    Admin,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Submit, Self::Operate, Self::Admin];

    /// Its stored form.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Submit => "submit",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

/// Where it can be done: an engine, or what belongs to none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
pub enum Area {
    /// Slots.
    Slots,
    /// Queues.
    Queues,
    /// Flows.
    Flows,
    /// Pipelines.
    Pipelines,
    /// Servers, znodes and the audit trail. Only a grant without an engine covers it.
    Installation,
}

impl Area {
    const ALL: [Self; 5] = [Self::Slots, Self::Queues, Self::Flows, Self::Pipelines, Self::Installation];

    /// The engines: what a grant can name.
    pub const ENGINES: [Self; 4] = [Self::Slots, Self::Queues, Self::Flows, Self::Pipelines];

    /// Its stored form.
    pub fn word(self) -> &'static str {
        match self {
            Self::Slots => "slots",
            Self::Queues => "queues",
            Self::Flows => "flows",
            Self::Pipelines => "pipelines",
            Self::Installation => "installation",
        }
    }
}

/// A scope in one engine (`queues:operate`), or everywhere (`operate`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Grant {
    /// `None`: everywhere.
    pub engine: Option<Area>,
    /// What.
    pub scope: Scope,
}

/// The text is no grant.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no scope: write read, submit, operate or admin, or ENGINE:SCOPE such as queues:operate")]
pub struct GrantError(String);

impl FromStr for Grant {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Self, GrantError> {
        let (engine, scope) = match text.split_once(':') {
            Some((engine, scope)) => (Some(engine), scope),
            None => (None, text),
        };
        let refused = || GrantError(text.to_owned());
        let known = |word: &str| Area::ENGINES.into_iter().find(|area| area.word() == word);
        let engine = engine.map(|word| known(word).ok_or_else(refused)).transpose()?;
        let scope = Scope::ALL.into_iter().find(|known| known.word() == scope).ok_or_else(refused)?;
        Ok(Self { engine, scope })
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.engine {
            Some(engine) => write!(f, "{}:{}", engine.word(), self.scope.word()),
            None => f.write_str(self.scope.word()),
        }
    }
}

/// A set of grants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Rights {
    /// One bit for each scope in each area.
    bits: u32,
}

impl Rights {
    /// Everything.
    pub const ALL: Self = Self { bits: (1 << 20) - 1 };

    /// One scope everywhere.
    pub fn everywhere(scope: Scope) -> Self {
        Self::from_iter([Grant { engine: None, scope }])
    }

    /// Whether this can be done there.
    pub fn allows(self, area: Area, scope: Scope) -> bool {
        self.bits & bit(area, scope) != 0
    }

    /// Whether anything of an engine can be done at all.
    pub fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// The shortest list of grants.
    pub fn grants(self) -> Vec<Grant> {
        let mut grants = Vec::new();
        for scope in Scope::ALL {
            if self.allows(Area::Installation, scope) {
                grants.push(Grant { engine: None, scope });
                continue;
            }
            let engines = Area::ENGINES.into_iter().filter(|engine| self.allows(*engine, scope));
            grants.extend(engines.map(|engine| Grant { engine: Some(engine), scope }));
        }
        grants
    }
}

fn bit(area: Area, scope: Scope) -> u32 {
    1 << (area as u32 * Scope::ALL.len() as u32 + scope as u32)
}

impl FromIterator<Grant> for Rights {
    fn from_iter<T: IntoIterator<Item = Grant>>(grants: T) -> Self {
        let areas = |grant: Grant| match grant.engine {
            Some(engine) => vec![engine],
            None => Area::ALL.to_vec(),
        };
        let bits = grants
            .into_iter()
            .flat_map(|grant| areas(grant).into_iter().map(move |area| bit(area, grant.scope)));
        Self { bits: bits.fold(0, |all, bit| all | bit) }
    }
}

impl TryFrom<Vec<String>> for Rights {
    type Error = GrantError;

    fn try_from(grants: Vec<String>) -> Result<Self, GrantError> {
        grants.iter().map(|grant| grant.parse::<Grant>()).collect()
    }
}

impl From<Rights> for Vec<String> {
    fn from(rights: Rights) -> Self {
        rights.grants().iter().map(ToString::to_string).collect()
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Vec::from(*self).join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(grants: &[&str]) -> Rights {
        grants.iter().map(|grant| grant.parse::<Grant>().unwrap()).collect()
    }

    #[test]
    fn a_grant_covers_its_engine_and_its_scope_alone() {
        let one = rights(&["queues:operate"]);
        for area in Area::ALL {
            for scope in Scope::ALL {
                assert_eq!(one.allows(area, scope), (area, scope) == (Area::Queues, Scope::Operate));
            }
        }
    }

    #[test]
    fn without_an_engine_it_covers_all_and_the_installation() {
        let read = rights(&["read"]);
        assert!(Area::ALL.into_iter().all(|area| read.allows(area, Scope::Read)));
        assert!(!Area::ALL.into_iter().any(|area| read.allows(area, Scope::Submit)));
        assert_eq!(rights(&["read", "submit", "operate", "admin"]), Rights::ALL);
    }

    #[test]
    fn rights_are_stored_as_people_write_them() {
        let both = rights(&["queues:submit", "read", "queues:read"]);
        assert_eq!(serde_json::to_string(&both).unwrap(), r#"["read","queues:submit"]"#);
        assert_eq!(serde_json::from_str::<Rights>(r#"["queues:submit","read"]"#).unwrap(), both);
        for wrong in ["", "write", "mail:read", "queues:", ":read", "installation:read", "READ"] {
            assert!(wrong.parse::<Grant>().is_err(), "{wrong}");
        }
    }
}
