//! A group: what is decided, and becomes durable with one sync.

use super::metrics::Metrics;
use super::shared::Tell;
use crate::core::decide::Answer;
use crate::core::record::{Change, Record};
use crate::error::JournalError;

/// What is decided and not durable.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) records: Vec<Record>,
    answers: Vec<Prepared>,
    /// What its wishes counted in the queue.
    pub(crate) bytes: usize,
}

/// An answer that is given when the group is durable.
struct Prepared {
    tell: Tell,
    answer: Result<Answer, JournalError>,
    /// So many of the group's records must be durable for it to be true: also one without a record may rest on those before.
    rests_on: usize,
}

impl Group {
    /// Adds a decision.
    pub(crate) fn add(&mut self, record: Option<Record>, answer: Result<Answer, JournalError>, tell: Tell) {
        self.records.extend(record);
        self.answers.push(Prepared { tell, answer, rests_on: self.records.len() });
    }

    /// Only the first records are durable: there was no room for the others, and nothing of them has happened.
    pub(crate) fn keep(&mut self, durable: usize, why: &JournalError) {
        self.records.truncate(durable);
        for prepared in self.answers.iter_mut().filter(|prepared| prepared.rests_on > durable) {
            if prepared.answer.is_ok() {
                prepared.answer = Err(why.clone());
            }
        }
    }

    /// Nobody can tell what of it is durable.
    pub(crate) fn leave_unknown(&mut self) {
        self.records.clear();
        for prepared in &mut self.answers {
            let why = "the disk is full, and the journal stops".to_owned();
            prepared.answer = Err(JournalError::Unknown(why));
        }
    }

    /// Whether a topic goes.
    pub(crate) fn deletes(&self) -> bool {
        let deletes = |change: &Change| matches!(change, Change::Delete { .. });
        self.records.iter().flat_map(|record| &record.changes).any(deletes)
    }

    /// Tells everybody.
    pub(crate) fn tell(self) {
        self.answers.into_iter().for_each(|prepared| (prepared.tell)(prepared.answer));
    }

    /// Counts what has become durable.
    pub(crate) fn count(&self, metrics: &Metrics) {
        let (commits, refused): (Vec<_>, Vec<_>) =
            self.answers.iter().map(|prepared| prepared.answer.is_ok()).partition(|ok| *ok);
        metrics.commits.inc_by(commits.len() as u64);
        metrics.refused.inc_by(refused.len() as u64);
        let (mut messages, mut bytes) = (0, 0);
        for change in self.records.iter().flat_map(|record| &record.changes) {
            if let Change::Append { message, .. } | Change::Mature { message, .. } = change {
                messages += 1;
                bytes += (message.meta.len() + message.body.len()) as u64;
            }
        }
        metrics.appended.inc_by(messages);
        metrics.appended_bytes.inc_by(bytes);
    }
}
