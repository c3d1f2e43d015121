//! Back-off between attempts at a request whose reply was lost. One or two losses mean a lost connection; if they go
//! on, the request itself may be the reason: a server closes the connection on a request that is too long, say.

use std::time::Duration;

/// Lost replies after which we try again at once.
const AT_ONCE: u32 = 3;

/// The first pause; each later one is twice as long.
const PAUSE: Duration = Duration::from_millis(50);

const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The pause after this many lost replies in a row; `None`: try again at once.
pub(crate) fn pause(lost: u32) -> Option<Duration> {
    let beyond = lost.checked_sub(AT_ONCE + 1)?;
    Some(PAUSE.saturating_mul(1 << beyond.min(16)).min(PAUSE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_begin_late_and_grow_to_a_limit() {
        let pauses: Vec<_> = (0..12).map(pause).collect();
        assert_eq!(pauses[..4], [None; 4]);
        assert_eq!(pauses[4..7], [50, 100, 200].map(|ms| Some(Duration::from_millis(ms))));
        assert_eq!(pauses[11], Some(PAUSE_MAX));
        assert_eq!(pause(u32::MAX), Some(PAUSE_MAX));
    }
}
