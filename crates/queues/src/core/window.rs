//! The unfinished messages of a partition that its owner knows, and which of them may begin.
//!
//! Messages that must be handled in order form a line, of which only the first may begin: all messages of the partition,
//! or those of one key. A message without a line waits for no other.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use menagerie_journal::{Message, MessageId, Ticks};
use menagerie_znodes::queues::{Order, Retry};

use super::lines::{LineId, Lines};
use crate::meta::Meta;
use crate::task::Failed;

/// Number of a run of a task, unique within its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

/// What to do with a message once its failure is stored in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterNote {
    /// Wait for its next attempt.
    Wait(Instant),
    /// It is given up: skip it.
    Skip,
    /// Stop the worker because of this failure.
    Stop(Failed),
}

/// Where an unfinished message stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It was unfinished when we took the partition, and is not read yet.
    Unread,
    /// It waits for its turn.
    Waiting,
    /// At most once: its record is in flight, and it begins after that.
    Recording,
    /// At most once: it is recorded, and nobody else will handle it.
    Recorded,
    /// A task has it.
    Running {
        /// Which run.
        run: RunId,
        /// Which attempt.
        attempt: u32,
        /// Since when; `None` while it waits there, and has not begun.
        since: Option<Instant>,
    },
    /// It has failed or was stopped, and waits until then.
    BackingOff(Instant),
    /// Its failure is being stored.
    Noting(AfterNote),
}

/// An unfinished message.
#[derive(Debug, Clone)]
pub struct Slot {
    /// The message; `None` until it is read.
    pub message: Option<Message>,
    /// Where it stands.
    pub standing: Standing,
    /// How its last attempt failed, for views.
    pub last_error: Option<String>,
    /// How many messages were read before it; none, if it was unfinished when we took the partition.
    read_before: u64,
    line: Option<LineId>,
    priority: i8,
}

impl Slot {
    fn bytes(&self) -> usize {
        self.message.as_ref().map_or(0, |message| message.body.len() + message.meta.len())
    }
}

/// The unfinished messages of a partition that its owner knows.
#[derive(Debug, Clone)]
pub struct Window {
    order: Order,
    retry: Retry,
    slots: BTreeMap<MessageId, Slot>,
    /// Messages of each line, except for those that stepped aside.
    lines: Lines,
    /// Messages that wait, and that no other of their line keeps from beginning: by priority, then oldest first.
    ready: BTreeSet<(Reverse<i8>, MessageId)>,
    /// Messages that have failed and are not done: those behind them may have to wait.
    failing: BTreeSet<MessageId>,
    back_offs: BTreeSet<(Instant, MessageId)>,
    running: BTreeMap<RunId, Vec<MessageId>>,
    noting: usize,
    /// Messages that are not read yet.
    unread: usize,
    bytes: usize,
    /// Messages read, except for those that were unfinished when we took the partition.
    read_count: u64,
}

impl Window {
    /// Knows of no messages but those that were unfinished before the last finished one.
    pub fn new(order: Order, retry: Retry, unfinished: impl IntoIterator<Item = MessageId>) -> Self {
        let unread = Slot {
            message: None,
            standing: Standing::Unread,
            last_error: None,
            read_before: 0,
            line: None,
            priority: 0,
        };
        let slots: BTreeMap<MessageId, Slot> =
            unfinished.into_iter().map(|id| (id, unread.clone())).collect();
        Self {
            order,
            retry,
            unread: slots.len(),
            slots,
            lines: Lines::default(),
            ready: BTreeSet::new(),
            failing: BTreeSet::new(),
            back_offs: BTreeSet::new(),
            running: BTreeMap::new(),
            noting: 0,
            bytes: 0,
            read_count: 0,
        }
    }

    /// A message was read.
    pub fn insert(&mut self, message: Message) {
        let (id, meta) = (message.id, || Meta::of(&message));
        let (line, priority) = match self.order {
            Order::Partition => {
                self.lines.join(LineId::ALL, id);
                (Some(LineId::ALL), 0)
            }
            Order::Key => (meta().key.map(|key| self.lines.join_key(key, id)), 0),
            Order::None => (None, meta().priority),
        };
        let is_new = !self.slots.contains_key(&id);
        let read_before = if is_new { self.read_count } else { 0 };
        self.read_count += u64::from(is_new);
        let slot = Slot {
            message: Some(message),
            standing: Standing::Waiting,
            last_error: None,
            read_before,
            line,
            priority,
        };
        self.bytes += slot.bytes();
        let before = self.slots.insert(id, slot);
        self.unread -= usize::from(before.is_some_and(|before| before.standing == Standing::Unread));
        self.refresh(id);
        // One that was unfinished when we took the partition may come before others of its line.
        if line.is_some_and(|line| self.lines.first(line) == Some(id)) {
            self.refresh_line(line, None);
        }
    }

    /// A message no longer exists, or is done.
    pub fn remove(&mut self, id: MessageId) -> Option<Message> {
        let slot = self.slots.remove(&id)?;
        self.bytes -= slot.bytes();
        self.noting -= usize::from(matches!(slot.standing, Standing::Noting(_)));
        self.unread -= usize::from(slot.standing == Standing::Unread);
        if let Standing::BackingOff(until) = slot.standing {
            self.back_offs.remove(&(until, id));
        }
        self.failing.remove(&id);
        self.ready.remove(&(Reverse(slot.priority), id));
        self.leave_line(id, slot.line);
        slot.message
    }

    /// Messages, oldest first.
    pub fn slots(&self) -> impl Iterator<Item = (MessageId, &Slot)> {
        self.slots.iter().map(|(id, slot)| (*id, slot))
    }

    /// The first unfinished message.
    pub fn first(&self) -> Option<MessageId> {
        self.slots.first_key_value().map(|(id, _)| *id)
    }

    /// How many of the messages read come before the first unfinished one behind this cursor.
    pub fn passed_by(&self, cursor: MessageId) -> u64 {
        let behind = self.slots.range(cursor.next()..).next();
        behind.map_or(self.read_count, |(_, first)| first.read_before)
    }

    /// The message after `after` that was unfinished when we took the partition and is not read yet.
    pub fn next_unread(&self, after: MessageId) -> Option<MessageId> {
        if self.unread == 0 {
            return None;
        }
        let behind = self.slots.range(after.next()..);
        behind.filter(|(_, slot)| slot.standing == Standing::Unread).map(|(id, _)| *id).next()
    }

    /// Unfinished messages up to this one.
    pub fn open(&self, through: MessageId) -> impl Iterator<Item = MessageId> + '_ {
        self.slots.range(..=through).map(|(id, _)| *id)
    }

    /// Number of messages, and their size.
    pub fn size(&self) -> (usize, usize) {
        (self.slots.len(), self.bytes)
    }

    /// Number of runs.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// All runs.
    pub fn runs(&self) -> impl Iterator<Item = RunId> + '_ {
        self.running.keys().copied()
    }

    /// Whether nothing runs, and no failure is being stored.
    pub fn is_quiet(&self) -> bool {
        self.running.is_empty() && self.noting == 0
    }

    /// Whether a failure is being stored.
    pub fn is_noting(&self) -> bool {
        self.noting > 0
    }

    /// Whether some message is recorded, or about to be, and has not begun.
    pub fn has_recorded(&self) -> bool {
        self.slots.values().any(|slot| matches!(slot.standing, Standing::Recording | Standing::Recorded))
    }

    /// Whether a message is about to be recorded before it begins.
    pub fn is_recording(&self) -> bool {
        self.slots.values().any(|slot| slot.standing == Standing::Recording)
    }

    /// The next message that may begin. `one_by_one`: only the first unfinished one, and only when nothing else runs.
    pub fn candidate(&self, one_by_one: bool) -> Option<MessageId> {
        if one_by_one {
            let (id, slot) = self.slots.first_key_value()?;
            let waits = matches!(slot.standing, Standing::Waiting | Standing::Recorded);
            return (waits && self.is_quiet()).then_some(*id);
        }
        let end = match self.retry {
            Retry::Block => self.failing.first().copied(),
            Retry::Later => None,
        };
        self.ready.iter().map(|(_, id)| *id).find(|id| end.is_none_or(|end| *id <= end))
    }

    /// Up to `count` messages that may begin together with this one, which is first: the ones behind it in its line, or
    /// others that may begin if it has none. `is_fresh`: whether a message may go along.
    pub fn batch(
        &self,
        first: MessageId,
        count: usize,
        now: Ticks,
        is_fresh: impl Fn(MessageId) -> bool,
    ) -> Vec<MessageId> {
        let waits = |id: &MessageId| {
            let slot = self.slots.get(id);
            slot.is_some_and(|slot| slot.standing == Standing::Waiting && !is_expired(slot, now))
                && is_fresh(*id)
        };
        let mut batch = vec![first];
        let more = count.saturating_sub(1);
        match self.order {
            Order::Partition => {
                let line = self.lines.members(LineId::ALL);
                batch.extend(line.filter(|id| *id > first).take_while(waits).take(more));
            }
            Order::Key | Order::None if more > 0 && self.failing.is_empty() => {
                let ready = self.ready.iter().map(|(_, id)| *id);
                batch.extend(ready.filter(|id| *id != first).filter(waits).take(more));
            }
            Order::Key | Order::None => {}
        }
        batch
    }

    /// Whether a message has expired.
    pub fn is_expired(&self, id: MessageId, now: Ticks) -> bool {
        self.slots.get(&id).is_some_and(|slot| is_expired(slot, now))
    }

    /// Begins a run of these messages, and returns them; each comes with its attempt. `since`: when they began, if they
    /// have.
    pub fn begin(
        &mut self,
        run: RunId,
        messages: &[(MessageId, u32)],
        since: Option<Instant>,
    ) -> Vec<Message> {
        let mut taken = Vec::with_capacity(messages.len());
        for (id, attempt) in messages {
            self.set(*id, Standing::Running { run, attempt: *attempt, since });
            taken.extend(self.slots.get(id).and_then(|slot| slot.message.clone()));
        }
        self.running.insert(run, messages.iter().map(|(id, _)| *id).collect());
        taken
    }

    /// The messages of a run have begun.
    pub fn mark_begun(&mut self, run: RunId, now: Instant) {
        for id in self.running.get(&run).into_iter().flatten() {
            if let Some(Slot { standing: Standing::Running { since, .. }, .. }) = self.slots.get_mut(id) {
                since.get_or_insert(now);
            }
        }
    }

    /// Ends a run: its messages, each with its attempt and when it began. They keep their standing.
    pub fn end(&mut self, run: RunId) -> Vec<(MessageId, u32, Option<Instant>)> {
        let messages = self.running.remove(&run).unwrap_or_default();
        let attempt = |id: MessageId| match self.slots.get(&id)?.standing {
            Standing::Running { attempt, since, .. } => Some((id, attempt, since)),
            _ => None,
        };
        messages.into_iter().filter_map(attempt).collect()
    }

    /// Where a message stands.
    pub fn slot(&self, id: MessageId) -> Option<&Slot> {
        self.slots.get(&id)
    }

    /// A message's last attempt has failed.
    pub fn fail(&mut self, id: MessageId, error: String) {
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.last_error = Some(error);
            self.failing.insert(id);
        }
    }

    /// A message has failed before we knew it.
    pub fn mark_failing(&mut self, id: MessageId) {
        self.failing.insert(id);
    }

    /// Changes where a message stands.
    pub fn set(&mut self, id: MessageId, standing: Standing) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        if let Standing::BackingOff(until) = standing {
            self.back_offs.insert((until, id));
            self.failing.insert(id);
        }
        self.noting += usize::from(matches!(standing, Standing::Noting(_)));
        let (line, before) = (slot.line, std::mem::replace(&mut slot.standing, standing));
        self.noting -= usize::from(matches!(before, Standing::Noting(_)));
        self.unread -= usize::from(before == Standing::Unread);
        if let Standing::BackingOff(until) = before {
            self.back_offs.remove(&(until, id));
        }
        let aside = matches!(self.slots[&id].standing, Standing::BackingOff(_));
        if let Some(line) = line.filter(|_| self.steps_aside()) {
            match aside {
                true => self.leave_line(id, Some(line)),
                false => self.lines.join(line, id),
            }
            self.refresh_line(Some(line), Some(id));
        }
        self.refresh(id);
    }

    /// Ends the back-offs that are over.
    pub fn wake(&mut self, now: Instant) {
        while let Some((_, id)) = self.back_offs.first().copied().filter(|(until, _)| *until <= now) {
            self.set(id, Standing::Waiting);
        }
    }

    /// When the next back-off ends.
    pub fn next_wake(&self) -> Option<Instant> {
        self.back_offs.first().map(|(until, _)| *until)
    }

    /// Whether anything could begin now.
    pub fn has_ready(&self) -> bool {
        self.candidate(false).is_some()
    }

    /// Whether a message that backs off lets those behind it in its line pass. Only one line for all has that choice:
    /// messages of one key stay in order.
    fn steps_aside(&self) -> bool {
        self.order == Order::Partition && self.retry == Retry::Later
    }

    fn leave_line(&mut self, id: MessageId, line: Option<LineId>) {
        let Some(line) = line else { return };
        self.lines.leave(line, id);
        // Whoever is first now may begin, if it was behind.
        if let Some(first) = self.lines.first(line).filter(|first| *first > id) {
            self.refresh(first);
        }
    }

    /// The first of a line may begin now, and the one before or behind it no longer.
    fn refresh_line(&mut self, line: Option<LineId>, changed: Option<MessageId>) {
        let Some(line) = line else { return };
        let mut members = self.lines.members(line);
        let near = [members.next(), members.next(), changed];
        drop(members);
        near.into_iter().flatten().for_each(|id| self.refresh(id));
    }

    fn refresh(&mut self, id: MessageId) {
        let Some(slot) = self.slots.get(&id) else { return };
        let first = |line| self.lines.first(line) == Some(id);
        let is_ready = matches!(slot.standing, Standing::Waiting) && slot.line.is_none_or(first);
        let entry = (Reverse(slot.priority), id);
        match is_ready {
            true => self.ready.insert(entry),
            false => self.ready.remove(&entry),
        };
    }
}

fn is_expired(slot: &Slot, now: Ticks) -> bool {
    slot.message.as_ref().and_then(|message| message.expires).is_some_and(|end| end <= now)
}
