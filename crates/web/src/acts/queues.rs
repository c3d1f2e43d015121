//! Queues: put a message, retry and forget failed ones, pause and resume.

use std::sync::Arc;

use menagerie_journal::{MessageId, NewMessage, Ticks};
use menagerie_queues::admin::failed::{FailedMessage, FailedMessages};
use menagerie_queues::admin::{self, Destination, Putter, Scope, ToPut};
use menagerie_queues::{MessageUuid, Origin, Via, fields};
use menagerie_types::Name;
use menagerie_znodes::queues::{Pause, QueueName};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Done, Nothing, WithReason};
use crate::audit::Actor;
use crate::params::Params;
use crate::problem::Problem;
use crate::sources::Sources;

/// Failed messages per request of the journal.
const BATCH: u32 = 1_000;
/// Most failed messages that one request retries or forgets.
const BULK_MAX: usize = 10_000;

/// A message to put.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBody {
    /// Its body.
    pub body: String,
    /// Chooses the partition: messages with the same key are handled in order.
    #[serde(default)]
    pub key: Option<String>,
    /// The partition, in place of a key.
    #[serde(default)]
    pub partition: Option<u16>,
    /// Deliver after this delay: `90s`, `5m`, `2h`, `3d`.
    #[serde(default)]
    pub delay: Option<String>,
    /// Drop the message if it is still unhandled this long after it is due.
    #[serde(default)]
    pub ttl: Option<String>,
    /// From -100 to 100: higher ones are handled first, in queues without order.
    #[serde(default)]
    pub priority: Option<i8>,
    /// Within two minutes, only the first message with this id counts.
    #[serde(default)]
    pub dedup: Option<String>,
}

/// Which failed messages.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Which {
    /// These.
    #[serde(default)]
    pub ids: Vec<MessageUuid>,
    /// All that there are now, 10,000 at most, in place of `ids`.
    #[serde(default)]
    pub all: bool,
}

/// Puts a message.
pub async fn put(
    sources: Arc<Sources>,
    actor: Actor,
    params: Params,
    body: NewBody,
) -> Result<Done, Problem> {
    let queue: QueueName = params.path("queue")?;
    let wrong = |name: &str| {
        let name = name.to_owned();
        move |why: String| Problem::bad(format!("{name}: {why}"), "correct or leave it out")
    };
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let origin = Origin::new(&actor.by(), Via::Http);
    let start = (Ticks::now().0 / 10) as u16;
    let mut putter = Putter::open(&sources.session, &sources.journals, &queue, start, origin).await?;
    let key = given(body.key);
    let destination = fields::destination(key.as_deref(), body.partition).map_err(wrong("key"))?;
    let priority = body.priority.map(|priority| fields::check_priority(priority, putter.order()));
    let message = NewMessage {
        body: body.body.into(),
        due: fields::due(given(body.delay).as_deref(), None).map_err(wrong("delay"))?,
        ttl: given(body.ttl).map(|ttl| fields::lifetime(&ttl)).transpose().map_err(wrong("ttl"))?,
        dedup: given(body.dedup)
            .map(|dedup| fields::dedup_id(&dedup))
            .transpose()
            .map_err(wrong("dedup"))?
            .map(Into::into),
        ..NewMessage::default()
    };
    let to_put = ToPut {
        destination: destination.unwrap_or(Destination::Any),
        priority: priority.transpose().map_err(wrong("priority"))?.unwrap_or_default(),
        message,
    };
    let put = putter.put(vec![to_put]).await?.pop();
    let id = put.as_ref().and_then(|put| put.id).map(|id| id.to_string());
    let message = match (&id, put.is_some_and(|put| put.duplicate)) {
        (Some(id), false) => format!("message {id} is in queue {queue}"),
        (Some(id), true) => format!("message {id} was in queue {queue} already"),
        (None, _) => format!("a message with this dedup id was in queue {queue} already, and is gone"),
    };
    Ok(Done { message, ids: id.into_iter().collect() })
}

/// Puts failed messages back into their partitions, at the end.
pub async fn retry(
    sources: Arc<Sources>,
    actor: Actor,
    params: Params,
    which: Which,
) -> Result<Done, Problem> {
    let queue: QueueName = params.path("queue")?;
    let failed = FailedMessages::open(&sources.session, &sources.journals, &queue).await?;
    let failed = failed.acting_as(&actor.by());
    let ids = each(&queue, &failed, which, Work::Retry).await?;
    Ok(Done { message: format!("{} of queue {queue} will be tried again", count(ids.len())), ids })
}

/// Drops failed messages for good.
pub async fn forget(
    sources: Arc<Sources>,
    actor: Actor,
    params: Params,
    which: Which,
) -> Result<Done, Problem> {
    let queue: QueueName = params.path("queue")?;
    let failed = FailedMessages::open(&sources.session, &sources.journals, &queue).await?;
    let failed = failed.acting_as(&actor.by());
    let ids = each(&queue, &failed, which, Work::Forget).await?;
    Ok(Done { message: format!("{} of queue {queue} dropped", count(ids.len())), ids })
}

/// What to do with a failed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Retry,
    Forget,
}

impl Work {
    /// `false` if it is no longer there.
    async fn on(self, failed: &FailedMessages, message: &FailedMessage) -> Result<bool, Problem> {
        Ok(match self {
            Self::Retry => failed.retry(message).await?,
            Self::Forget => failed.forget(message).await?,
        })
    }
}

/// Works on each message, and returns the ids of those that were there.
async fn each(
    queue: &QueueName,
    failed: &FailedMessages,
    which: Which,
    work: Work,
) -> Result<Vec<String>, Problem> {
    let mut done = Vec::new();
    match (which.all, which.ids.is_empty()) {
        (true, false) | (false, true) => {
            return Err(Problem::bad("say which messages: `ids`, or `all`", "one of the two, and not both"));
        }
        (false, false) => {
            for id in which.ids {
                let worked = async {
                    match failed.find(id).await? {
                        Some(found) => work.on(failed, &found).await,
                        None => Ok(false),
                    }
                };
                if !worked.await.map_err(|problem| after(problem, done.len()))? {
                    let what = format!("message {id} is not among the failed ones of queue {queue}");
                    let problem = Problem::missing(what, "somebody may have retried or dropped it already");
                    return Err(after(problem, done.len()));
                }
                done.push(id.to_string());
            }
        }
        (true, true) => {
            // Those that fail meanwhile stay: otherwise a message that fails at once would be retried for ever.
            let (mut last, end) = (MessageId::ZERO, failed.newest().await?);
            while last < end && done.len() < BULK_MAX {
                let batch =
                    failed.after(last, BATCH).await.map_err(|error| after(error.into(), done.len()))?;
                let Some(newest) = batch.last() else { break };
                last = newest.position;
                for one in batch.iter().filter(|one| one.position <= end) {
                    if work.on(failed, one).await.map_err(|problem| after(problem, done.len()))? {
                        done.push(one.id.to_string());
                    }
                }
            }
        }
    }
    Ok(done)
}

/// Says how many messages were worked on before it went wrong.
fn after(problem: Problem, done: usize) -> Problem {
    match done {
        0 => problem,
        done => Problem { detail: format!("{}; {} before it: done", problem.detail, count(done)), ..problem },
    }
}

fn count(messages: usize) -> String {
    match messages {
        1 => "1 message".to_owned(),
        more => format!("{more} messages"),
    }
}

/// Pauses a queue for all its workers.
pub async fn pause(
    sources: Arc<Sources>,
    actor: Actor,
    params: Params,
    body: WithReason,
) -> Result<Done, Problem> {
    let queue: QueueName = params.path("queue")?;
    let pause = Pause { by: actor.by(), reason: body.given() };
    admin::pause(&sources.session, &Scope::Queue(queue.clone()), &pause).await?;
    Ok(Done::new(format!("queue {queue} is paused: workers begin no more messages of it")))
}

/// Lets a queue go on.
pub async fn resume(sources: Arc<Sources>, _: Actor, params: Params, _: Nothing) -> Result<Done, Problem> {
    let queue: QueueName = params.path("queue")?;
    let was_paused = admin::resume(&sources.session, &Scope::Queue(queue.clone())).await?;
    Ok(Done::new(match was_paused {
        true => format!("queue {queue} goes on"),
        false => format!("queue {queue} was not paused"),
    }))
}

/// Pauses a worker, with all its queues.
pub async fn pause_worker(
    sources: Arc<Sources>,
    actor: Actor,
    params: Params,
    body: WithReason,
) -> Result<Done, Problem> {
    let worker: Name = params.path("worker")?;
    let pause = Pause { by: actor.by(), reason: body.given() };
    admin::pause(&sources.session, &Scope::Worker(worker.clone()), &pause).await?;
    Ok(Done::new(format!("worker {worker} is paused")))
}

/// Lets a worker go on.
pub async fn resume_worker(
    sources: Arc<Sources>,
    _: Actor,
    params: Params,
    _: Nothing,
) -> Result<Done, Problem> {
    let worker: Name = params.path("worker")?;
    let was_paused = admin::resume(&sources.session, &Scope::Worker(worker.clone())).await?;
    Ok(Done::new(match was_paused {
        true => format!("worker {worker} goes on"),
        false => format!("worker {worker} was not paused"),
    }))
}
