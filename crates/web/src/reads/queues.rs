//! Queues: how far behind, who handles what, what waits, what has failed, and what became of a message.

use std::sync::Arc;

use menagerie_journal::MessageId;
use menagerie_queues::admin::browse::Browser;
use menagerie_queues::admin::failed::FailedMessages;
use menagerie_queues::admin::show::{self, WorkerEntry};
use menagerie_queues::story::{self, Story};
use menagerie_queues::view::{self, FailedMessageView, MessageView, QueueOverview, QueueRow};
use menagerie_queues::{MessageUuid, QueueError};
use menagerie_znodes::queues::QueueName;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Listing, now_ms};
use crate::history::{INTERVAL_MS, Sample, hour};
use crate::params::Params;
use crate::problem::Problem;
use crate::sources::Sources;

/// All queues, by name.
pub async fn queues(sources: Arc<Sources>, params: Params) -> Result<Listing<QueueRow>, Problem> {
    sources.history.look();
    let names = show::list(&sources.session).await?;
    let mut names: Vec<(String, QueueName)> = names
        .into_iter()
        .map(|name| (name.to_string(), name))
        .filter(|(text, _)| params.wants(text))
        .collect();
    names.sort_unstable();
    // Only those of this page are looked at: there may be thousands.
    let page = Listing::page(names, |(text, _)| text.clone(), &params);
    let of_page = page.items.into_iter().map(|(_, name)| name).collect();
    let rows = view::rows_of(&sources.session, &sources.journals, of_page).await.map_err(QueueError::from)?;
    let mut items: Vec<QueueRow> = rows.into_iter().map(|(row, _)| row).collect();
    items.sort_by_key(|row| row.queue.to_string());
    Ok(Listing { items, next: page.next })
}

/// One queue.
pub async fn queue(sources: Arc<Sources>, params: Params) -> Result<QueueOverview, Problem> {
    let queue: QueueName = params.path("queue")?;
    let view = view::overview(&sources.session, &sources.journals, &queue).await?;
    sources.history.look_at(&queue);
    Ok(view)
}

/// The last hour of a queue, as one web process has seen it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct QueueHistory {
    /// The queue.
    pub queue: QueueName,
    /// Samples are taken this often, while somebody looks at queues and for an hour after that.
    pub interval_ms: u64,
    /// Samples of the last hour, oldest first. What is missing could not be read.
    pub items: Vec<Sample>,
}

/// The samples of a queue. Queues without any are looked for, so that one that does not exist is not taken for idle.
pub async fn history(sources: Arc<Sources>, params: Params) -> Result<QueueHistory, Problem> {
    let queue: QueueName = params.path("queue")?;
    sources.history.look();
    let items = match sources.history.of_queue(&queue) {
        Some(samples) => samples,
        None if show::list(&sources.session).await?.contains(&queue) => Vec::new(),
        None => return Err(QueueError::NoQueue { queue }.into()),
    };
    let items = hour(&items, None, now_ms()).into_iter().flatten().collect();
    Ok(QueueHistory { queue, interval_ms: INTERVAL_MS, items })
}

/// All workers, by name.
pub async fn workers(sources: Arc<Sources>, params: Params) -> Result<Listing<WorkerEntry>, Problem> {
    sources.history.look();
    let mut workers = show::workers(&sources.session).await?;
    workers.retain(|entry| params.wants(entry.worker.as_str()));
    Ok(Listing::page(workers, |entry| entry.worker.to_string(), &params))
}

/// The failed messages of a queue, oldest first.
pub async fn failed(sources: Arc<Sources>, params: Params) -> Result<Listing<FailedMessageView>, Problem> {
    let queue: QueueName = params.path("queue")?;
    sources.history.look();
    let failed = FailedMessages::open(&sources.session, &sources.journals, &queue).await?;
    let after = params.text("cursor").map_or(Ok(MessageId::ZERO), |cursor| {
        cursor
            .parse()
            .map_err(|_| Problem::bad(format!("{cursor:?} is no cursor"), "take `next` of the page before"))
    })?;
    let limit = u32::try_from(params.limit() + 1).unwrap_or(u32::MAX);
    let messages = view::failed_page(&failed, after, limit).await?;
    Ok(Listing::cut(messages, |message| message.position.clone(), &params))
}

/// The messages that wait in a queue, oldest first: a look at the beginning, without taking any.
pub async fn waiting(sources: Arc<Sources>, params: Params) -> Result<Listing<MessageView>, Problem> {
    let queue: QueueName = params.path("queue")?;
    sources.history.look();
    let browser = Browser::open(&sources.session, &sources.journals, &queue).await?;
    let partitions = browser.partitions(params.query("partition")?)?;
    let limit = u32::try_from(params.limit()).unwrap_or(u32::MAX);
    let found = browser.waiting(&sources.session, &partitions, limit).await?;
    Ok(Listing { items: found.iter().map(MessageView::of).collect(), next: None })
}

/// What happened to a message.
pub async fn message(sources: Arc<Sources>, params: Params) -> Result<Story, Problem> {
    let (queue, id): (QueueName, MessageUuid) = (params.path("queue")?, params.path("id")?);
    sources.history.look();
    let story = story::trace(&sources.session, &sources.journals, id, Some(&queue)).await?;
    story.ok_or_else(|| {
        Problem::missing(
            format!("nothing is known of a message {id} in queue {queue}"),
            "it may be of another queue, or older than this one keeps",
        )
    })
}
