//! How much of a partition to read ahead.

/// Most messages read ahead per partition.
const MESSAGES_MAX: usize = 256;
/// Most bytes read ahead per partition; one message is always read, whatever its size.
const PARTITION_BYTES_MAX: usize = 1 << 20;
/// Most bytes read ahead by a worker: with thousands of partitions, it reads less of each.
const WORKER_BYTES_MAX: usize = 256 << 20;

/// Limits of one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadBudget {
    pub messages: u32,
    pub bytes: u32,
}

/// The next read of a partition with this much in its cache, one of `partitions`. `None` until half of its share is
/// used up.
pub fn read_budget(messages: usize, bytes: usize, partitions: usize) -> Option<ReadBudget> {
    let share = (WORKER_BYTES_MAX / partitions.max(1)).clamp(1, PARTITION_BYTES_MAX);
    let low = messages < MESSAGES_MAX / 2 && (bytes < share / 2 || messages == 0);
    let left = |max: usize, used: usize| u32::try_from(max.saturating_sub(used).max(1)).unwrap_or(u32::MAX);
    low.then(|| ReadBudget { messages: left(MESSAGES_MAX, messages), bytes: left(share, bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_refilled_when_half_empty_and_never_beyond_its_share() {
        assert_eq!(read_budget(0, 0, 1), Some(ReadBudget { messages: 256, bytes: 1 << 20 }));
        assert_eq!(read_budget(127, 1000, 1), Some(ReadBudget { messages: 129, bytes: (1 << 20) - 1000 }));
        assert_eq!(read_budget(128, 0, 1), None);
        assert_eq!(read_budget(1, 1 << 19, 1), None);
    }

    #[test]
    fn thousands_of_partitions_share_the_memory_and_each_has_a_message() {
        for partitions in [1, 255, 256, 257, 10_000, 1 << 40] {
            let ReadBudget { bytes, .. } = read_budget(0, 0, partitions).unwrap();
            assert!(bytes >= 1);
            let all = bytes as usize * partitions;
            assert!(all <= WORKER_BYTES_MAX || bytes == 1, "{partitions} partitions hold {all} bytes");
        }
    }
}
