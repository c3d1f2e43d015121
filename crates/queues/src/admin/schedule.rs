//! Adding, listing and removing schedules.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use menagerie_kernel::recipes::election::Election;
use menagerie_kernel::session::IfLate;
use menagerie_kernel::{CallError, Session, retry};
use menagerie_znodes::queues::{self, QueueName, Schedule};
use menagerie_znodes::{Kind, MaybeDamaged, Name, Payload as _, quote};

use super::put::{Put, Putter};
use super::{Created, journal_of, require_settings};
use crate::error::QueueError;
use crate::fields::PARTITION_KEY_BYTES_MAX;
use crate::journals::Journals;
use crate::schedule::core::Record;
use crate::schedule::outlet::{self, Records};
use crate::schedule::{Calendar, ScheduleError, message, now};

pub use crate::schedule::message::body;

/// Largest message of a schedule: it is stored in a znode, and read by all that may be elected.
pub const BODY_BYTES_MAX: usize = 64 << 10;

/// Why a schedule is silent whose times were put or skipped by a clock that was ahead.
const LIES_AHEAD: &str = "its last time lies in the future, because a clock was wrong, and nothing is put before then: remove \
                          the schedule and add it again to begin now";

/// A schedule, and how it is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleView {
    /// Its name.
    pub name: Name,
    /// The schedule; or why it cannot be read.
    pub schedule: Result<Schedule, String>,
    /// How far it has come; `None` if that cannot be known now.
    pub record: Option<Record>,
    /// What keeps it from being put, such as a queue that is gone.
    pub problem: Option<String>,
}

/// Adds a schedule. Adding the same again changes nothing; one of that name with other settings is a conflict.
pub async fn add(session: &Session, name: &Name, schedule: &Schedule) -> Result<Created, QueueError> {
    let (_, message) = message::message(schedule)?;
    if let Some(bytes) = schedule.key.as_ref().map(String::len).filter(|n| *n > PARTITION_KEY_BYTES_MAX) {
        return Err(QueueError::LongKey { bytes });
    }
    if message.body.len() > BODY_BYTES_MAX {
        let (size, max) = (message.body.len(), BODY_BYTES_MAX);
        return Err(ScheduleError::Large { size, max }.into());
    }
    Calendar::new(&schedule.cron, &schedule.tz, now())?;
    let term = session.term();
    if schedule.queue.failures_of().is_some() {
        return Err(QueueError::Reserved { queue: schedule.queue.clone() });
    }
    let partitions = require_settings(&term, &schedule.queue).await?.partitions;
    if let Some(number) = schedule.partition.filter(|number| !(1..=partitions).contains(number)) {
        return Err(QueueError::NoPartition { partition: schedule.queue.partition(number), partitions });
    }
    let znode = queues::schedule(name);
    retry::ensure(&term, queues::schedules().path(), b"").await?;
    match term.create(znode.path(), &schedule.encode(), Kind::Persistent, IfLate::Report).await {
        Ok(_) => return Ok(Created::Fresh),
        Err(CallError::Exists { .. } | CallError::Unknown { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    // Ours after a lost reply, or somebody else's: its contents decide.
    term.sync(znode.path()).await?;
    let found = term.read(&znode).await?.map(|found| found.value);
    let same = |found: &Schedule| {
        let (by, added_ms) = (found.by.clone(), found.added_ms);
        *found == Schedule { by, added_ms, ..schedule.clone() }
    };
    match found {
        Some(found) if found == *schedule => Ok(Created::Fresh),
        Some(found) if same(&found) => Ok(Created::Existed),
        Some(_) => Err(ScheduleError::Exists { name: name.clone() }.into()),
        None => Err(CallError::Unknown { path: znode.path().to_owned() }.into()),
    }
}

/// Removes a schedule. What it has put stays.
pub async fn remove(session: &Session, name: &Name) -> Result<(), QueueError> {
    match retry::remove(&session.term(), queues::schedule(name).path()).await {
        Ok(true) => Ok(()),
        Ok(false) | Err(CallError::NoZnode { .. }) => {
            Err(ScheduleError::Missing { name: name.clone() }.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Puts the message of a schedule now. This is none of its times, and changes nothing about them.
pub async fn run_now(
    session: &Session,
    journals: &Journals,
    name: &Name,
) -> Result<(QueueName, Vec<Put>), QueueError> {
    let found = session.term().read(&queues::schedule(name)).await?;
    let schedule = found.ok_or_else(|| ScheduleError::Missing { name: name.clone() })?.value;
    let (destination, message) = message::message(&schedule)?;
    let start = (now() % 1000) as u16;
    let mut putter = Putter::open(session, journals, &schedule.queue, start, message::origin(name)).await?;
    let put = putter.put(vec![(destination, message)]).await?;
    Ok((schedule.queue, put))
}

/// Whether a process runs that puts periodic messages.
pub async fn is_anybody_there(session: &Session) -> Result<bool, QueueError> {
    let election = Election::new(session, queues::schedule_election(), "");
    Ok(election.leader().await?.is_some())
}

/// All schedules, by name. A journal that is down hides how far they have come, not the schedules.
pub async fn list(session: &Session, journals: &Journals) -> Result<Vec<ScheduleView>, QueueError> {
    let term = session.term();
    term.sync(queues::schedules().path()).await?;
    let names = match term.children(queues::schedules().path()).await {
        Err(CallError::NoZnode { .. }) => Vec::new(),
        names => names?,
    };
    let mut names: Vec<Name> =
        names.iter().filter_map(|name| Name::new(quote::unquote(name)?).ok()).collect();
    names.sort();
    let znodes: Vec<_> = names.iter().map(|name| queues::schedule(name).maybe_damaged()).collect();
    let found = term.read_many(&znodes).await?;
    let schedules: Vec<(Name, MaybeDamaged<Schedule>)> =
        names.into_iter().zip(found).filter_map(|(name, found)| Some((name, found?.value))).collect();
    let records = records(session, journals, &schedules).await;
    let view = |(name, found): (Name, MaybeDamaged<Schedule>)| match found {
        MaybeDamaged::Damaged { why, .. } => {
            let path = queues::schedule(&name).path().to_owned();
            let problem = Some(format!("{path} is damaged: remove the schedule and add it again"));
            ScheduleView { name, schedule: Err(why), record: None, problem }
        }
        MaybeDamaged::Sound(schedule) => {
            let wrong = message::message(&schedule).map(drop).and(Calendar::of(&schedule).map(drop)).err();
            let wrong = wrong.map(|error| error.to_string());
            let ahead = |record: &Record| record.lies_ahead(now()).then(|| LIES_AHEAD.to_owned());
            let (record, problem) = match records.get(&schedule.queue) {
                Some(Ok(records)) => {
                    let record = records.of(&name, &schedule);
                    let problem = record.problem.clone().or_else(|| ahead(&record));
                    (Some(record), problem)
                }
                Some(Err(error)) => (None, Some(menagerie_kernel::whole(error).to_string())),
                None => (None, None),
            };
            ScheduleView { name, schedule: Ok(schedule), record, problem: wrong.or(problem) }
        }
    };
    Ok(schedules.into_iter().map(view).collect())
}

/// How far the schedules of each queue have come.
async fn records(
    session: &Session,
    journals: &Journals,
    schedules: &[(Name, MaybeDamaged<Schedule>)],
) -> BTreeMap<QueueName, Result<Records, QueueError>> {
    let sound = schedules.iter().filter_map(|(_, found)| match found {
        MaybeDamaged::Sound(schedule) => Some(schedule.queue.clone()),
        MaybeDamaged::Damaged { .. } => None,
    });
    let queues: std::collections::BTreeSet<QueueName> = sound.collect();
    let read = |queue: QueueName| async move {
        let found = async {
            let settings = require_settings(&session.term(), &queue).await?;
            let store = journal_of(journals, &queue, &settings)?;
            let opened = store.consumer(&outlet::home(&queue)?, &outlet::consumer()).await?;
            let state = opened.map(|opened| opened.state).unwrap_or_default();
            Ok(Records::new(&state, &settings))
        };
        let found = found.await;
        (queue, found)
    };
    join_all(queues.into_iter().map(read)).await.into_iter().collect()
}
