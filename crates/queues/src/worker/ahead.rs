//! How much of a partition is read before its turn comes.

/// Messages of a partition, at most.
const MESSAGES: usize = 256;
/// Their bytes, so that large messages do not fill the memory; one message is always read.
const BYTES: usize = 1 << 20;
/// The bytes of all partitions of a worker together: one that has thousands reads less of each.
const BYTES_ALL: usize = 256 << 20;

/// How much to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    pub messages: u32,
    pub bytes: u32,
}

/// Room for more of a partition that has so much waiting, one of so many; nothing while half of its share or more waits.
pub fn room(messages: usize, bytes: usize, partitions: usize) -> Option<Room> {
    let share = (BYTES_ALL / partitions.max(1)).clamp(1, BYTES);
    let low = messages < MESSAGES / 2 && (bytes < share / 2 || messages == 0);
    let left = |max: usize, used: usize| u32::try_from(max.saturating_sub(used).max(1)).unwrap_or(u32::MAX);
    low.then(|| Room { messages: left(MESSAGES, messages), bytes: left(share, bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_filled_when_half_of_it_is_gone_and_never_beyond_its_share() {
        assert_eq!(room(0, 0, 1), Some(Room { messages: 256, bytes: 1 << 20 }));
        assert_eq!(room(127, 1000, 1), Some(Room { messages: 129, bytes: (1 << 20) - 1000 }));
        assert_eq!(room(128, 0, 1), None);
        assert_eq!(room(1, 1 << 19, 1), None);
    }

    #[test]
    fn thousands_of_partitions_share_the_memory_and_each_has_a_message() {
        for partitions in [1, 255, 256, 257, 10_000, 1 << 40] {
            let Room { bytes, .. } = room(0, 0, partitions).unwrap();
            assert!(bytes >= 1);
            let all = bytes as usize * partitions;
            assert!(all <= BYTES_ALL || bytes == 1, "{partitions} partitions hold {all} bytes");
        }
    }
}
