//! What users do with pipelines.
//!
//! - this file: how users name tenants, pipelines and changes, and how somebody is told to look at a repository.
//!   `approve.rs`: votes. [`logs`]: logs of builds. `manage.rs`: enqueue and dequeue. `wait.rs`: waiting for an end.

mod approve;
pub mod logs;
mod manage;
mod wait;

use std::str::FromStr;
use std::time::Duration;

use menagerie_kernel::{CallError, Session, Term, retry};
use menagerie_znodes::Name;
use menagerie_znodes::pipelines::{self as znodes, Change, ChangeError, ChangeRecord};

use tokio::time::{Instant, sleep};

pub use approve::{Approval, Approved, approve};
pub use manage::manage;
pub use wait::{wait_for_change, wait_until_idle};

use crate::core::knowledge::Refs;
use crate::{PipelineError, view};

/// Schedulers that have just started read the configuration within this time.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// Interval of looks at what changes.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A change as users write it: `PROJECT:propose/TARGET/TOPIC`. Where TARGET ends only the repository knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeName {
    /// The project.
    pub project: String,
    /// `propose/TARGET/TOPIC`.
    pub branch: String,
}

impl FromStr for ChangeName {
    type Err = ChangeError;

    fn from_str(text: &str) -> Result<Self, ChangeError> {
        let change = Change::parse(text, |_, _| true)?;
        Ok(Self { branch: change.branch(), project: change.project })
    }
}

impl std::fmt::Display for ChangeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.project, self.branch)
    }
}

impl ChangeName {
    /// Whether it names this change.
    pub fn is(&self, change: &Change) -> bool {
        change.project == self.project && change.branch() == self.branch
    }

    /// The open change that it names.
    pub fn find<'a>(&self, refs: &'a Refs) -> Option<&'a ChangeRecord> {
        refs.0.values().find_map(|seen| seen.projects.get(&self.project)?.changes.get(&self.branch))
    }
}

/// The tenant that is meant: the one that was named, else the only one.
pub async fn choose_tenant(term: &Term, named: Option<&Name>) -> Result<Name, PipelineError> {
    let tenants = view::tenants(&term.patient()).await?;
    let known = listed(&tenants);
    match (named, tenants.as_slice()) {
        (_, []) => Err(PipelineError::Unknown {
            what: "there are no tenants yet".to_owned(),
            help: "start `menagerie scheduler` with a configuration file that has [pipelines]".to_owned(),
        }),
        (Some(named), tenants) if tenants.contains(named) => Ok(named.clone()),
        (Some(named), _) => Err(PipelineError::Unknown {
            what: format!("there is no tenant {named}"),
            help: format!("the tenants are: {known}"),
        }),
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(PipelineError::Unknown {
            what: "there are several tenants".to_owned(),
            help: format!("name one of them with --tenant: {known}"),
        }),
    }
}

/// Fails if the tenant has no such pipeline. Schedulers that have just started are given some time to read its configuration.
pub async fn require_pipeline(
    session: &Session,
    tenant: &Name,
    pipeline: &Name,
) -> Result<(), PipelineError> {
    let began = Instant::now();
    let pipelines = loop {
        let pipelines = view::pipelines(&session.term().patient(), tenant).await?;
        if pipelines.contains(pipeline) {
            return Ok(());
        }
        if began.elapsed() > START_PATIENCE || view::unread(session, tenant).await?.is_none() {
            break pipelines;
        }
        sleep(LOOK_EVERY).await;
    };
    let help = match pipelines.is_empty() {
        true => "it has none yet: `menagerie pipeline status` shows what is wrong with its configuration"
            .to_owned(),
        false => format!("its pipelines are: {}", listed(&pipelines)),
    };
    Err(PipelineError::Unknown { what: format!("tenant {tenant} has no pipeline {pipeline}"), help })
}

fn listed(names: &[Name]) -> String {
    names.iter().map(Name::as_str).collect::<Vec<_>>().join(", ")
}

/// Makes the watcher look at a repository at once.
pub async fn poke(session: &Session, connection: &str, project: &str) -> Result<(), PipelineError> {
    let znode = znodes::poke(connection, project);
    let touch = async |term: Term| -> Result<(), CallError> {
        match retry::touch(&term, znode.path(), b"").await {
            Err(CallError::NoZnode { .. }) => retry::ensure(&term, znode.path(), b"").await,
            touched => touched.map(drop),
        }
    };
    Ok(session.across_terms(touch).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_changes_are_read_as_they_are_written() {
        let name: ChangeName = "org/app:propose/stable/2/fix".parse().unwrap();
        assert_eq!((name.project.as_str(), name.branch.as_str()), ("org/app", "propose/stable/2/fix"));
        assert_eq!(name.to_string(), "org/app:propose/stable/2/fix");
        let change = |target: &str, topic: &str| Change {
            project: "org/app".to_owned(),
            target: target.to_owned(),
            topic: topic.to_owned(),
        };
        assert!(name.is(&change("stable", "2/fix")) && name.is(&change("stable/2", "fix")));
        assert!(!name.is(&change("stable", "fix")));
        for text in ["org/app", "org/app:main", "org/app:propose/main/a/../b", "org/app:propose/main"] {
            assert!(text.parse::<ChangeName>().is_err(), "{text}");
        }
    }
}
