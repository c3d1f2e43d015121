//! How much of a partition to read ahead.

use menagerie_znodes::queues::OPEN_MAX;

/// Most bytes read ahead by a worker: with thousands of partitions, it reads less of each.
const WORKER_BYTES_MAX: usize = 256 << 20;

/// How far to read ahead of what is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The next messages.
    InOrder,
    /// More of them: some may have to wait while those behind them go on.
    SideBySide,
}

impl Depth {
    /// Most unfinished messages of a partition, and most bytes of them; one message is always read, whatever its size.
    fn limits(self) -> (usize, usize) {
        match self {
            Self::InOrder => (256, 1 << 20),
            Self::SideBySide => (OPEN_MAX, 8 << 20),
        }
    }
}

/// Limits of one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadBudget {
    /// Most messages.
    pub messages: u32,
    /// Most bytes.
    pub bytes: u32,
}

/// The next read of a partition with this much unfinished, one of `partitions`. `None` until half of its share is used
/// up.
pub fn read_budget(depth: Depth, messages: usize, bytes: usize, partitions: usize) -> Option<ReadBudget> {
    let (messages_max, bytes_max) = depth.limits();
    let share = (WORKER_BYTES_MAX / partitions.max(1)).clamp(1, bytes_max);
    let low = messages < messages_max / 2 && (bytes < share / 2 || messages == 0);
    let left = |max: usize, used: usize| u32::try_from(max.saturating_sub(used).max(1)).unwrap_or(u32::MAX);
    low.then(|| ReadBudget { messages: left(messages_max, messages), bytes: left(share, bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_refilled_when_half_empty_and_never_beyond_its_share() {
        assert_eq!(read_budget(Depth::InOrder, 0, 0, 1), Some(ReadBudget { messages: 256, bytes: 1 << 20 }));
        assert_eq!(
            read_budget(Depth::InOrder, 127, 1000, 1),
            Some(ReadBudget { messages: 129, bytes: (1 << 20) - 1000 })
        );
        assert_eq!(read_budget(Depth::InOrder, 128, 0, 1), None);
        assert_eq!(read_budget(Depth::InOrder, 1, 1 << 19, 1), None);
    }

    #[test]
    fn thousands_of_partitions_share_the_memory_and_each_has_a_message() {
        for partitions in [1, 255, 256, 257, 10_000, 1 << 40] {
            let ReadBudget { bytes, .. } = read_budget(Depth::InOrder, 0, 0, partitions).unwrap();
            assert!(bytes >= 1);
            let all = bytes as usize * partitions;
            assert!(all <= WORKER_BYTES_MAX || bytes == 1, "{partitions} partitions hold {all} bytes");
        }
    }
}
