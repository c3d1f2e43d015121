//! Back-off for refused transactions. A refusal mostly means that another contender was faster, and the next attempt
//! succeeds. A change that is refused again and again is refused for another reason, which an operator must learn.

use std::time::Duration;

/// Attempts without a pause: whoever loses a race should be in the next one.
const AT_ONCE: u32 = 4;

/// First pause; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(1);

const PAUSE_MAX: Duration = Duration::from_millis(256);

/// Attempts in total: some 5 s of pauses.
const ATTEMPTS_MAX: u32 = 32;

/// Refused attempts at one change so far.
#[derive(Debug, Default)]
pub struct Attempts(u32);

impl Attempts {
    /// Counts a refusal and returns the pause before the next attempt; `None`: give up.
    pub fn refused(&mut self) -> Option<Duration> {
        self.0 += 1;
        if self.0 >= ATTEMPTS_MAX {
            return None;
        }
        Some(match self.0.checked_sub(AT_ONCE) {
            None | Some(0) => Duration::ZERO,
            Some(paused) => PAUSE.saturating_mul(1 << (paused - 1).min(16)).min(PAUSE_MAX),
        })
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn the_first_attempts_follow_at_once_and_all_of_them_end_in_time() {
        let mut attempts = Attempts::default();
        let pauses: Vec<Duration> = std::iter::from_fn(|| attempts.refused()).collect();
        assert_eq!(pauses[..4], [Duration::ZERO; 4]);
        assert_eq!(pauses[4..7], [1, 2, 4].map(Duration::from_millis));
        assert!(pauses.is_sorted() && pauses.len() == 31);
        let total: Duration = pauses.iter().sum();
        assert!((4..6).contains(&total.as_secs()), "{total:?}");
        assert_eq!(attempts.refused(), None, "and it stays enough");
    }
}
