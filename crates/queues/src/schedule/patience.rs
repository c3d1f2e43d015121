//! When the elected process makes way for another candidate, because it cannot put what a queue's schedules ask for. Pure.

use std::time::Duration;

use menagerie_kernel::Moment;

/// A queue's loop may fail for this long before the next candidate gets its turn: short enough that three of them can try
/// before a time counts as missed.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// Longest patience. If no candidate can reach a journal, they take turns this slowly, and hardly disturb other queues.
pub const PATIENCE_MAX: Duration = Duration::from_secs(240);

/// How long a queue's loop may go on failing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    limit: Duration,
    /// When the first turn began that failed, if none has succeeded since.
    failing_since: Option<Moment>,
}

impl Patience {
    /// For a loop that begins. `limit` is [`PATIENCE`], or longer after this process has resigned.
    pub fn new(limit: Duration) -> Self {
        Self { limit, failing_since: None }
    }

    /// Records a turn that succeeded.
    pub fn on_success(&mut self) {
        *self = Self::new(PATIENCE);
    }

    /// Records a turn that failed, and returns whether the patience is exhausted.
    pub fn on_failure(&mut self, began: Moment, now: Moment) -> bool {
        let since = *self.failing_since.get_or_insert(began);
        now - since >= self.limit
    }

    /// The limit of the next leadership, if this one ended for want of patience.
    pub fn limit_after(self) -> Duration {
        (self.limit * 2).min(PATIENCE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: u64) -> Moment {
        Moment::PAST + Duration::from_secs(second)
    }

    #[test]
    fn patience_is_measured_from_the_first_failure_in_a_row() {
        let mut patience = Patience::new(PATIENCE);
        assert!(!patience.on_failure(second(100), second(101)));
        assert!(!patience.on_failure(second(102), second(114)));
        patience.on_success();
        assert!(!patience.on_failure(second(116), second(117)));
        assert!(!patience.on_failure(second(120), second(130)));
        assert!(patience.on_failure(second(130), second(131)));
    }

    #[test]
    fn one_long_turn_exhausts_it_too() {
        assert!(Patience::new(PATIENCE).on_failure(second(100), second(115)));
    }

    #[test]
    fn candidates_that_all_fail_take_turns_ever_more_slowly() {
        let mut limit = PATIENCE;
        let limits = std::iter::repeat_with(|| {
            let now = limit;
            limit = Patience::new(limit).limit_after();
            now.as_secs()
        });
        assert_eq!(limits.take(6).collect::<Vec<_>>(), [15, 30, 60, 120, 240, 240]);
        let mut recovered = Patience::new(PATIENCE_MAX);
        recovered.on_success();
        assert!(recovered.on_failure(second(0), second(15)), "after a success it is as short as ever");
    }
}
