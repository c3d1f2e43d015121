//! The whole story of a message, from its put to its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use menagerie_journal::{Journal, Message, MessageId, Read, Ticks};
use menagerie_kernel::Session;
use menagerie_znodes::queues::{Keep, PartitionName, QueueName, Settings};
use schemars::JsonSchema;
use serde::Serialize;

use super::act::{self, Act, ActKind, Acts};
use super::search::{Outcomes, expired, is_expired, look_up};
use super::state::{Facts, State, state};
use super::{Outcome, outcomes_of, running_in};
use crate::admin::browse::{Browser, QueuedMessage, TOGETHER, put_back_at};
use crate::admin::delayed::{DelayedMessage, DelayedMessages};
use crate::admin::failed::{FailedMessage, FailedMessages};
use crate::admin::past::is_past;
use crate::admin::{journal_of, require_settings, show};
use crate::coordination::claim::partition_id;
use crate::core::activity::AllRunning;
use crate::error::QueueError;
use crate::failed::FailureRecord;
use crate::journals::Journals;
use crate::message_uuid::MessageUuid;
use crate::meta::{Meta, Via};

/// One line of a story.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "what", rename_all = "snake_case")]
#[schemars(rename = "StoryLine")]
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
    /// A worker has it, as it said last.
    Running {
        /// Since when, in ms since 1970; of many, the time when this was asked.
        at_ms: u64,
        /// The worker.
        worker: String,
        /// Which attempt; `None` if so many run that this is not told.
        attempt: Option<u32>,
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
            | Self::Running { at_ms, .. }
            | Self::Act { at_ms, .. } => *at_ms,
        }
    }
}

/// The story of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
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
    /// Something is missing: it is older than the queue keeps, a crash has cut it off, it cannot be read, or it was not
    /// looked for any further.
    pub is_incomplete: bool,
    /// The search for it has stopped: so much would have to be read.
    pub is_cut_short: bool,
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
    // One queue that cannot be read does not hide the others.
    let mut unread = None;
    let mut tracers = Vec::new();
    for queue in queues {
        let tracer = match require_settings(&session.term(), &queue).await {
            // It was deleted just now.
            Err(QueueError::NoQueue { .. }) if only.is_none() => continue,
            settings => settings.and_then(|settings| Tracer::new(session, journals, queue, settings)),
        };
        match tracer {
            Ok(tracer) => tracers.push(tracer),
            Err(error) => unread = unread.or(Some(error)),
        }
    }
    // A derived id names its partition; look into others only if none fits.
    for tracer in &tracers {
        let home = tracer.partitions().find(|partition| id.position_in(partition).is_some());
        if let Some(home) = home {
            return tracer.tell(id, Some(home), Depth::Anywhere).await;
        }
    }
    // One that was chosen at a put names its partition, too, if vaguely.
    let may_be_in =
        |tracer: &Tracer<'_>| tracer.partitions().any(|partition| id.may_be_chosen_for(&partition));
    if tracers.iter().any(may_be_in) {
        tracers.retain(may_be_in);
    }
    for depth in [Depth::WhereItsIdSays, Depth::Anywhere] {
        let mut readable = Vec::new();
        for tracer in tracers {
            match tracer.tell(id, None, depth).await {
                Ok(Some(story)) => return Ok(Some(story)),
                Ok(None) => readable.push(tracer),
                Err(error) => unread = unread.or(Some(error)),
            }
        }
        tracers = readable;
    }
    unread.map_or(Ok(None), Err)
}

/// Where to look for a message that no list names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// Close to where its id says: a few reads.
    WhereItsIdSays,
    /// Among the newest messages, too.
    Anywhere,
}

/// Reads what is stored about a message of one queue.
struct Tracer<'a> {
    session: &'a Session,
    journals: &'a Journals,
    queue: QueueName,
    settings: Settings,
    store: Arc<dyn Journal>,
}

/// All that is stored about a message.
struct Gathered {
    acts: Acts,
    delayed: Option<DelayedMessage>,
    failed: Option<FailedMessage>,
    /// Not all failed messages were looked at.
    is_failed_list_cut: bool,
    lives: Vec<Life>,
}

/// A message at a position, in one of its lives: an operator who retries it begins another one.
struct Life {
    partition: PartitionName,
    position: MessageId,
    /// `None` if it was trimmed.
    message: Option<Message>,
    /// Workers are done with it, in whatever way.
    is_past: bool,
    outcomes: Outcomes,
}

impl Life {
    fn new(partition: PartitionName, position: MessageId, message: Option<Message>) -> Self {
        Self { partition, position, message, is_past: false, outcomes: Outcomes::default() }
    }

    /// Whether attempts are missing: their pages were dropped, or lost in a crash.
    fn is_incomplete(&self) -> bool {
        let Outcomes { found, is_damaged, .. } = &self.outcomes;
        *is_damaged || self.outcomes.lacks_its_begin() || found.is_empty() && self.is_past
    }
}

impl From<QueuedMessage> for Life {
    fn from(QueuedMessage { partition, message }: QueuedMessage) -> Self {
        Self::new(partition, message.id, Some(message))
    }
}

impl<'a> Tracer<'a> {
    fn new(
        session: &'a Session,
        journals: &'a Journals,
        queue: QueueName,
        settings: Settings,
    ) -> Result<Self, QueueError> {
        let store = journal_of(journals, &queue, &settings)?;
        Ok(Self { session, journals, queue, settings, store })
    }

    fn partitions(&self) -> impl Iterator<Item = PartitionName> {
        (1..=self.settings.partitions).map(|number| self.queue.partition(number))
    }

    /// Reads all that is stored about a message.
    async fn gather(
        &self,
        id: MessageUuid,
        home: Option<PartitionName>,
        depth: Depth,
    ) -> Result<Gathered, QueueError> {
        let mut acts = act::acts(&*self.store, &self.queue, id, id.time()).await?;
        let delayed = DelayedMessages::open(self.session, self.journals, &self.queue, None).await?;
        let delayed = match home.is_none() && id.is_chosen() {
            true => delayed.find(id).await?,
            false => None,
        };
        let mut lives = BTreeMap::new();
        if delayed.is_none() {
            self.add_lives(id, home.clone(), &acts.acts, depth, &mut lives).await?;
        }
        // After the outcomes: a message that was given up is here, or somebody has taken it from here.
        let failed = FailedMessages::open(self.session, self.journals, &self.queue).await?;
        let (failed, is_failed_list_cut) = failed.look_for(id, given_up_at(&lives)).await?;
        let record = failed.as_ref().and_then(|failed| failed.record.as_ref());
        if let Some(life) = record.and_then(life_of).filter(|life| !lives.contains_key(&life.position)) {
            self.add_life(life, &mut lives).await?;
        }
        if failed.is_none() && !given_up_at(&lives).is_empty() {
            // Somebody may have put it back since we read what operators did.
            let newer = act::acts(&*self.store, &self.queue, id, id.time()).await?;
            if newer.acts.len() > acts.acts.len() {
                acts = newer;
                self.add_lives(id, home, &acts.acts, depth, &mut lives).await?;
            }
        }
        let lives: Vec<Life> = lives.into_values().collect();
        if id.is_chosen() && delayed.is_none() && failed.is_none() && lives.is_empty() {
            // It may have been cancelled, which was before it was due.
            acts = act::acts(&*self.store, &self.queue, id, Ticks(0)).await?;
        }
        Ok(Gathered { acts, delayed, failed, is_failed_list_cut, lives })
    }

    async fn tell(
        &self,
        id: MessageUuid,
        home: Option<PartitionName>,
        depth: Depth,
    ) -> Result<Option<Story>, QueueError> {
        let Gathered { acts, delayed, failed, is_failed_list_cut, lives } =
            self.gather(id, home, depth).await?;
        let origin = failed.as_ref().and_then(|failed| Some(failed.record.as_ref()?.origin.clone()));
        let place = delayed.as_ref().map(|delayed| delayed.partition.clone());
        let acted = acts.acts.last().map(|(_, act)| act.partition.clone());
        let place = lives.last().map(|life| life.partition.clone()).or(place).or(origin).or(acted);
        let Some(partition) = place else { return Ok(None) };
        let message = lives.iter().rev().find_map(|life| life.message.as_ref());
        let message = message.or_else(|| failed.as_ref().map(|failed| &failed.message));
        let message = message.or_else(|| delayed.as_ref().map(|delayed| &delayed.message)).cloned();
        let meta = message.as_ref().map(Meta::of);
        let meta = meta.or_else(|| acts.acts.iter().find_map(|(_, act)| act.meta.clone()));
        let meta = meta.or_else(|| lives.iter().rev().find_map(meta_told));
        let running = running_in(&self.session.term(), &*self.store, &partition).await?;
        let facts = Facts {
            is_delayed: delayed.is_some(),
            is_failed: failed.is_some(),
            is_dropped: acts.acts.last().is_some_and(|(_, act)| act.act != ActKind::Retried),
            is_running: lives.last().is_some_and(|life| running.has(id, life.position)),
            is_expired: message.as_ref().is_some_and(is_expired),
            ..lives.last().map_or_else(Facts::default, |life| self.facts(life, &acts))
        };
        let state = state(&facts);
        let is_known = meta.is_some();
        let meta = meta.unwrap_or_default();
        let retries = acts.acts.iter().filter(|(_, act)| act.act == ActKind::Retried).count();
        // Nobody handled what was dropped, so there is nothing to tell.
        let is_told = |life: &Life| facts.is_swept && facts.is_gone && life.outcomes.found.is_empty();
        let is_ended = facts.is_past && !facts.is_swept && !facts.is_running || facts.is_failed;
        let is_cut_short = is_failed_list_cut || lives.iter().any(|life| life.outcomes.is_cut_short);
        let is_incomplete = acts.is_damaged
            || acts.trimmed.is_some_and(|trimmed| trimmed.0 >= id.time())
            || is_cut_short
            || is_ended && facts.last.is_none_or(|outcome| !outcome.is_final())
            || !is_known && state != State::Forgotten
            || retries < meta.retries as usize
            // A copy that was put back was not found.
            || retries > 0 && lives.len() <= retries
            || lives.iter().any(|life| life.is_incomplete() && !is_told(life) && !facts.is_running);
        let mut lines = Vec::new();
        // An id that was chosen says when the message is due, not when it was put.
        if let Some(put) = meta.put.or((!id.is_chosen()).then_some(id.time())) {
            lines.push(Line::Put { at_ms: ms(put), by: meta.by, via: meta.via });
        }
        if let Some(delayed) = &delayed {
            lines.push(Line::Due { at_ms: ms(delayed.place.due) });
        }
        let position = lives.last().map(|life| life.position.seconds());
        let sweeps = if facts.is_swept && state == State::Forgotten { sweeps(&lives, &acts) } else { None };
        tell_lives(id, lives, acts.acts, &mut lines);
        lines.extend(sweeps);
        lines.extend((state == State::Running).then(|| running_line(id, &running)));
        let key = meta.key;
        Ok(Some(Story { id, partition, position, state, key, lines, is_incomplete, is_cut_short, message }))
    }

    /// What its last life says about a message.
    fn facts(&self, life: &Life, acts: &Acts) -> Facts {
        let is_old = match self.settings.keep {
            Keep::For(keep) => Ticks::now().since(life.position.0) > keep,
            Keep::Forever => false,
        };
        Facts {
            last: life.outcomes.last(life.is_past),
            is_past: life.is_past,
            is_gone: life.message.is_none(),
            is_swept: acts.sweeps.iter().any(|(_, sweep)| sweep.has(&life.partition, life.position)),
            is_old,
            ..Facts::default()
        }
    }

    /// Everywhere it was, as far as its id and operators say: each has its outcomes.
    async fn add_lives(
        &self,
        id: MessageUuid,
        home: Option<PartitionName>,
        acts: &[(MessageId, Act)],
        depth: Depth,
        lives: &mut BTreeMap<MessageId, Life>,
    ) -> Result<(), QueueError> {
        let first = self.first_life(id, home, depth).await?;
        let mut all: Vec<Life> = first.into_iter().collect();
        for (at, act) in acts {
            if act.act == ActKind::Retried {
                let back = put_back_at(&*self.store, &act.partition, *at, id).await?;
                all.extend(back.map(Life::from));
            }
            all.extend(act.position.map(|position| Life::new(act.partition.clone(), position, None)));
        }
        for life in all {
            if !lives.contains_key(&life.position) {
                self.add_life(life, lives).await?;
            }
        }
        Ok(())
    }

    /// Adds a life with its outcomes. Whether it is past is read first: then its last outcome has been told.
    async fn add_life(&self, life: Life, lives: &mut BTreeMap<MessageId, Life>) -> Result<(), QueueError> {
        let Life { partition, position, message, .. } = life;
        let is_past = is_past(&self.session.term(), &partition, position).await?;
        let pages = outcomes_of(&self.queue, partition.number())?;
        let outcomes = look_up(&*self.store, &pages, position, is_past).await?;
        lives.insert(position, Life { partition, position, message, is_past, outcomes });
        Ok(())
    }

    /// Where it was put, or became due.
    async fn first_life(
        &self,
        id: MessageUuid,
        home: Option<PartitionName>,
        depth: Depth,
    ) -> Result<Option<Life>, QueueError> {
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
                was_there = !look_up(&*self.store, &pages, position, true).await?.found.is_empty();
            }
            return Ok(was_there.then_some(Life::new(partition, position, message)));
        }
        let browser = Browser::open(self.session, self.journals, &self.queue).await?;
        let partitions = browser.partitions(None)?;
        if let Some(found) = browser.where_its_id_says(&partitions, id).await?.into_iter().next() {
            return Ok(Some(found.into()));
        }
        // It may have been delayed, and then expired.
        for partition in partitions.iter().filter(|partition| id.may_be_chosen_for(partition)) {
            let pages = outcomes_of(&self.queue, partition.number())?;
            if let Some(position) = expired(&*self.store, &pages, id).await? {
                return Ok(Some(Life::new(partition.clone(), position, None)));
            }
        }
        match depth {
            Depth::WhereItsIdSays => Ok(None),
            Depth::Anywhere => {
                Ok(browser.moved(&partitions, id).await?.found.into_iter().next().map(Life::from))
            }
        }
    }
}

fn running_line(id: MessageUuid, running: &AllRunning) -> Line {
    let named = running.named(id);
    Line::Running {
        at_ms: named.map_or_else(|| ms(Ticks::now()), |named| named.since_ms),
        worker: running.worker.clone(),
        attempt: named.map(|named| named.attempt),
    }
}

/// Where a failed message was, as its record says.
fn life_of(record: &FailureRecord) -> Option<Life> {
    Some(Life::new(record.origin.clone(), record.message.parse().ok()?, None))
}

/// When workers said that the message was given up, the last time first.
fn given_up_at(lives: &BTreeMap<MessageId, Life>) -> Vec<Ticks> {
    let entries = lives.values().rev().flat_map(|life| life.outcomes.found.iter().rev());
    entries.filter(|(_, entry)| entry.outcome == Outcome::Failed).map(|(_, entry)| entry.at).collect()
}

/// What was stored with the message, if workers wrote it down.
fn meta_told(life: &Life) -> Option<Meta> {
    life.outcomes.found.iter().rev().find_map(|(_, entry)| entry.meta.clone())
}

/// The line of the operator who dropped it together with others.
fn sweeps(lives: &[Life], acts: &Acts) -> Option<Line> {
    let life = lives.last()?;
    let (at, sweep) = acts.sweeps.iter().find(|(_, sweep)| sweep.has(&life.partition, life.position))?;
    Some(Line::Act { at_ms: ms(at.0), act: sweep.sweep, by: None })
}

/// Tells what happened in each of its lives. What separates two of them is told between them: clocks of workers differ, so
/// times do not order lines.
fn tell_lives(id: MessageUuid, lives: Vec<Life>, acts: Vec<(MessageId, Act)>, lines: &mut Vec<Line>) {
    let act_line = |(at, act): (MessageId, Act)| Line::Act { at_ms: ms(at.0), act: act.act, by: act.by };
    let mut acts = acts.into_iter().peekable();
    for (index, life) in lives.into_iter().enumerate() {
        if index == 0 && id.is_chosen() {
            lines.push(Line::Due { at_ms: ms(life.position.0) });
        }
        // It was put back together with the note that says so.
        let begin = MessageId(life.position.0.plus(TOGETHER));
        while index > 0
            && let Some(act) = acts.next_if(|(at, _)| *at <= begin)
        {
            lines.push(act_line(act));
        }
        lines.extend(life.outcomes.found.into_iter().map(|(worker, entry)| Line::Attempt {
            at_ms: ms(entry.at),
            worker,
            attempt: entry.attempt,
            took_ms: entry.took_ms,
            outcome: entry.outcome,
            error: entry.error,
            next_ms: entry.next_ms,
        }));
    }
    lines.extend(acts.map(act_line));
}

fn ms(ticks: Ticks) -> u64 {
    let since = SystemTime::from(ticks).duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
