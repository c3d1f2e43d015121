//! How often each unfinished message was tried.
//!
//! Attempts are counted in the journal, as state of the partition: written after a failure, and before a message begins
//! that may have killed the previous owner. So a message that kills its worker is counted, too.

use std::collections::{BTreeMap, BTreeSet};

use menagerie_journal::MessageId;
use serde::{Deserialize, Serialize};

use super::failure::{OnFailure, Policy, Verdict};

/// Attempts of one message, as stored in the journal. That they are stored at all says that the message may have run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Attempts {
    /// Attempts that count.
    pub attempts: u32,
    /// The message was given up, with everything that entails: skip it.
    #[serde(default)]
    pub given_up: bool,
}

/// What the journal has about a partition's messages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredAttempts {
    /// By message.
    pub messages: BTreeMap<MessageId, Attempts>,
    /// Messages up to this one may have run.
    pub begun: MessageId,
}

impl StoredAttempts {
    /// Takes out the messages that are done. An owner that vanished could not have the journal drop them.
    pub fn take_done(&mut self, is_done: impl Fn(MessageId) -> bool) -> Vec<MessageId> {
        let done: Vec<MessageId> =
            self.messages.keys().copied().filter(|message| is_done(*message)).collect();
        self.messages.retain(|message, _| !is_done(*message));
        done
    }
}

/// How the previous owner left the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predecessor {
    /// It released it, or there was none.
    Released,
    /// It died or lost it, and may have begun messages.
    Vanished,
}

/// How to begin a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Run it.
    Run {
        /// Number of this attempt among those that count, from 1.
        attempt: u32,
        /// Number that the task sees: 2 or more if the message may have run before, even if that does not count.
        task_attempt: u32,
        /// Store this first: if the message kills us, too, the next owner must know.
        store: Option<Attempts>,
    },
    /// Give it up without another attempt: it has killed every worker that ran it.
    Poison {
        /// How often it ran.
        attempts: u32,
    },
    /// Skip it: it was given up before, and only the record is missing.
    Skip,
}

/// Counts the attempts of a partition's unfinished messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    messages: BTreeMap<MessageId, Attempts>,
    /// Messages of which the journal has attempts.
    stored: BTreeSet<MessageId>,
    before: Predecessor,
    /// Messages up to this one may have run before we claimed the partition.
    begun: MessageId,
    /// Unfinished messages that have begun since: side by side, not all before them have.
    ran: BTreeSet<MessageId>,
    /// The last message that has begun since, finished or not.
    ran_last: MessageId,
    /// How many of the next messages a vanished owner may have begun.
    suspects: u32,
}

impl Tally {
    /// From what the journal had when we claimed the partition.
    pub fn new(stored: StoredAttempts, before: Predecessor, suspects: u32) -> Self {
        let keys = stored.messages.keys().copied().collect();
        Self {
            messages: stored.messages,
            stored: keys,
            before,
            begun: stored.begun,
            ran: BTreeSet::new(),
            ran_last: MessageId::ZERO,
            suspects,
        }
    }

    /// How to begin this message.
    pub fn begin(&mut self, message: MessageId, policy: &Policy) -> Begin {
        let known = self.messages.get(&message).copied();
        if known.is_some_and(|known| known.given_up) {
            return Begin::Skip;
        }
        let made = known.map_or(0, |known| known.attempts);
        // Only the first message after a takeover counts as the one that was running: those after it become first in
        // their turn, as each is recorded by itself.
        let before = std::mem::replace(&mut self.before, Predecessor::Released);
        match before {
            Predecessor::Released => {
                let seen = if self.may_have_run(message) { 2 } else { 1 };
                Begin::Run { attempt: made + 1, task_attempt: seen.max(made + 1), store: None }
            }
            // With `OnFailure::Stop`, its last attempt may have ended the owner before, and whoever has started another
            // one wants it to be tried again.
            Predecessor::Vanished
                if made >= policy.attempts.get() && policy.on_failure != OnFailure::Stop =>
            {
                Begin::Poison { attempts: made }
            }
            Predecessor::Vanished => {
                // Nobody counted the attempt of the vanished owner: assume it was the first.
                let attempts = made.max(1) + 1;
                let store = self.set(message, attempts);
                self.stored.insert(message);
                Begin::Run { attempt: attempts, task_attempt: attempts, store: Some(store) }
            }
        }
    }

    /// These messages begin.
    pub fn mark_begun(&mut self, messages: &[MessageId]) {
        self.ran.extend(messages);
        self.ran_last = messages.iter().copied().fold(self.ran_last, MessageId::max);
    }

    /// Last message that may have run before we claimed the partition.
    pub fn begun(&self) -> MessageId {
        self.begun
    }

    /// Whether a message may have begun before, under us or an earlier owner.
    pub fn may_have_run(&self, message: MessageId) -> bool {
        self.suspects > 0 || self.has_begun(message)
    }

    /// The same, whatever an owner that vanished may have begun.
    fn has_begun(&self, message: MessageId) -> bool {
        message <= self.begun || self.ran.contains(&message) || self.messages.contains_key(&message)
    }

    /// Attempts of a message that count.
    pub fn attempts(&self, message: MessageId) -> u32 {
        self.messages.get(&message).map_or(0, |known| known.attempts)
    }

    /// Whether an attempt of it has failed.
    pub fn has_failed(&self, message: MessageId) -> bool {
        self.attempts(message) > 0
    }

    /// Whether nothing special is known of a message.
    pub fn is_fresh(&self, message: MessageId) -> bool {
        !self.messages.contains_key(&message)
    }

    /// Takes back this attempt: we stopped it, or it did not begin.
    pub fn record_stop(&mut self, message: MessageId, attempt: u32) {
        self.set(message, attempt.saturating_sub(1));
    }

    /// Counts a failed attempt, or a message given up, and returns what to store. Until that is stored nobody may skip
    /// the message, as what giving up entails has not happened.
    pub fn record_failure(&mut self, message: MessageId, attempt: u32, verdict: Verdict) -> Attempts {
        let given_up = matches!(verdict, Verdict::GiveUp(OnFailure::Log | OnFailure::Queue));
        let stored = self.set(message, attempt);
        self.stored.insert(message);
        Attempts { given_up, ..stored }
    }

    /// The journal has stored that the message was given up.
    pub fn confirm_give_up(&mut self, message: MessageId) {
        if let Some(known) = self.messages.get_mut(&message) {
            known.given_up = true;
        }
    }

    /// A message is passed, because it has expired.
    pub fn pass(&mut self, message: MessageId) {
        self.messages.remove(&message);
        self.ran.remove(&message);
    }

    /// A message is done.
    pub fn finish(&mut self, message: MessageId) {
        self.pass(message);
        self.suspects = self.suspects.saturating_sub(1);
    }

    /// How many more messages a vanished owner may have begun.
    pub fn suspects(&self) -> u32 {
        self.suspects
    }

    /// Attempts in the journal of messages that are finished, once that is recorded.
    pub fn settled(&self) -> impl Iterator<Item = MessageId> + '_ {
        self.stored.iter().copied().filter(|message| !self.messages.contains_key(message))
    }

    /// The journal has dropped the attempts of these messages, or will.
    pub fn forget(&mut self, messages: &[MessageId]) {
        for message in messages {
            self.stored.remove(message);
        }
    }

    /// What to store on a release about messages that have begun and are not done: the next owner must know.
    pub fn handover(&self, unfinished: impl Iterator<Item = MessageId>) -> Vec<(MessageId, Attempts)> {
        let begun = unfinished.filter(|message| self.has_begun(*message));
        begun.map(|message| (message, self.messages.get(&message).copied().unwrap_or_default())).collect()
    }

    /// The count after we lost the partition and claimed it again. A message that the journal says was given up is
    /// skipped, whatever we counted since; so is what we have given up there. What we finished may not be recorded, and
    /// then runs again.
    #[must_use]
    pub fn retaken(self, stored: StoredAttempts) -> Self {
        let begun = self.begun.max(self.ran_last).max(stored.begun);
        let mut messages = self.messages;
        for (message, found) in &stored.messages {
            if found.given_up {
                messages.insert(*message, *found);
            }
        }
        let keys = stored.messages.into_keys().collect();
        Self { messages, stored: keys, begun, ran: BTreeSet::new(), ..self }
    }

    fn set(&mut self, message: MessageId, attempts: u32) -> Attempts {
        let known = Attempts { attempts, given_up: false };
        self.messages.insert(message, known);
        known
    }
}
