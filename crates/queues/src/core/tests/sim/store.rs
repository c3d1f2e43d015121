//! A model of what is stored about a partition: its lock, cursor and gaps in ZooKeeper; messages, fence and state in the
//! journal. Every change happens whole or not at all.

use std::collections::BTreeMap;

use menagerie_journal::{Message, MessageId};
use menagerie_kernel::Fence;

use crate::core::lane::{Handover, Holder, RecordPlan};
use crate::core::machine::Note;
use crate::core::tally::{Attempts, StoredAttempts};

/// A contender for the partition's lock; the first one holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    pub session: u64,
    pub fence: Fence,
}

/// A partition as stored.
#[derive(Debug, Default)]
pub struct Stored {
    pub tickets: Vec<Ticket>,
    pub cursor: MessageId,
    pub beyond: Option<(MessageId, Vec<MessageId>)>,
    pub messages: Vec<Message>,
    /// The newest fence that has opened it.
    pub opened: Option<Fence>,
    pub held: Option<Holder>,
    pub attempts: BTreeMap<MessageId, Attempts>,
    pub begun: Option<MessageId>,
}

/// What the store refuses: with a fault put back, less than it should.
#[derive(Debug, Clone, Copy)]
pub struct Checks {
    /// Records check the ticket under which they are made.
    pub ticket: bool,
}

impl Stored {
    pub fn is_held_by(&self, fence: Fence) -> bool {
        self.tickets.first().is_some_and(|ticket| ticket.fence == fence)
    }

    /// Whether a record covers this message.
    pub fn is_recorded(&self, id: MessageId) -> bool {
        let beyond = |(through, open): &(MessageId, Vec<MessageId>)| id <= *through && !open.contains(&id);
        id <= self.cursor || self.beyond.as_ref().is_some_and(beyond)
    }

    /// Whether the record was stored. `from`: the cursor as its owner knows it.
    pub fn record(&mut self, fence: Fence, from: MessageId, plan: &RecordPlan, checks: Checks) -> bool {
        let has_ticket = self.tickets.iter().any(|ticket| ticket.fence == fence);
        let moves = plan.cursor > from;
        // The cursor moves from the version that its owner knows; gaps are only fenced by the ticket.
        if checks.ticket && !has_ticket || moves && self.cursor != from {
            return false;
        }
        if moves {
            self.cursor = plan.cursor;
        }
        if plan.beyond.is_some() {
            self.beyond.clone_from(&plan.beyond);
        }
        true
    }

    /// Opens it in the journal under this fence, unless a newer one has.
    pub fn open(&mut self, fence: Fence) -> Option<(StoredAttempts, Option<Holder>)> {
        if self.opened.is_some_and(|opened| opened > fence) {
            return None;
        }
        self.opened = Some(fence);
        let attempts =
            StoredAttempts { messages: self.attempts.clone(), begun: self.begun.unwrap_or_default() };
        Some((attempts, self.held.clone()))
    }

    /// Whether attempts were stored.
    pub fn store_attempts(&mut self, fence: Fence, id: MessageId, attempts: Attempts) -> bool {
        let is_ours = self.opened == Some(fence);
        if is_ours {
            self.attempts.insert(id, attempts);
        }
        is_ours
    }

    /// Whether a note was stored; repeating it changes nothing.
    pub fn note(&mut self, fence: Fence, note: &Note) -> bool {
        if self.opened != Some(fence) {
            return false;
        }
        let id = note.message.id;
        for settled in &note.settled {
            self.attempts.remove(settled);
        }
        self.attempts.insert(id, note.attempts);
        true
    }

    /// The journal's part of a release.
    pub fn close(&mut self, fence: Fence, handover: &Handover) {
        if self.opened != Some(fence) {
            return;
        }
        self.held.clone_from(&handover.suspect);
        self.begun = handover.begun_through;
        for settled in &handover.settled {
            self.attempts.remove(settled);
        }
        self.attempts.extend(handover.begun.iter().copied());
    }
}
