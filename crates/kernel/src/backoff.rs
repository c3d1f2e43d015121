//! Pauses between attempts at a request whose reply was lost. Once or twice, a connection was lost; again and again, the request
//! itself may be the reason: a server closes the connection on what is too long for it, say.

use std::time::Duration;

/// Replies that may be lost before anybody pauses.
const AT_ONCE: u32 = 3;

/// The first pause; each is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(50);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The pause after so many lost replies; `None` as long as it is nothing to speak of.
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
