//! Which partitions the worker owns: claims, losses, releases.

use std::collections::BTreeSet;

use menagerie_znodes::queues::PartitionName;

use super::{Effect, Happening, Machine, Now, Owned, Phase};
use crate::core::lane::{Handover, Holder, Lane, Ownership};
use crate::core::turn::Ready;

impl Machine {
    /// Claims the partitions assigned to us, and starts releasing the others.
    pub(super) fn on_assigned(&mut self, epoch: u64, partitions: BTreeSet<PartitionName>, now: Now) {
        (self.epoch, self.assigned) = (epoch, partitions.into_iter().map(|name| self.shared(name)).collect());
        if self.phase != Phase::Running {
            return;
        }
        for (partition, lane) in &mut self.lanes {
            match self.assigned.contains(partition) {
                true if !lane.is_outdated => lane.ledger.reopen(),
                true | false => lane.ledger.close(),
            }
            self.dirty.insert(partition.clone());
        }
        let cancelled: Vec<PartitionName> = self.claims.difference(&self.assigned).cloned().collect();
        for partition in cancelled {
            self.claims.remove(&partition);
            self.effects.push(Effect::CancelClaim(partition));
        }
        let assigned = &self.assigned;
        self.lost.retain(|partition, _| assigned.contains(partition));
        if self.first_read_until.is_none() && !assigned.is_empty() {
            self.first_read_until = Some(now.instant + self.options.first_read_wait);
            assigned.iter().for_each(|partition| self.turn.await_first_read(partition));
        }
        for partition in self.assigned.clone() {
            self.claim(&partition);
        }
    }

    /// The same name, which shares its queue's name with those of our other partitions: that makes them cheap to compare.
    fn shared(&self, partition: PartitionName) -> PartitionName {
        let queue = self.options.queues.iter().find(|queue| *queue == partition.queue());
        queue.map(|queue| queue.partition(partition.number())).unwrap_or(partition)
    }

    /// Starts to claim a partition, unless we own it or are claiming it already.
    fn claim(&mut self, partition: &PartitionName) {
        let wanted = self.phase == Phase::Running && self.assigned.contains(partition);
        if wanted && !self.lanes.contains_key(partition) && self.claims.insert(partition.clone()) {
            self.effects.push(Effect::Claim(partition.clone()));
        }
    }

    pub(super) fn on_claimed(&mut self, owned: Ownership) {
        // The claim was cancelled a moment too late.
        if !self.claims.remove(&owned.partition) || self.phase != Phase::Running {
            let position = owned.cursor;
            let fence = owned.fence.to_string();
            // Whatever its predecessor may have begun is as suspect as before.
            let suspect = owned.predecessor.map(|before| Holder { fence, ..before });
            let begun_through = Some(owned.attempts.begun).filter(|begun| *begun > position);
            let handover = Handover { position, suspect, begun_through, ..Handover::default() };
            let owned = Owned { partition: owned.partition, fence: owned.fence };
            self.releasing += 1;
            return self.effects.push(Effect::Release(owned, handover));
        }
        let partition = owned.partition.clone();
        self.tell(Happening::Taken(Box::new(owned.clone())));
        let ours = self.lost.remove(&partition);
        let mut lane = Lane::new(owned, &self.options, ours);
        // Its settings may have changed since they were read for the claim.
        let handling = self.instructed.handling.get(partition.queue());
        handling.into_iter().for_each(|handling| lane.follow(handling));
        self.stats.taken += 1;
        self.lanes.insert(partition.clone(), lane);
        self.is_presence_stale = true;
        self.dirty.insert(partition);
    }

    pub(super) fn on_lapsed(&mut self, term: u64) {
        let of_term = |lane: &&Lane| lane.term == term && !lane.is_lost;
        let owned = |lane: &Lane| Owned { partition: lane.partition.clone(), fence: lane.fence };
        let lapsed: Vec<Owned> = self.lanes.values().filter(of_term).map(owned).collect();
        for owned in lapsed {
            self.lose(&owned, "its lease is over".to_owned());
        }
    }

    /// Another worker owns the partition, or may: stop what runs, and record nothing more.
    pub(super) fn lose(&mut self, owned: &Owned, why: String) {
        let Some(lane) = self.lane(owned) else { return };
        if lane.is_lost {
            return;
        }
        lane.lose();
        let runs: Vec<Effect> = lane.window.runs().map(Effect::Stop).collect();
        self.effects.extend(runs);
        self.effects.push(Effect::CancelFetch(owned.clone()));
        self.effects.push(Effect::GiveUpNotes(owned.clone()));
        self.tell(Happening::Lost { owned: owned.clone(), why });
    }

    /// Releases a partition, or drops one that we have lost.
    pub(super) fn give_back(&mut self, partition: &PartitionName) {
        let Some(mut lane) = self.lanes.remove(partition) else { return };
        self.is_presence_stale = true;
        self.turn.update(partition, Ready::No);
        if let Some(timer) = lane.timer {
            self.timers.remove(&(timer, partition.clone()));
        }
        let owned = Owned { partition: partition.clone(), fence: lane.fence };
        if lane.window.is_recording() {
            // Its turn would have lasted until it ended.
            self.turn.finish();
        }
        if lane.is_lost {
            self.stats.lost += 1;
            self.effects.push(Effect::Drop(owned));
            self.lost.insert(partition.clone(), lane.remains());
            // The assignment may still give it to us.
            return self.claim(partition);
        }
        self.releasing += 1;
        self.effects.push(Effect::Release(owned, lane.handover()));
    }

    pub(super) fn on_released(&mut self, partition: &PartitionName) {
        self.releasing -= 1;
        self.stats.released += 1;
        self.claim(partition);
    }
}
