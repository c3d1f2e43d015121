//! Records of what is done, and reports to the journals.

use menagerie_journal::MessageId;
use menagerie_znodes::queues::PartitionName;

use super::{Effect, Machine, Now, Owned, Progress};
use crate::core::activity::activity;
use crate::core::lane::Lane;
use crate::core::ledger::Recorded;
use crate::core::window::Standing;

impl Machine {
    pub(super) fn on_recorded(&mut self, owned: &Owned, recorded: Recorded, now: Now) {
        let Some(lane) = self.lane(owned) else { return };
        let first = lane
            .window
            .first()
            .filter(|id| lane.window.slot(*id).is_some_and(|slot| slot.standing == Standing::Recording));
        match recorded {
            Recorded::Confirmed => {
                lane.confirm_record();
                if let Some(id) = first {
                    lane.window.set(id, Standing::Recorded);
                }
                self.stats.records += 1;
            }
            Recorded::Refused | Recorded::Unknown => {
                // Whether it is recorded or not, we may not handle it.
                if let Some(id) = first {
                    lane.window.set(id, Standing::Waiting);
                }
                self.lose(owned, format!("a record was {}", label(recorded)));
            }
        }
        // The turn of a message that is recorded first lasts until it has ended. Begins it even while stopping: nobody
        // else would handle it.
        if first.is_some() {
            match recorded {
                Recorded::Confirmed => self.begin(&owned.partition, now),
                Recorded::Refused | Recorded::Unknown => self.turn.finish(),
            }
        }
    }

    /// Reports positions to the journals, which only show them.
    pub(super) fn report(&mut self, all: bool, now: Now) {
        if std::mem::replace(&mut self.is_reporting, true) {
            return;
        }
        let (options, handling) = (&self.options, &self.instructed.handling);
        let progress = |lane: &mut Lane| {
            let handling = handling.get(lane.partition.queue()).copied().unwrap_or_default();
            let attempts = options.failure.policy(&handling).attempts.get();
            // What has run for long may have become silent meanwhile.
            let is_news = std::mem::take(&mut lane.has_news) || all && lane.window.running() > 0;
            lane.is_telling = is_news;
            let activity = is_news.then(|| activity(lane, options.name.as_str(), attempts, now));
            let position = lane.ledger.confirmed();
            lane.inflow.report();
            // With at-most-once delivery, a recorded message may still run.
            let handled = lane.window.first().map_or(position, |first| position.min(first.previous()));
            let owned = Owned { partition: lane.partition.clone(), fence: lane.fence };
            Progress { owned, position, handled, is_reported: lane.reported >= position, activity }
        };
        let lanes = self.lanes.values_mut().filter(|lane| !lane.is_lost);
        let is_due = |at: &Progress| all || !at.is_reported || at.activity.is_some();
        let positions = lanes.map(progress).filter(is_due).collect();
        self.effects.push(Effect::Report { all, positions });
    }

    /// Applies a report. Positions that a journal did not take are reported again, unless it knows another owner.
    pub(super) fn on_reported(
        &mut self,
        known: Vec<(PartitionName, MessageId)>,
        lost: Vec<Owned>,
        lags: &[(PartitionName, u64)],
        now: Now,
    ) {
        self.is_reporting = false;
        for (partition, lag) in lags {
            if let Some(lane) = self.lanes.get_mut(partition) {
                lane.inflow.on_lag(*lag, now.instant);
            }
        }
        for owned in lost {
            self.lose(&owned, "the journal knows another owner".to_owned());
        }
        for (partition, position) in known {
            if let Some(lane) = self.lanes.get_mut(&partition) {
                lane.reported = lane.reported.max(position);
                lane.is_telling = false;
            }
        }
        // What a journal did not take is told again, or it would show for ever what ran then.
        for lane in self.lanes.values_mut() {
            lane.has_news |= std::mem::take(&mut lane.is_telling);
        }
    }
}

fn label(recorded: Recorded) -> &'static str {
    match recorded {
        Recorded::Confirmed => "stored",
        Recorded::Refused => "refused",
        Recorded::Unknown => "not answered before the session ended",
    }
}
