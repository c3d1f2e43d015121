//! What of a partition was kept for long enough.
//!
//! Ids are times: nothing needs to be read to tell how old messages are. Never is a message dropped that is not handled,
//! whatever the clock says. What was handled is nobody's to begin again, so whoever drops it need not hold the partition any more:
//! an owner that was lost without knowing drops what its successor would drop, too.

use menagerie_journal::{MessageId, PartitionStats, Ticks};
use menagerie_znodes::queues::Keep;

/// This part of the time longer messages may stay, so that many go at once.
const LONGER: u32 = 16;

/// Up to where the messages of a partition go, if it is worth it. `handled`: all up to there is done, and recorded as such.
pub fn outlived(stats: &PartitionStats, handled: MessageId, keep: Keep, now: Ticks) -> Option<MessageId> {
    let Keep::For(keep) = keep else { return None };
    // Of a block of which the first messages are gone, a journal still tells the beginning.
    let oldest = stats.first?.max(stats.trimmed.next());
    let through = handled.min(MessageId(now.minus(keep)));
    let due = oldest.0 <= now.minus(keep.saturating_add(keep / LONGER));
    (due && oldest <= through).then_some(through)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// So many minutes after a moment.
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
    fn what_is_handled_goes_when_its_time_is_over_and_not_one_by_one() {
        let stats = partition(Some(id(0)), MessageId::ZERO);
        let go = |handled, now| outlived(&stats, id(handled), Keep::For(HOUR), at(now));
        assert_eq!(go(100, 59), None, "it is to be kept");
        assert_eq!(go(100, 63), None, "a little longer, for more to go along");
        assert_eq!(go(100, 64), Some(id(4)));
        assert_eq!(go(2, 64), Some(id(2)), "what waits stays");
        assert_eq!(go(2, 60 * 24 * 365), Some(id(2)), "also when the clock has jumped");
        assert_eq!(outlived(&stats, MessageId::ZERO, Keep::For(HOUR), at(600)), None, "nothing is handled");
        assert_eq!(outlived(&stats, id(100), Keep::Forever, at(600)), None);
        assert_eq!(outlived(&stats, id(100), Keep::For(Duration::MAX), at(600)), None);
        assert_eq!(outlived(&stats, id(100), Keep::For(Duration::ZERO), at(600)), Some(id(100)));
    }

    #[test]
    fn what_is_gone_already_is_no_reason() {
        let keep = Keep::For(HOUR);
        assert_eq!(outlived(&partition(None, MessageId::ZERO), id(10), keep, at(600)), None, "it is empty");
        let cut = partition(Some(id(0)), id(10));
        assert_eq!(outlived(&cut, id(10), keep, at(600)), None, "all that is handled is gone");
        assert_eq!(outlived(&cut, id(20), keep, at(72)), None, "it was not long ago");
        assert_eq!(outlived(&cut, id(20), keep, at(75)), Some(id(15)));
    }

    proptest! {
        #[test]
        fn nothing_that_waits_or_is_too_young_ever_goes(
            first in 0..1_000_u64, trimmed in 0..1_000_u64, handled in 0..1_000_u64, keep in 0..1_000_u64,
            now in 0..1_000_u64,
        ) {
            let stats = partition(Some(id(first)), id(trimmed));
            let time = Duration::from_secs(60 * keep);
            if let Some(through) = outlived(&stats, id(handled), Keep::For(time), at(now)) {
                prop_assert!(through <= id(handled) && through.0 <= at(now).minus(time));
                prop_assert!(through >= id(first), "it would drop nothing");
                prop_assert!(through > id(trimmed), "it would change nothing");
                let again = partition(Some(id(first)), through);
                prop_assert_eq!(outlived(&again, id(handled), Keep::For(time), at(now)), None, "once is enough");
            }
        }
    }
}
