//! Which handled messages of a partition have outlived their retention.
//!
//! Ids are timestamps, so the age of a message is known without reading it. A message that is not handled is never
//! dropped, whatever the clock says. Nobody runs a handled message again, so dropping it needs no lock: an owner that
//! has lost the partition without knowing drops only what its successor would drop, too.

use menagerie_journal::{MessageId, PartitionStats, Ticks};
use menagerie_znodes::queues::Keep;

/// Messages may stay longer by this fraction of the retention, 1/16, so that many are dropped at once.
const SLACK: u32 = 16;

/// Last message to drop, if it is worth a trim. `handled`: everything through it is done and recorded.
pub fn trim_through(stats: &PartitionStats, handled: MessageId, keep: Keep, now: Ticks) -> Option<MessageId> {
    let Keep::For(keep) = keep else { return None };
    // The journal reports the first message of a block even if a trim has dropped it.
    let oldest = stats.first?.max(stats.trimmed.next());
    let through = handled.min(MessageId(now.minus(keep)));
    let due = oldest.0 <= now.minus(keep.saturating_add(keep / SLACK));
    (due && oldest <= through).then_some(through)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// This many minutes after a fixed time.
    fn at(minutes: u64) -> Ticks {
        Ticks(139_000_000_000_000_000).plus(Duration::from_secs(60 * minutes))
    }

    fn id(minutes: u64) -> MessageId {
        MessageId(at(minutes))
    }

    fn partition(first: Option<MessageId>, trimmed: MessageId) -> PartitionStats {
        PartitionStats { first, trimmed, ..PartitionStats::default() }
    }

    #[test]
    fn handled_messages_are_dropped_after_their_retention_and_in_bulk() {
        let stats = partition(Some(id(0)), MessageId::ZERO);
        let go = |handled, now| trim_through(&stats, id(handled), Keep::For(HOUR), at(now));
        assert_eq!(go(100, 59), None, "it is to be kept");
        assert_eq!(go(100, 63), None, "a little longer, for more to go along");
        assert_eq!(go(100, 64), Some(id(4)));
        assert_eq!(go(2, 64), Some(id(2)), "what waits stays");
        assert_eq!(go(2, 60 * 24 * 365), Some(id(2)), "also when the clock has jumped");
        assert_eq!(
            trim_through(&stats, MessageId::ZERO, Keep::For(HOUR), at(600)),
            None,
            "nothing is handled"
        );
        assert_eq!(trim_through(&stats, id(100), Keep::Forever, at(600)), None);
        assert_eq!(trim_through(&stats, id(100), Keep::For(Duration::MAX), at(600)), None);
        assert_eq!(trim_through(&stats, id(100), Keep::For(Duration::ZERO), at(600)), Some(id(100)));
    }

    #[test]
    fn dropped_messages_are_no_reason_to_trim() {
        let keep = Keep::For(HOUR);
        assert_eq!(
            trim_through(&partition(None, MessageId::ZERO), id(10), keep, at(600)),
            None,
            "it is empty"
        );
        let cut = partition(Some(id(0)), id(10));
        assert_eq!(trim_through(&cut, id(10), keep, at(600)), None, "all that is handled is gone");
        assert_eq!(trim_through(&cut, id(20), keep, at(72)), None, "it was not long ago");
        assert_eq!(trim_through(&cut, id(20), keep, at(75)), Some(id(15)));
    }

    proptest! {
        #[test]
        fn nothing_that_waits_or_is_too_young_ever_goes(
            first in 0..1_000_u64, trimmed in 0..1_000_u64, handled in 0..1_000_u64, keep in 0..1_000_u64,
            now in 0..1_000_u64,
        ) {
            let stats = partition(Some(id(first)), id(trimmed));
            let time = Duration::from_secs(60 * keep);
            if let Some(through) = trim_through(&stats, id(handled), Keep::For(time), at(now)) {
                prop_assert!(through <= id(handled) && through.0 <= at(now).minus(time));
                prop_assert!(through >= id(first), "it would drop nothing");
                prop_assert!(through > id(trimmed), "it would change nothing");
                let again = partition(Some(id(first)), through);
                prop_assert_eq!(trim_through(&again, id(handled), Keep::For(time), at(now)), None, "once is enough");
            }
        }
    }
}
