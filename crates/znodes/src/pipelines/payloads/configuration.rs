//! Configuration, and what is known of repositories.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::pipelines::{Change, Id, Sha};

/// The tenant file, and what all must agree on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemConf {
    /// The text of the tenant file.
    pub tenants: String,
    /// The host name of each connection, as it is in canonical names.
    pub hosts: BTreeMap<String, String>,
    /// The votes that a merge takes, by connection.
    pub submit: BTreeMap<String, BTreeMap<String, i64>>,
}

/// The cached configuration of a branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchFiles {
    /// The commit that the files were read from.
    pub commit: Sha,
    /// Their names.
    pub files: BTreeSet<String>,
    /// Rises whenever their contents change.
    pub edition: u64,
}

/// The current layout of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutRecord {
    /// Changes with the configuration.
    pub uuid: Id,
    /// Who made it.
    pub host: String,
    /// When.
    pub at_ms: i64,
    /// For each project and branch the edition of the cached files that it was made of.
    pub branches: BTreeMap<String, BTreeMap<String, u64>>,
    /// The tenant as the tenant file had it: a change of that is another layout, too.
    pub tenant: Value,
    /// The pipelines that it defines.
    #[serde(default)]
    pub pipelines: Vec<String>,
    /// What was left out, and why.
    #[serde(default)]
    pub problems: Vec<String>,
    /// Which repositories could not be read, and why.
    #[serde(default)]
    pub trouble: Vec<String>,
}

/// All repositories of a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionRefs {
    /// By the project's name.
    pub projects: BTreeMap<String, ProjectRefs>,
}

/// A repository as it was seen last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectRefs {
    /// All refs that matter.
    pub refs: BTreeMap<String, Sha>,
    /// The open changes, by their branch.
    pub changes: BTreeMap<String, ChangeRecord>,
    /// Why the repository could not be read lately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// An open change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeRecord {
    /// Its name.
    pub change: Change,
    /// The head of its branch.
    pub patchset: Sha,
    /// The first line of its newest commit.
    pub subject: String,
    /// What its footers `Depends-On:` name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// The votes on this patchset that stand: the newest of each voter and label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Vote>,
}

/// A vote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// What was judged.
    pub label: String,
    /// How.
    pub value: i64,
    /// By whom.
    pub by: String,
}
