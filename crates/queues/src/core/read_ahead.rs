//! How much of a partition to read ahead.

use menagerie_znodes::queues::OPEN_MAX;

/// Most bytes read ahead by a worker, unless its options say otherwise: with thousands of partitions, it reads less of
/// each.
pub const WORKER_BYTES_MAX: usize = 256 << 20;

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

/// The next read of a partition with this much unfinished; `share` is its part of what its worker may read ahead. `None`
/// until half of that is used up.
pub fn read_budget(depth: Depth, messages: usize, bytes: usize, share: usize) -> Option<ReadBudget> {
    let (messages_max, bytes_max) = depth.limits();
    let share = share.clamp(1, bytes_max);
    let low = messages < messages_max / 2 && (bytes < share / 2 || messages == 0);
    let left = |max: usize, used: usize| u32::try_from(max.saturating_sub(used).max(1)).unwrap_or(u32::MAX);
    low.then(|| ReadBudget { messages: left(messages_max, messages), bytes: left(share, bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_refilled_when_half_empty_and_never_beyond_its_share() {
        assert_eq!(
            read_budget(Depth::InOrder, 0, 0, WORKER_BYTES_MAX),
            Some(ReadBudget { messages: 256, bytes: 1 << 20 })
        );
        assert_eq!(
            read_budget(Depth::InOrder, 127, 1000, WORKER_BYTES_MAX),
            Some(ReadBudget { messages: 129, bytes: (1 << 20) - 1000 })
        );
        assert_eq!(read_budget(Depth::InOrder, 128, 0, WORKER_BYTES_MAX), None);
        assert_eq!(read_budget(Depth::InOrder, 1, 1 << 19, WORKER_BYTES_MAX), None);
    }

    #[test]
    fn thousands_of_partitions_share_the_memory_and_each_has_a_message() {
        for partitions in [1, 255, 256, 257, 10_000, 1 << 40] {
            let ReadBudget { bytes, .. } =
                read_budget(Depth::InOrder, 0, 0, WORKER_BYTES_MAX / partitions).unwrap();
            assert!(bytes >= 1);
            let all = bytes as usize * partitions;
            assert!(all <= WORKER_BYTES_MAX || bytes == 1, "{partitions} partitions hold {all} bytes");
        }
    }
}
