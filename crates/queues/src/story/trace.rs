//! The whole story of a message, from its put to its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use menagerie_journal::{Journal, Message, MessageId, Read, Ticks};
use menagerie_kernel::Session;
use menagerie_znodes::queues::{PartitionName, QueueName, Settings};
use serde::Serialize;

use super::act::{self, Act, ActKind};
use super::search::{Found, expired, is_expired};
use super::state::{Facts, State, state};
use super::{Outcome, outcomes, outcomes_of, running_in};
use crate::admin::browse::{Browser, QueuedMessage, TOGETHER, put_back_at};
use crate::admin::delayed::DelayedMessages;
use crate::admin::failed::{FailedMessage, FailedMessages};
use crate::admin::past::is_past;
use crate::admin::{journal_of, require_settings, show};
use crate::coordination::claim::partition_id;
use crate::error::QueueError;
use crate::failed::FailureRecord;
use crate::journals::Journals;
use crate::message_uuid::MessageUuid;
use crate::meta::{Meta, Via};

/// One line of a story.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Line {
    /// It was put.
    Put {
        /// When, in ms since 1970.
        at_ms: u64,
        /// By whom.
        by: Option<String>,
        /// Over what.
        via: Option<Via>,
    },
    /// It is due, or was: before, nobody saw it.
    Due {
        /// When, in ms since 1970.
        at_ms: u64,
    },
    /// A worker tried it, or did not have to.
    Attempt {
        /// When it ended, in ms since 1970.
        at_ms: u64,
        /// The worker.
        worker: String,
        /// Which attempt; 0 if there was none.
        attempt: u32,
        /// How long it took.
        took_ms: Option<u64>,
        /// How it ended.
        outcome: Outcome,
        /// Why it failed.
        error: Option<String>,
        /// When it is tried again, in ms from its end.
        next_ms: Option<u64>,
    },
    /// An operator did something.
    Act {
        /// When, in ms since 1970.
        at_ms: u64,
        /// What.
        act: ActKind,
        /// Who.
        by: Option<String>,
    },
}

impl Line {
    /// When it happened, in ms since 1970.
    pub fn at_ms(&self) -> u64 {
        match self {
            Self::Put { at_ms, .. }
            | Self::Due { at_ms }
            | Self::Attempt { at_ms, .. }
            | Self::Act { at_ms, .. } => *at_ms,
        }
    }
}

/// The story of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Story {
    /// Its id.
    pub id: MessageUuid,
    /// The partition that it is or was in.
    pub partition: PartitionName,
    /// Its last position there; `None` if it was never due.
    pub position: Option<String>,
    /// What has become of it.
    pub state: State,
    /// Its key.
    pub key: Option<String>,
    /// What happened, in order.
    pub lines: Vec<Line>,
    /// Something is missing: it is older than the queue keeps, or a crash has cut it off.
    pub is_incomplete: bool,
    /// The message itself, while it is kept.
    #[serde(skip)]
    pub message: Option<Message>,
}

/// Tells the story of a message, in whichever queue it is; `None` if nothing is known of it.
pub async fn trace(
    session: &Session,
    journals: &Journals,
    id: MessageUuid,
    only: Option<&QueueName>,
) -> Result<Option<Story>, QueueError> {
    let queues = match only {
        Some(queue) => vec![queue.clone()],
        None => show::list(session).await?.into_iter().collect(),
    };
    // A derived id names its partition; look into others only if none fits.
    let mut others = Vec::new();
    for queue in queues {
        // One queue that cannot be read does not hide the others.
        let settings = match require_settings(&session.term(), &queue).await {
            Err(error) if only.is_some() => return Err(error),
            Err(_) => continue,
            Ok(settings) => settings,
        };
        let partitions = (1..=settings.partitions).map(|number| queue.partition(number));
        let fits = |partition: &PartitionName| id.position_in(partition).is_some();
        match partitions.into_iter().find(fits) {
            Some(partition) => {
                let tracer = Tracer::new(session, journals, queue, settings)?;
                return tracer.tell(id, Some(partition)).await;
            }
            None => others.push((queue, settings)),
        }
    }
    // One that was chosen at a put names its partition, too, if vaguely.
    let may_be_in = |(queue, settings): &(QueueName, Settings)| {
        (1..=settings.partitions).any(|number| id.may_be_chosen_for(&queue.partition(number)))
    };
    if others.iter().any(may_be_in) {
        others.retain(may_be_in);
    }
    for (queue, settings) in others {
        if let Some(story) = Tracer::new(session, journals, queue, settings)?.tell(id, None).await? {
            return Ok(Some(story));
        }
    }
    Ok(None)
}

/// Reads what is stored about a message of one queue.
struct Tracer<'a> {
    session: &'a Session,
    journals: &'a Journals,
    queue: QueueName,
    store: Arc<dyn Journal>,
}

/// A message at a position, in one of its lives: an operator who retries it begins another one.
struct Life {
    partition: PartitionName,
    position: MessageId,
    /// `None` if it was trimmed.
    message: Option<Message>,
}

impl From<QueuedMessage> for Life {
    fn from(QueuedMessage { partition, message }: QueuedMessage) -> Self {
        Self { partition, position: message.id, message: Some(message) }
    }
}

/// What happened to a message after its put.
#[derive(Default)]
struct Told {
    lines: Vec<Line>,
    /// How the last attempt ended that counts.
    last: Option<Outcome>,
    /// What was stored with the message, if workers wrote it down.
    meta: Option<Meta>,
}

impl<'a> Tracer<'a> {
    fn new(
        session: &'a Session,
        journals: &'a Journals,
        queue: QueueName,
        settings: Settings,
    ) -> Result<Self, QueueError> {
        let store = journal_of(journals, &queue, &settings)?;
        Ok(Self { session, journals, queue, store })
    }

    async fn tell(&self, id: MessageUuid, home: Option<PartitionName>) -> Result<Option<Story>, QueueError> {
        let mut acts = act::acts(&*self.store, &self.queue, id, id.time()).await?;
        let failed = FailedMessages::open(self.session, self.journals, &self.queue).await?;
        let (failed, _) = failed.look_for(id, []).await?;
        let delayed = DelayedMessages::open(self.session, self.journals, &self.queue, None).await?;
        let delayed = match home.is_none() && id.is_chosen() {
            true => delayed.find(id).await?,
            false => None,
        };
        let lives = match &delayed {
            Some(_) => Vec::new(),
            None => self.lives(id, home, &acts, failed.as_ref()).await?,
        };
        if id.is_chosen() && delayed.is_none() && failed.is_none() && lives.is_empty() {
            // It may have been cancelled, which was before it was due.
            acts = act::acts(&*self.store, &self.queue, id, Ticks(0)).await?;
        }
        let origin = failed.as_ref().and_then(|failed| Some(failed.record.as_ref()?.origin.clone()));
        let place = delayed.as_ref().map(|delayed| delayed.partition.clone());
        let acted = acts.last().map(|(_, act)| act.partition.clone());
        let place = lives.last().map(|life| life.partition.clone()).or(place).or(origin).or(acted);
        let Some(partition) = place else { return Ok(None) };
        let message = lives.iter().rev().find_map(|life| life.message.as_ref());
        let message = message.or_else(|| failed.as_ref().map(|failed| &failed.message));
        let message = message.or_else(|| delayed.as_ref().map(|delayed| &delayed.message)).cloned();
        let meta =
            message.as_ref().map(Meta::of).or_else(|| acts.iter().find_map(|(_, act)| act.meta.clone()));
        let is_dropped = acts.last().is_some_and(|(_, act)| act.act != ActKind::Retried);
        let mut told = Told::default();
        self.tell_lives(id, &lives, acts, &mut told).await?;
        let (last, meta) = (told.last, meta.or(told.meta));
        let is_known = meta.is_some();
        let meta = meta.unwrap_or_default();
        let mut lines = Vec::new();
        // An id that was chosen says when the message is due, not when it was put.
        if let Some(put) = meta.put.or((!id.is_chosen()).then_some(id.time())) {
            lines.push(Line::Put { at_ms: ms(put), by: meta.by, via: meta.via });
        }
        if let Some(delayed) = &delayed {
            lines.push(Line::Due { at_ms: ms(delayed.place.due) });
        }
        lines.extend(told.lines);
        let is_past = match lives.last() {
            Some(life) => is_past(&self.session.term(), &life.partition, life.position).await?,
            None => false,
        };
        let is_gone = lives.last().is_some_and(|life| life.message.is_none());
        let state = state(&Facts {
            is_delayed: delayed.is_some(),
            is_failed: failed.is_some(),
            is_dropped,
            last,
            is_past,
            is_running: running_in(&*self.store, &partition).await?.contains(&id),
            is_gone,
            is_expired: message.as_ref().is_some_and(is_expired),
        });
        let is_untold = is_past && last.is_none_or(|outcome| !outcome.is_final());
        let position = lives.last().map(|life| life.position.seconds());
        let is_incomplete = is_untold || !is_known && state != State::Forgotten;
        Ok(Some(Story { id, partition, position, state, key: meta.key, lines, is_incomplete, message }))
    }

    /// Tells what happened in each of its lives. What separates two of them is told between them: clocks of workers
    /// differ, so times do not order lines.
    async fn tell_lives(
        &self,
        id: MessageUuid,
        lives: &[Life],
        acts: Vec<(MessageId, Act)>,
        told: &mut Told,
    ) -> Result<(), QueueError> {
        let act_line = |(at, act): (MessageId, Act)| Line::Act { at_ms: ms(at.0), act: act.act, by: act.by };
        let mut acts = acts.into_iter().peekable();
        for (index, life) in lives.iter().enumerate() {
            if index == 0 && id.is_chosen() {
                told.lines.push(Line::Due { at_ms: ms(life.position.0) });
            }
            // It was put back together with the note that says so.
            let begin = MessageId(life.position.0.plus(TOGETHER));
            while index > 0
                && let Some(act) = acts.next_if(|(at, _)| *at <= begin)
            {
                told.lines.push(act_line(act));
            }
            let pages = outcomes_of(&self.queue, life.partition.number())?;
            let found = outcomes(&*self.store, &pages, life.position).await?;
            let counts = |found: &&Found| found.1.outcome != Outcome::Stopped;
            told.last = found.iter().rev().find(counts).map(|(_, entry)| entry.outcome);
            told.meta = found.iter().rev().find_map(|(_, entry)| entry.meta.clone()).or(told.meta.take());
            told.lines.extend(found.into_iter().map(|(worker, entry)| Line::Attempt {
                at_ms: ms(entry.at),
                worker,
                attempt: entry.attempt,
                took_ms: entry.took_ms,
                outcome: entry.outcome,
                error: entry.error,
                next_ms: entry.next_ms,
            }));
        }
        told.lines.extend(acts.map(act_line));
        Ok(())
    }

    /// Everywhere it was, in the order of time: each has its outcomes.
    async fn lives(
        &self,
        id: MessageUuid,
        home: Option<PartitionName>,
        acts: &[(MessageId, Act)],
        failed: Option<&FailedMessage>,
    ) -> Result<Vec<Life>, QueueError> {
        let mut lives: BTreeMap<MessageId, Life> = BTreeMap::new();
        let mut add = |life: Life| {
            lives.entry(life.position).or_insert(life);
        };
        self.first_life(id, home).await?.into_iter().for_each(&mut add);
        for (at, act) in acts {
            if act.act == ActKind::Retried {
                let back = put_back_at(&*self.store, &act.partition, *at, id).await?;
                back.map(Life::from).into_iter().for_each(&mut add);
            }
            let gone = |position| Life { partition: act.partition.clone(), position, message: None };
            act.position.map(gone).into_iter().for_each(&mut add);
        }
        let record = failed.and_then(|failed| failed.record.as_ref());
        let position = |record: &FailureRecord| Some((record.origin.clone(), record.message.parse().ok()?));
        if let Some((partition, position)) = record.and_then(position) {
            add(Life { partition, position, message: None });
        }
        Ok(lives.into_values().collect())
    }

    /// Where it was put, or became due.
    async fn first_life(
        &self,
        id: MessageUuid,
        home: Option<PartitionName>,
    ) -> Result<Vec<Life>, QueueError> {
        if let Some((partition, position)) =
            home.and_then(|home| Some((home.clone(), id.position_in(&home)?)))
        {
            let read = Read::one(partition_id(&partition)?, position).with_expired();
            let message = self.store.read(read).await?.messages.pop();
            let last = self.store.stats(&crate::coordination::claim::topic(&self.queue)?).await?;
            let last = last.iter().find(|stats| stats.partition == u32::from(partition.number()));
            // An id of the future, or of a message that this partition never had, is nobody's.
            let mut was_there = message.is_some() || last.is_some_and(|stats| position <= stats.trimmed);
            if !was_there {
                // It has expired and is no longer kept, but a worker may have seen it.
                let pages = outcomes_of(&self.queue, partition.number())?;
                was_there = !outcomes(&*self.store, &pages, position).await?.is_empty();
            }
            return Ok(was_there.then_some(Life { partition, position, message }).into_iter().collect());
        }
        let browser = Browser::open(self.session, self.journals, &self.queue).await?;
        let partitions = browser.partitions(None)?;
        if let Some(found) = browser.where_its_id_says(&partitions, id).await?.into_iter().next() {
            return Ok(vec![found.into()]);
        }
        if let Some(found) = browser.moved(&partitions, id).await?.found.into_iter().next() {
            return Ok(vec![found.into()]);
        }
        // It may have been delayed, and then expired.
        for partition in partitions.into_iter().filter(|partition| id.may_be_chosen_for(partition)) {
            let pages = outcomes_of(&self.queue, partition.number())?;
            if let Some(position) = expired(&*self.store, &pages, id).await? {
                return Ok(vec![Life { partition, position, message: None }]);
            }
        }
        Ok(Vec::new())
    }
}

fn ms(ticks: Ticks) -> u64 {
    let since = SystemTime::from(ticks).duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
