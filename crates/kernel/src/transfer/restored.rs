//! Namespaces that come back from a backup of the whole server: their generations have to rise as after an import.

use menagerie_znodes::{Payload as _, kernel};

use crate::session::next_generation;

/// From 2001 to 2286, in ms. Another number under the name of a generation is somebody else's: ours are times.
const TIMES_MS: std::ops::Range<u64> = 1_000_000_000_000..10_000_000_000_000;

/// What a znode is to hold after the restore instead of what it held in the backup: if it is the generation of a namespace,
/// one that is above all that were given out since, by imports say, which the backup does not know of.
///
/// A backup is of the whole tree, and any path may be a namespace of ours, so it is told by its name and by what it holds.
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
