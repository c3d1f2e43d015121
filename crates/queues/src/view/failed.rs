//! Messages that were given up, as they are shown.

use menagerie_journal::MessageId;
use menagerie_znodes::queues::PartitionName;
use schemars::JsonSchema;
use serde::Serialize;

use super::Body;
use crate::admin::failed::{FailedMessage, FailedMessages};
use crate::error::QueueError;
use crate::failed::FailureRecord;
use crate::message_uuid::MessageUuid;

/// A message that was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FailedMessageView {
    /// Its id, for life.
    pub id: MessageUuid,
    /// Where it stands now, among the failed messages.
    pub partition: PartitionName,
    /// Its position there, in seconds: the next page begins after that of the last one.
    pub position: String,
    /// When it failed, in seconds.
    pub timestamp: String,
    /// Why it was given up; nothing if somebody else put it there.
    #[serde(flatten)]
    pub story: Option<FailureRecord>,
    /// Its body.
    #[serde(flatten)]
    pub body: Body,
}

impl FailedMessageView {
    /// How this one is shown; it stands in the partition `place`.
    pub fn of(failed: &FailedMessage, place: &PartitionName) -> Self {
        // The id is a field of its own.
        let story = failed.record.clone().map(|record| FailureRecord { id: None, ..record });
        Self {
            id: failed.id,
            partition: place.clone(),
            position: failed.position.seconds(),
            timestamp: failed.position.seconds(),
            story,
            body: Body::of(&failed.message),
        }
    }
}

/// Up to `limit` failed messages that stand after this position, oldest first; fewer only at the end.
/// [`MessageId::ZERO`] is before the first.
pub async fn failed_page(
    failed: &FailedMessages,
    after: MessageId,
    limit: u32,
) -> Result<Vec<FailedMessageView>, QueueError> {
    let (mut views, mut last) = (Vec::new(), after);
    // Replies are limited in size, so a few large messages fill one.
    while views.len() < limit as usize {
        let left = limit.saturating_sub(views.len() as u32);
        let messages = failed.after(last, left).await?;
        let Some(end) = messages.last() else { break };
        last = end.position;
        views.extend(messages.iter().map(|one| FailedMessageView::of(one, failed.place())));
    }
    Ok(views)
}
