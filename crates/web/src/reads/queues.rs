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

use super::Listing;
use crate::params::Params;
use crate::problem::Problem;
use crate::sources::Sources;

/// All queues, by name.
pub async fn queues(sources: Arc<Sources>, params: Params) -> Result<Listing<QueueRow>, Problem> {
    let rows = view::rows(&sources.session, &sources.journals).await.map_err(QueueError::from)?;
    let rows = rows.into_iter().map(|(row, _)| row).filter(|row| params.wants(&row.queue.to_string()));
    let mut rows: Vec<QueueRow> = rows.collect();
    rows.sort_by_key(|row| row.queue.to_string());
    Ok(Listing::page(rows, |row| row.queue.to_string(), &params))
}

/// One queue.
pub async fn queue(sources: Arc<Sources>, params: Params) -> Result<QueueOverview, Problem> {
    let queue: QueueName = params.path("queue")?;
    Ok(view::overview(&sources.session, &sources.journals, &queue).await?)
}

/// All workers, by name.
pub async fn workers(sources: Arc<Sources>, params: Params) -> Result<Listing<WorkerEntry>, Problem> {
    let mut workers = show::workers(&sources.session).await?;
    workers.retain(|entry| params.wants(entry.worker.as_str()));
    Ok(Listing::page(workers, |entry| entry.worker.to_string(), &params))
}

/// The failed messages of a queue, oldest first.
pub async fn failed(sources: Arc<Sources>, params: Params) -> Result<Listing<FailedMessageView>, Problem> {
    let queue: QueueName = params.path("queue")?;
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
    let browser = Browser::open(&sources.session, &sources.journals, &queue).await?;
    let partitions = browser.partitions(params.query("partition")?)?;
    let limit = u32::try_from(params.limit()).unwrap_or(u32::MAX);
    let found = browser.waiting(&sources.session, &partitions, limit).await?;
    Ok(Listing { items: found.iter().map(MessageView::of).collect(), next: None })
}

/// What happened to a message.
pub async fn message(sources: Arc<Sources>, params: Params) -> Result<Story, Problem> {
    let (queue, id): (QueueName, MessageUuid) = (params.path("queue")?, params.path("id")?);
    let story = story::trace(&sources.session, &sources.journals, id, Some(&queue)).await?;
    story.ok_or_else(|| {
        Problem::missing(
            format!("nothing is known of a message {id} in queue {queue}"),
            "it may be of another queue, or older than this one keeps",
        )
    })
}
