//! What a web server reads from and acts on.

use std::collections::BTreeMap;

use menagerie_flows::client::Jobs;
use menagerie_kernel::Session;
use menagerie_pipelines::Connection;
use menagerie_pipelines::git::Caches;
use menagerie_queues::Journals;
use menagerie_znodes::flows::Deployment;

use crate::builds;
use crate::history::History;

/// What a web server reads from and acts on. All that it shows can be read again, but for the last hour of charts.
#[derive(Clone)]
pub struct Sources {
    /// A session in the namespace, with owner's rights.
    pub session: Session,
    /// The journals that are registered there.
    pub journals: Journals,
    /// The deployment of flows.
    pub deployment: Deployment,
    /// The ZooKeeper servers, as `HOST:PORT`.
    pub servers: Vec<String>,
    /// Whether they can be asked for their status: four-letter words are not encrypted.
    pub speaks_words: bool,
    /// What votes are made with; `None` if this server has no `[pipelines]`.
    pub git: Option<Git>,
    /// What this process remembers of builds.
    pub builds: builds::Memory,
    /// The last hour of queues, as this process has seen it.
    pub history: History,
}

/// Where the repositories of pipelines are.
#[derive(Clone)]
pub struct Git {
    /// By name.
    pub connections: BTreeMap<String, Connection>,
    /// Where git keeps what it needs for a vote.
    pub caches: Caches,
}

impl Sources {
    /// The jobs of flows.
    pub fn jobs(&self) -> Jobs {
        Jobs { session: self.session.clone(), deployment: self.deployment.clone() }
    }
}
