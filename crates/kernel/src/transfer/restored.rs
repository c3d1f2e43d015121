//! Namespaces restored from a backup of the whole server: their generations must rise as after an import.

use menagerie_znodes::{Payload as _, kernel};

use crate::session::next_generation;

/// From 2001 to 2286, in ms. Our generations are times; any other number under that name is somebody else's.
const TIMES_MS: std::ops::Range<u64> = 1_000_000_000_000..10_000_000_000_000;

/// New data for a znode of the backup: if it is the generation of a namespace, one that is higher than any issued since
/// the backup, by an import, say.
///
/// A backup holds the whole tree, and any path may be a namespace of ours, so generations are recognised by name and
/// content.
pub fn revise(path: &str, data: &[u8], now_ms: u64) -> Option<Vec<u8>> {
    let old = path.ends_with(kernel::generation().path()).then(|| u64::decode(data).ok())??;
    TIMES_MS.contains(&old).then(|| next_generation(old, now_ms).encode())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &[u8] = b"1790000000000";

    #[test]
    fn generations_rise_to_the_time_and_above_the_old_one() {
        for path in ["/generation", "/menagerie/generation", "/some/where/generation"] {
            assert_eq!(revise(path, OLD, 1_790_000_000_123), Some(b"1790000000123".to_vec()), "{path}");
            assert_eq!(revise(path, OLD, 0), Some(b"1790000000001".to_vec()), "{path}");
        }
    }

    #[test]
    fn nothing_else_is_touched() {
        for path in ["/", "/menagerie", "/menagerie/regeneration", "/generation/x", "/menagerie/ltime"] {
            assert_eq!(revise(path, OLD, u64::MAX), None, "{path}");
        }
        for data in [&b""[..], b"7", b"the first", b"{}", b"-1790000000000", b"18446744073709551615"] {
            assert_eq!(revise("/menagerie/generation", data, u64::MAX), None, "{data:?}");
        }
    }
}
