//! Which schedulers, mergers and executors are registered: without them, items wait.

use menagerie_kernel::{CallError, Term};
use menagerie_znodes::components::{self, Component, ComponentState};
use menagerie_znodes::{Kind, Name};

use crate::client::logs::EXECUTOR;

/// The registered processes of pipelines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fleet {
    /// Schedulers.
    pub schedulers: Crew,
    /// Mergers.
    pub mergers: Crew,
    /// Executors.
    pub executors: Crew,
    /// Jobs that all running executors run at a time.
    pub places: u64,
}

/// The registered processes of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Crew {
    /// Those that take work.
    pub running: usize,
    /// Those that have just begun, finish what they have, or are about to leave.
    pub idle: usize,
}

impl Fleet {
    /// All that is registered now.
    pub async fn read(term: &Term) -> Result<Self, CallError> {
        let (schedulers, _) = crew(&read_kind(term, "scheduler").await?);
        let (mergers, _) = crew(&read_kind(term, "merger").await?);
        let (executors, places) = crew(&read_kind(term, EXECUTOR).await?);
        Ok(Self { schedulers, mergers, executors, places })
    }
}

async fn read_kind(term: &Term, kind: &str) -> Result<Vec<Component>, CallError> {
    let folder = components::kind(&Name::new(kind).expect("it is a name"));
    let names = match term.children(folder.path()).await {
        Err(CallError::NoZnode { .. }) => Vec::new(),
        names => names?,
    };
    let members: Vec<_> = names.iter().map(|name| folder.child::<Component>(name, Kind::Ephemeral)).collect();
    Ok(term.read_many(&members).await?.into_iter().flatten().map(|found| found.value).collect())
}

/// How many of these processes take work, and how many jobs they run at a time.
fn crew(members: &[Component]) -> (Crew, u64) {
    let (mut crew, mut places) = (Crew::default(), 0);
    for member in members {
        match member.state {
            ComponentState::Running => {
                crew.running += 1;
                places += member.details.get("jobs").and_then(serde_json::Value::as_u64).unwrap_or(0);
            }
            ComponentState::Initializing
            | ComponentState::Paused
            | ComponentState::Stopped
            | ComponentState::Other(_) => crew.idle += 1,
        }
    }
    (crew, places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_running_processes_take_work() {
        let member = |state: ComponentState, jobs: u64| {
            let details = serde_json::Map::from_iter([("jobs".to_owned(), jobs.into())]);
            Component { state, details, ..Component::default() }
        };
        let members = [
            member(ComponentState::Running, 4),
            member(ComponentState::Running, 2),
            member(ComponentState::Paused, 8),
            member(ComponentState::Other("draining".to_owned()), 8),
        ];
        assert_eq!(crew(&members), (Crew { running: 2, idle: 2 }, 6));
    }
}
