//! Which partition a message goes to.

use std::num::NonZeroU16;

/// The partition of a key, counted from 1: CRC-32C modulo the number of partitions. One key's messages share a
/// partition, so they are handled in order. Adding partitions moves keys, and with them their later messages.
pub fn of_key(key: &[u8], partitions: NonZeroU16) -> u16 {
    let partition = crc32c::crc32c(key) % u32::from(partitions.get());
    u16::try_from(partition).expect("it is less than a number of 16 bits") + 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_follow_the_published_checksum() {
        // 0xe3069283 is the check value of CRC-32C.
        assert_eq!(of_key(b"123456789", NonZeroU16::new(200).unwrap()), (0xe306_9283_u32 % 200) as u16 + 1);
        assert_eq!(of_key(b"", NonZeroU16::new(7).unwrap()), 1);
    }

    proptest! {
        #[test]
        fn every_key_has_a_partition(key: Vec<u8>, partitions in 1_u16..=200) {
            let partitions = NonZeroU16::new(partitions).unwrap();
            prop_assert!((1..=partitions.get()).contains(&of_key(&key, partitions)));
        }
    }
}
