//! Where the schedules of one queue put their messages: the queue's journal, under the fence of the election.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use menagerie_journal::{Append, Consumer, Fence, JournalError, MessageId, PartitionId, Ticks};
use menagerie_journal_directory::FencedConsumer;
use menagerie_journal_directory::consumer::{Opening, Outcome, Step as Move};
use menagerie_kernel::Session;
use menagerie_znodes::Name;
use menagerie_znodes::queues::{QueueName, Schedule, Settings};

use super::core::{Record, Step};
use super::cron::ScheduleError;
use super::message::{dedup, message, origin};
use crate::admin::{Putter, journal_of, require_settings};
use crate::coordination::claim::partition_id;
use crate::error::QueueError;
use crate::journals::Journals;

/// Consumer name of schedules in the journal.
const CONSUMER: &str = "schedules";

/// A call takes at most this long. After a lost reply a consumer asks what has happened for as long as the journal is
/// away; meanwhile nobody would notice that the queue's loop is stuck.
const CALL_MAX: Duration = Duration::from_secs(15);

/// The consumer of schedules.
pub(crate) fn consumer() -> Consumer {
    Consumer::new(CONSUMER).expect("it is a name")
}

/// The partition with the records of a queue's schedules.
pub(crate) fn home(queue: &QueueName) -> Result<PartitionId, QueueError> {
    partition_id(&queue.partition(1))
}

/// How far the schedules of a queue have come, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Records {
    by_name: BTreeMap<Name, Record>,
    /// When the queue was created: a queue of the same name that was there before has no say.
    since: i64,
}

impl Records {
    /// From the state of the consumer. A record that cannot be read counts as missing.
    pub(crate) fn new(state: &[(Bytes, Bytes)], settings: &Settings) -> Self {
        let record = |(key, value): &(Bytes, Bytes)| {
            let name = Name::new(String::from_utf8(key.to_vec()).ok()?).ok()?;
            Some((name, serde_json::from_slice(value).ok()?))
        };
        let by_name = state.iter().filter_map(record).collect();
        Self { by_name, since: i64::try_from(settings.created_ms / 1000).unwrap_or(i64::MAX) }
    }

    /// How far a schedule has come.
    pub(crate) fn of(&self, name: &Name, schedule: &Schedule) -> Record {
        let known = self.by_name.get(name).filter(|record| record.added_ms == schedule.added_ms);
        let added = i64::try_from(schedule.added_ms / 1000).unwrap_or(i64::MAX);
        known.cloned().unwrap_or_else(|| Record::new(schedule.added_ms, added.max(self.since)))
    }
}

/// The queue's journal, opened with our fence.
pub(super) struct Outlet {
    consumer: FencedConsumer,
    records: Records,
}

/// What came of an attempt to open or to put.
pub(super) enum Held<T> {
    /// It has happened.
    Ours(T),
    /// Somebody was elected after us.
    Deposed,
}

impl Outlet {
    /// Takes over the schedules of a queue: leaders before us are refused from now on.
    pub(super) async fn open(
        session: &Session,
        journals: &Journals,
        queue: &QueueName,
        fence: Fence,
    ) -> Result<Held<Self>, QueueError> {
        let settings = require_settings(&session.term(), queue).await?;
        let journal = journal_of(journals, queue, &settings)?;
        match answer(FencedConsumer::open(journal, home(queue)?, consumer(), fence)).await? {
            Opening::Ours { consumer, state } => {
                Ok(Held::Ours(Self { consumer, records: Records::new(&state, &settings) }))
            }
            Opening::Stale { .. } => Ok(Held::Deposed),
        }
    }

    /// How far a schedule has come.
    pub(super) fn record(&self, name: &Name, schedule: &Schedule) -> Record {
        self.records.of(name, schedule)
    }

    /// Does one step of a schedule, in one commit, which also removes records that are stale. An error that
    /// [`is_about_the_message`] has changed nothing. After any other nobody knows what came of it: open it again.
    pub(super) async fn perform(
        &mut self,
        name: &Name,
        schedule: &Schedule,
        step: Step,
        append: Option<Append>,
        stale: &[Name],
    ) -> Result<Held<()>, QueueError> {
        let record = self.record(name, schedule).after(step);
        self.write(name, record, append, stale).await
    }

    /// Records why the next time of a schedule is refused, unless that is known.
    pub(super) async fn set_aside(
        &mut self,
        name: &Name,
        schedule: &Schedule,
        why: &str,
    ) -> Result<Held<()>, QueueError> {
        let record = self.record(name, schedule);
        if record.problem.as_deref() == Some(why) {
            return Ok(Held::Ours(()));
        }
        self.write(name, Record { problem: Some(why.to_owned()), ..record }, None, &[]).await
    }

    async fn write(
        &mut self,
        name: &Name,
        record: Record,
        append: Option<Append>,
        stale: &[Name],
    ) -> Result<Held<()>, QueueError> {
        let value = serde_json::to_vec(&record).expect("numbers can be written").into();
        let key = |name: &Name| Bytes::copy_from_slice(name.as_str().as_bytes());
        let gone = stale.iter().map(|name| (key(name), None));
        let state = gone.chain([(key(name), Some(value))]).collect();
        // The position only counts commits. It proves after a lost reply whether ours has happened, and keeps one that is
        // late from undoing a later one.
        let through = MessageId(Ticks(self.consumer.position().0.0 + 1));
        let commit = Move { through, appends: append.into_iter().collect(), state };
        match answer(self.consumer.commit(commit)).await? {
            Outcome::Committed { .. } => {
                self.records.by_name.retain(|known, _| !stale.contains(known));
                self.records.by_name.insert(name.clone(), record);
                Ok(Held::Ours(()))
            }
            Outcome::Stale { .. } => Ok(Held::Deposed),
        }
    }

    /// Records of schedules that are not among these: they were removed.
    pub(super) fn stale(&self, schedules: &BTreeMap<Name, Schedule>) -> Vec<Name> {
        self.records.by_name.keys().filter(|name| !schedules.contains_key(*name)).cloned().collect()
    }
}

/// Whether an error concerns only the message of one schedule: others of the queue can be put.
pub(super) fn is_about_the_message(error: &QueueError) -> bool {
    match error {
        // A partition that the queue does not have, or a key that is too long: somebody wrote the schedule by hand.
        QueueError::NoPartition { .. }
        | QueueError::LongKey { .. }
        | QueueError::Schedule(ScheduleError::Body { .. }) => true,
        QueueError::Journal(error) => {
            matches!(error, JournalError::TooLarge { .. } | JournalError::NoPartition { .. })
        }
        _ => false,
    }
}

/// The journal's answer, if it comes in time.
async fn answer<T>(call: impl Future<Output = Result<T, JournalError>>) -> Result<T, JournalError> {
    let silence = |_| Err(JournalError::Unknown(format!("no answer within {CALL_MAX:?}")));
    tokio::time::timeout(CALL_MAX, call).await.unwrap_or_else(silence)
}

/// The message of a schedule for this time, for its partition. The queue is read anew, because it may have got partitions.
pub(super) async fn append(
    session: &Session,
    journals: &Journals,
    name: &Name,
    schedule: &Schedule,
    time: i64,
) -> Result<Append, QueueError> {
    let (destination, mut message) = message(schedule)?;
    message.dedup = Some(dedup(name, schedule, time));
    // Without a key, partitions take turns; times are often multiples of something, their checksums are not.
    let start = crc32c::crc32c(&time.to_le_bytes()) as u16;
    let mut putter = Putter::open(session, journals, &schedule.queue, start, origin(name)).await?;
    putter.append(&destination, message)
}
