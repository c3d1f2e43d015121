//! Changing how a queue's messages are handled.

use std::num::NonZeroU32;
use std::time::Duration;

use menagerie_journal::{JournalError, MessageId, Read};
use menagerie_kernel::Session;
use menagerie_znodes::queues::{Handling, Order, QueueName, Retry, Settings};

use super::{journal_of, require_settings};
use crate::coordination::claim::{lag, partition_id, topic};
use crate::coordination::cursor::CursorAt;
use crate::error::QueueError;
use crate::journals::Journals;

/// A new value, or none: then the default applies, which is the worker's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrDefault<T> {
    /// This value.
    Value(T),
    /// No value of the queue's own.
    Default,
}

impl<T> OrDefault<T> {
    fn value(self) -> Option<T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Default => None,
        }
    }
}

/// What to change; `None` keeps what is there.
#[expect(missing_docs, reason = "they are those of Handling")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HandlingChange {
    pub order: Option<Order>,
    pub retry: Option<OrDefault<Retry>>,
    pub attempts: Option<OrDefault<NonZeroU32>>,
    pub backoff: Option<OrDefault<Duration>>,
    pub backoff_max: Option<OrDefault<Duration>>,
    pub time_limit: Option<OrDefault<Duration>>,
}

impl HandlingChange {
    /// The handling after the change.
    #[must_use]
    pub fn apply(&self, before: Handling) -> Handling {
        let time = |change: Option<OrDefault<Duration>>, before| match change {
            Some(change) => change.value().map(ms),
            None => before,
        };
        Handling {
            order: self.order.unwrap_or(before.order),
            retry: self.retry.map_or(before.retry, OrDefault::value),
            attempts: self.attempts.map_or(before.attempts, OrDefault::value),
            backoff_ms: time(self.backoff, before.backoff_ms),
            backoff_max_ms: time(self.backoff_max, before.backoff_max_ms),
            time_limit_ms: time(self.time_limit, before.time_limit_ms),
        }
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What is not handled yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unhandled {
    /// Messages that wait, run or will be tried again.
    pub waiting: u64,
    /// Messages that are not due yet.
    pub delayed: u64,
}

/// What is not handled yet in a queue.
pub async fn unhandled(
    session: &Session,
    journals: &Journals,
    queue: &QueueName,
) -> Result<Unhandled, QueueError> {
    let settings = require_settings(&session.term(), queue).await?;
    unhandled_with(session, journals, queue, &settings).await
}

/// The same, of a queue with these settings.
pub(super) async fn unhandled_with(
    session: &Session,
    journals: &Journals,
    queue: &QueueName,
    settings: &Settings,
) -> Result<Unhandled, QueueError> {
    let store = journal_of(journals, queue, settings)?;
    let stats = store.stats(&topic(queue)?).await?;
    let mut all = Unhandled::default();
    for number in 1..=settings.partitions {
        let partition = queue.partition(number);
        let cursor = CursorAt::read(&session.term(), &partition).await?;
        let position = cursor.map_or(MessageId::ZERO, |cursor| cursor.position());
        let stats = stats.iter().find(|stats| stats.partition == u32::from(number));
        all.delayed += stats.map_or(0, |stats| stats.delayed);
        // The journal's lag may be a second old; whether anything waits is exact.
        let read = Read::after(partition_id(&partition)?, position).limit(1);
        let waits = match store.read(read).await {
            // Messages that cannot be read are not handled.
            Err(JournalError::Damaged(_)) => true,
            batch => !batch?.messages.is_empty(),
        };
        if waits {
            all.waiting += stats.map_or(1, lag).max(1);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_stays_and_defaults_come_back() {
        let three = NonZeroU32::new(3);
        let before =
            Handling { order: Order::Key, attempts: three, backoff_ms: Some(5), ..Handling::default() };
        assert_eq!(HandlingChange::default().apply(before), before);
        let change = HandlingChange {
            attempts: Some(OrDefault::Default),
            backoff: Some(OrDefault::Value(Duration::from_secs(1))),
            retry: Some(OrDefault::Value(Retry::Later)),
            ..HandlingChange::default()
        };
        let after = change.apply(before);
        assert_eq!((after.order, after.attempts, after.backoff_ms), (Order::Key, None, Some(1_000)));
        assert_eq!((after.retry, after.time_limit_ms), (Some(Retry::Later), None));
    }
}
