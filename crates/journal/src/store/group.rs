//! A group: decisions that become durable with one sync.

use super::metrics::Metrics;
use super::shared::OnAnswer;
use crate::core::decide::Answer;
use crate::core::record::{Change, Record};
use crate::error::JournalError;

/// Decisions that are not durable yet.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) records: Vec<Record>,
    answers: Vec<Prepared>,
    /// Bytes that its proposals take in the queue.
    pub(crate) bytes: usize,
}

/// An answer to be sent when the group is durable.
struct Prepared {
    tell: OnAnswer,
    answer: Result<Answer, JournalError>,
    /// How many of the group's records must be durable for the answer to be true: an answer without a record may depend
    /// on those before.
    rests_on: usize,
}

impl Group {
    /// Adds a decision.
    pub(crate) fn add(
        &mut self,
        record: Option<Record>,
        answer: Result<Answer, JournalError>,
        tell: OnAnswer,
    ) {
        self.records.extend(record);
        self.answers.push(Prepared { tell, answer, rests_on: self.records.len() });
    }

    /// Keeps the first records, which are durable, and refuses the others: there was no room, and nothing of them has
    /// happened.
    pub(crate) fn keep(&mut self, durable: usize, why: &JournalError) {
        self.records.truncate(durable);
        for prepared in self.answers.iter_mut().filter(|prepared| prepared.rests_on > durable) {
            if prepared.answer.is_ok() {
                prepared.answer = Err(why.clone());
            }
        }
    }

    /// Answers that the outcome is unknown.
    pub(crate) fn leave_unknown(&mut self) {
        self.records.clear();
        for prepared in &mut self.answers {
            let why = "the disk is full, and the journal stops".to_owned();
            prepared.answer = Err(JournalError::Unknown(why));
        }
    }

    /// Whether it deletes a topic.
    pub(crate) fn deletes(&self) -> bool {
        let deletes = |change: &Change| matches!(change, Change::Delete { .. });
        self.records.iter().flat_map(|record| &record.changes).any(deletes)
    }

    /// Sends all answers.
    pub(crate) fn send_answers(self) {
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
