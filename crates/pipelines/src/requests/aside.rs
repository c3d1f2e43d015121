//! Requests that a consumer leaves alone for a while (pure).

use std::collections::HashMap;
use std::time::Duration;

use menagerie_znodes::pipelines::Id;
use tokio::time::Instant;

/// A request that could not be taken, or whose end the caches do not show yet, is left alone this long.
const PAUSE: Duration = Duration::from_secs(2);
/// The longest pause of a request that fails again and again.
const PAUSE_MAX: Duration = Duration::from_secs(5 * 60);

/// Requests to leave alone, and until when. Remembers how often each has failed, as long as it exists.
#[derive(Debug, Default)]
pub(super) struct Aside(HashMap<Id, Rest>);

#[derive(Debug, Default)]
struct Rest {
    /// `None` while it is in flight.
    until: Option<Instant>,
    /// Failures in a row.
    failures: u32,
}

impl Aside {
    /// Notes that a request is in flight.
    pub(super) fn begin(&mut self, id: Id) {
        self.0.entry(id).or_default().until = None;
    }

    /// Notes that a request is in flight no more. Each failure in a row doubles its pause, which is returned.
    pub(super) fn end(&mut self, id: Id, has_failed: bool, now: Instant) -> Duration {
        let rest = self.0.entry(id).or_default();
        rest.failures = if has_failed { rest.failures + 1 } else { 0 };
        let doublings = rest.failures.saturating_sub(1).min(30);
        let pause = PAUSE.saturating_mul(1 << doublings).min(PAUSE_MAX);
        rest.until = Some(now + pause);
        pause
    }

    /// Whether a request may be taken.
    pub(super) fn is_free(&self, id: &Id, now: Instant) -> bool {
        self.0.get(id).is_none_or(|rest| rest.until.is_some_and(|until| until <= now))
    }

    /// When the next pause is over.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        self.0.values().filter_map(|rest| rest.until).filter(|until| *until > now).min()
    }

    /// Forgets requests whose pause is over, unless their failures may go on.
    pub(super) fn tidy(&mut self, now: Instant, exists: impl Fn(&Id) -> bool) {
        self.0
            .retain(|id, rest| rest.until.is_none_or(|until| until > now) || rest.failures > 0 && exists(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_failures_in_a_row() {
        let (mut aside, now, id) = (Aside::default(), Instant::now(), Id::new("r").unwrap());
        let mut fail = |has_failed| {
            aside.begin(id.clone());
            assert!(!aside.is_free(&id, now + PAUSE_MAX), "it is in flight");
            let pause = aside.end(id.clone(), has_failed, now);
            assert!(!aside.is_free(&id, now) && aside.is_free(&id, now + pause));
            assert_eq!((aside.next(now), aside.next(now + pause)), (Some(now + pause), None));
            aside.tidy(now + pause, |_| true);
            pause.as_secs()
        };
        assert_eq!([true, true, true].map(&mut fail), [2, 4, 8]);
        assert_eq!([false, true].map(&mut fail), [2, 2]);
        assert_eq!((0..40).map(|_| fail(true)).last(), Some(300));
        aside.tidy(now + PAUSE_MAX, |_| false);
        assert!(aside.0.is_empty(), "it does not exist any more");
    }
}
