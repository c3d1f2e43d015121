//! What became of messages: who tried them when, for how long, and how it ended.
//!
//! Workers append the outcomes of their attempts to a topic beside the queue's, in pages of many, never on the path of a
//! message: a crash loses at most the last moment. Operators' acts go there together with what they change. The topic
//! keeps as much as the queue keeps handled messages.
//!
//! - `page`: what workers write; `act`: what operators did. `pen`: writes it.
//! - `reader`: reads both. `search`: finds a message's outcomes among millions. `trace`: the whole story of a message.
//!   `state`: what has become of it. `find`: messages of a queue; `matching`: which are wanted.

pub(crate) mod act;
mod find;
mod matching;
mod page;
mod pen;
pub(crate) mod reader;
mod search;
mod state;
mod trace;

use std::time::Duration;

use menagerie_journal::{Created, Journal, PartitionId, Ticks, Topic, TopicConfig};
use menagerie_kernel::Term;
use menagerie_znodes::Name;
use menagerie_znodes::queues::{self, Keep, PartitionName, QueueName, Settings};

use crate::coordination::claim::last_activity;
use crate::core::activity::AllRunning;
use crate::error::QueueError;

pub use act::{Act, ActKind, note};
pub use find::find;
pub use matching::{Filter, Finding, FoundMessage};
pub use page::{Entry, Outcome, Page};
pub(crate) use pen::{OutcomeLog, Pen};
pub(crate) use search::is_expired;
pub use search::outcomes;
pub use state::{State, StateError};
pub use trace::{Line, Story, trace};

/// No queue's name has a comma, so no queue's topic has this name.
const SUFFIX: &str = ",story";

/// The partition with the acts of operators; the outcomes of the queue's partition N are in partition N + 1.
pub(crate) const ACTS: u32 = 1;

/// Stories are kept at least this long.
const RETENTION_MIN: Duration = Duration::from_secs(60);

/// The topic with the stories of a queue's messages.
pub fn topic(queue: &QueueName) -> Result<Topic, QueueError> {
    let name = format!("{queue}{SUFFIX}");
    Topic::new(&name).map_err(|source| QueueError::Topic { name, source })
}

/// Creates the topic of a queue's stories, or changes it to what these settings want.
pub(crate) async fn prepare(
    journal: &dyn Journal,
    queue: &QueueName,
    settings: &Settings,
) -> Result<(), QueueError> {
    let (topic, wanted) = (topic(queue)?, config(settings));
    if let Created::Existed(found) = journal.create_topic(&topic, wanted.clone()).await? {
        let partitions = wanted.partitions.max(found.partitions);
        let wanted = TopicConfig { partitions, retention: wanted.retention, ..found.clone() };
        if wanted != found {
            journal.alter_topic(&topic, wanted).await?;
        }
    }
    Ok(())
}

/// The queue of a topic with stories.
pub(crate) fn queue_of(topic: &Topic) -> Option<QueueName> {
    topic.as_str().strip_suffix(SUFFIX)?.parse().ok()
}

/// Messages of a partition that run, as its owner said last. Those of a worker that is gone do not.
pub(crate) async fn running_in(
    term: &Term,
    journal: &dyn Journal,
    partition: &PartitionName,
) -> Result<AllRunning, QueueError> {
    let told = last_activity(journal, partition).await?;
    let Some(told) = told.filter(|activity| activity.is_fresh(Ticks::now())) else {
        return Ok(AllRunning::default());
    };
    let is_there = match Name::new(&told.worker) {
        Ok(name) => term.read(&queues::worker(&name).maybe_damaged()).await?.is_some(),
        Err(_) => false,
    };
    Ok(if is_there { told.all_running() } else { AllRunning::default() })
}

/// The outcomes of a partition of the queue.
pub(crate) fn outcomes_of(queue: &QueueName, partition: u16) -> Result<PartitionId, QueueError> {
    Ok(PartitionId::new(topic(queue)?, u32::from(partition) + ACTS))
}

/// The topic as a queue with these settings needs it.
pub(crate) fn config(settings: &Settings) -> TopicConfig {
    let retention = match settings.keep {
        // The journal drops whole segments; a shorter time would only make it busy.
        Keep::For(time) => Some(time.max(RETENTION_MIN)),
        Keep::Forever => None,
    };
    TopicConfig { retention, ..TopicConfig::partitions(u32::from(settings.partitions) + ACTS) }
}
