//! What must hold after every step, whoever may have died.

use menagerie_journal::MessageId;
use menagerie_znodes::queues::{OPEN_MAX, Order, PartitionName, Retry};

use super::world::{Truth, World};
use crate::core::lane::RecordPlan;
use crate::core::ledger::Ack;
use crate::core::machine::{Ending, Happening, How, Owned, Run};

impl World {
    pub(super) fn violate(&mut self, why: String) {
        self.violation.get_or_insert(why);
    }

    /// At least once: what is recorded is done.
    pub(super) fn check_recorded(&mut self, partition: &PartitionName) {
        if self.ack == Ack::Before {
            return;
        }
        let stored = &self.stored[partition];
        let undone = stored
            .messages
            .iter()
            .map(|message| message.id)
            .find(|id| stored.is_recorded(*id) && !self.truth[&(partition.clone(), *id)].is_finished);
        if let Some(id) = undone {
            self.violate(format!("{} of {partition} is recorded, and not done", id.0.0));
        }
    }

    /// A worker asks for a record: the only one in flight, which says something, and no more than fits.
    pub(super) fn check_plan(&mut self, worker: usize, owned: &Owned, plan: &RecordPlan) {
        let Some(process) = self.workers[worker].as_mut() else { return };
        let is_second = !process.recording.insert(owned.clone());
        let known = process.cursors.get(owned).copied();
        let open = plan.beyond.as_ref().map_or(0, |(_, open)| open.len());
        if is_second {
            self.violate(format!("w{worker} has two records of {} in flight", owned.partition));
        } else if known.is_some_and(|known| plan.cursor <= known) && plan.beyond.is_none() {
            self.violate(format!("w{worker} records nothing new of {}", owned.partition));
        } else if open > OPEN_MAX {
            self.violate(format!("a record of {} names {open} unfinished messages", owned.partition));
        }
    }

    /// A worker begins messages only of partitions that are assigned to it, and none once it stops; except for what is
    /// recorded already, which nobody else would handle. Where a failure blocks, none behind one that it knows of.
    pub(super) fn check_run(&mut self, worker: usize, owned: &Owned, run: &Run) {
        let Some(process) = self.workers[worker].as_ref().filter(|_| self.options.ack == Ack::After) else {
            return;
        };
        let may_begin = process.assigned.contains(&owned.partition) && !process.machine.is_stopping();
        // In order, those behind it may be in its batch.
        let is_along = |id: &MessageId| run.messages.iter().any(|message| message.id == *id);
        let is_open =
            |id: &MessageId| !is_along(id) && !self.truth[&(owned.partition.clone(), *id)].is_finished;
        let failing = process.failing.iter().filter(|(of, _)| of == owned).map(|(_, id)| *id).find(is_open);
        let behind = run.messages.iter().find(|message| failing.is_some_and(|failing| message.id > failing));
        if !may_begin {
            self.violate(format!(
                "w{worker} begins a message of {}, which it is to release",
                owned.partition
            ));
        } else if let Some(message) = behind.filter(|_| self.handling.retry() == Retry::Block) {
            let failing = failing.map_or(0, |id| id.0.0);
            self.violate(format!("{} begins behind {failing}, which has failed", message.id.0.0));
        }
    }

    /// Whether a message has to wait for one before it. `is_along`: they begin together.
    fn must_wait(&self, this: &Truth, before: &Truth, is_along: bool) -> bool {
        let is_open = !before.is_finished && self.ack == Ack::After;
        is_open
            && match (self.handling.order, self.handling.retry()) {
                (Order::Partition, Retry::Block) => !is_along,
                (Order::Partition, Retry::Later) => !is_along && before.runs == 0,
                // A batch may be handled side by side.
                (Order::Key, _) => before.key.is_some() && before.key == this.key,
                (Order::None, _) => false,
            }
    }

    pub(super) fn check_begin(&mut self, worker: usize, owned: &Owned, run: &Run, index: usize) {
        let (partition, id) = (&owned.partition, run.messages[index].id);
        let along = |other: MessageId| run.messages[..index].iter().any(|message| message.id == other);
        let key = (partition.clone(), id);
        let truth = &self.truth[&key];
        let is_recorded = self.stored[partition].is_recorded(id);
        let attempt = run.attempts[index];
        let mut earlier = self.truth.range((partition.clone(), MessageId::ZERO)..key.clone());
        let passed = earlier.find(|((_, other), before)| self.must_wait(truth, before, along(*other)));
        let mut later = self.truth.range(key.clone()..).take_while(|((of, _), _)| of == partition).skip(1);
        let number = id.0.0;
        let why = if let Some(other) = truth.running {
            format!("w{worker} begins {number} which w{other} is running")
        } else if truth.is_given_up {
            format!("{number} runs although it was given up")
        } else if self.ack == Ack::Before && truth.runs > 0 {
            format!("{number} runs twice, and was promised to run at most once")
        } else if self.ack == Ack::Before && later.any(|(_, truth)| truth.runs > 0) {
            format!("{number} runs after one behind it, although one is recorded after the other")
        } else if self.ack == Ack::After && is_recorded {
            format!("{number} runs although it is recorded")
        } else if truth.runs > 0 && attempt < 2 {
            format!("{number} has run before, and is not told so")
        } else if let Some(((_, other), _)) = passed {
            format!("{number} begins before {}, which is not done", other.0.0)
        } else {
            return;
        };
        self.violate(why);
    }

    pub(super) fn on_happening(&mut self, worker: usize, happening: &Happening) {
        match happening {
            Happening::Taken(owned) => {
                let process = self.workers[worker].as_mut().expect("it is alive");
                let predecessor = owned.predecessor.as_ref().map(|before| &before.fence);
                if predecessor.is_some_and(|before| process.fences.contains(before)) {
                    self.seen.count("retaken");
                } else if predecessor.is_some() {
                    self.seen.count("takeover");
                }
                process.fences.insert(owned.fence.to_string());
                let beyond = owned.beyond.as_ref().filter(|(done, _)| *done > owned.cursor);
                if beyond.is_some_and(|(_, open)| !open.is_empty()) {
                    self.seen.count("takeover with gaps");
                }
            }
            Happening::Ended(ending) => self.on_ending(ending),
            Happening::Lost { .. } => self.seen.count("lost"),
            Happening::ReadFailed { .. } => self.seen.count("failed read"),
            Happening::Gap { .. } | Happening::Stopping(_) | Happening::Paused(_) => {}
        }
    }

    fn on_ending(&mut self, ending: &Ending) {
        let id = ending.message.id;
        match &ending.how {
            How::GivenUp(why, _) if why.error.contains("has died") => self.seen.count("poison"),
            How::GivenUp(why, _) if why.retry => self.seen.count("given up after its attempts"),
            How::Skipped => self.seen.count("skipped"),
            How::Orphaned => self.seen.count("orphaned"),
            How::Stopped => self.seen.count("stopped"),
            How::Expired => {
                self.seen.count("expired");
                if ending.message.expires.is_none_or(|end| end > self.now().ticks) {
                    self.violate(format!("{} expired before its time", id.0.0));
                }
                self.finish(&ending.partition, id);
            }
            How::GivenUp(..) | How::Done | How::Retry(..) => {}
        }
    }
}
