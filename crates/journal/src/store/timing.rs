//! What time it is, within the log loop.

use tracing::{error, info, warn};

use super::log_loop::LogLoop;
use crate::core::clock::{Hour, Jump, Turn};

impl LogLoop {
    /// Looks at the clock, and tells when it does what clocks should not do.
    pub(super) fn look_at_clock(&mut self) -> Hour {
        let (now, steady) = (self.shared.config.clock.now(), self.started.elapsed());
        if let Some(jump) = self.watch.observe(now, steady) {
            report(jump);
        }
        if let Some(turn) = self.belief.observe(now, steady) {
            report_turn(turn);
            // Something else is due now.
            self.maturing.look_again();
        }
        self.maturing.observe(now);
        self.belief.hour(now, steady)
    }

    /// What time it is for what cannot be undone.
    pub(super) fn hour(&self) -> Hour {
        self.belief.hour(self.shared.config.clock.now(), self.started.elapsed())
    }
}

fn report(jump: Jump) {
    match jump {
        Jump::Ahead(by) => {
            warn!(
                seconds = by.as_secs(),
                "the clock has jumped ahead: ids follow it, and stay there if it was wrong"
            );
        }
        Jump::Back(by) => {
            warn!(seconds = by.as_secs(), "the clock has jumped back: ids go on rising from the newest one");
        }
    }
}

fn report_turn(turn: Turn) {
    match turn {
        Turn::Doubted(ahead) => error!(
            days = ahead.as_secs() / (24 * 3600),
            "the clock is far ahead of the last time that is known: unless it is set right, what is old or due by it goes or \
             becomes visible in ten minutes"
        ),
        Turn::Believed => info!("the clock is believed again"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::super::bench::Bench;
    use crate::id::Ticks;
    use crate::topic::TopicConfig;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    /// Messages to be kept for a day, and one that is due in a day. Returns the time.
    fn filled(bench: &mut Bench) -> Ticks {
        let now = Ticks(bench.clock.load(Ordering::SeqCst));
        bench.append(3, 10, None);
        bench.append(1, 10, Some(now.plus(DAY).0));
        bench.checkpoint();
        now
    }

    fn bench() -> Bench {
        Bench::with(16 << 20, TopicConfig { retention: Some(DAY), ..TopicConfig::default() })
    }

    #[test]
    fn a_clock_that_is_wrong_for_a_while_lets_nothing_go_and_nothing_become_visible() {
        for opened_meanwhile in [true, false] {
            let mut bench = bench();
            let now = filled(&mut bench);
            let wrong = now.plus(DAY * 3650);
            bench.clock.store(wrong.0, Ordering::SeqCst);
            if opened_meanwhile {
                bench = bench.reopen();
            }
            bench.tick();
            assert_eq!((bench.visible(), bench.waiting()), (3, 1));
            assert!(bench.log_loop.shared.metrics.clock_doubted_seconds.get() > 3600 * 24 * 3600);
            assert!(!bench.log_loop.until_due().is_zero(), "it keeps nobody busy");
            // Whoever is here now has his times from this clock.
            bench.append(1, 10, Some(wrong.plus(Duration::from_secs(5)).0));
            bench.clock.store(wrong.plus(Duration::from_secs(6)).0, Ordering::SeqCst);
            bench.append(1, 10, None);
            assert_eq!((bench.visible(), bench.waiting()), (5, 1));
            bench.clock.store(now.plus(Duration::from_secs(60)).0, Ordering::SeqCst);
            bench.tick();
            assert_eq!((bench.visible(), bench.waiting()), (5, 1));
            assert_eq!(bench.log_loop.shared.metrics.clock_doubted_seconds.get(), 0);
        }
    }

    #[test]
    fn a_clock_that_stays_far_ahead_is_right() {
        let mut bench = bench();
        let now = filled(&mut bench);
        let later = now.plus(DAY * 400);
        bench.clock.store(later.0, Ordering::SeqCst);
        let mut bench = bench.reopen();
        bench.tick();
        assert_eq!((bench.visible(), bench.waiting()), (3, 1));
        bench.log_loop.belief.observe(later, Duration::from_secs(3600));
        bench.tick();
        assert_eq!((bench.visible(), bench.waiting()), (1, 0), "the old ones are gone, and one was due");
    }
}
