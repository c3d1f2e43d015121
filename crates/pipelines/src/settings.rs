//! Settings of all roles of pipelines, validated by whoever reads the configuration file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often repositories are looked at, unless the configuration says otherwise.
pub const POLL: Duration = Duration::from_secs(5);

/// What a scheduler, merger or executor must know besides ZooKeeper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The text of the tenant file.
    pub tenants: String,
    /// By name.
    pub connections: BTreeMap<String, Connection>,
}

/// A place with repositories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// A folder or a URL; project `org/app` is `BASEURL/org/app`, or `BASEURL/org/app.git`.
    pub baseurl: String,
    /// The host in canonical names.
    pub host: String,
    /// How often its repositories are looked at.
    pub poll: Duration,
    /// The votes that a merge takes.
    pub submit: BTreeMap<String, i64>,
}

impl Connection {
    /// Where a project's repository is.
    pub fn url(&self, project: &str) -> String {
        let plain = format!("{}/{project}", self.baseurl.trim_end_matches('/'));
        // Only in a folder can be seen which of the two it is; a server takes both, as a rule.
        let dotted = format!("{plain}.git");
        match Path::new(&plain).is_absolute() && !Path::new(&plain).exists() && Path::new(&dotted).exists() {
            true => dotted,
            false => plain,
        }
    }
}

/// The folder of all pipelines' roles on this machine: caches of repositories, work trees, logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder(pub PathBuf);

impl Folder {
    /// Caches of repositories.
    pub fn git(&self) -> PathBuf {
        self.0.join("git")
    }

    /// Work trees of running builds.
    pub fn builds(&self) -> PathBuf {
        self.0.join("builds")
    }

    /// Logs of builds.
    pub fn logs(&self) -> PathBuf {
        self.0.join("logs")
    }

    /// The log of a build.
    pub fn log(&self, build: &str) -> PathBuf {
        self.logs().join(format!("{build}.log"))
    }
}
