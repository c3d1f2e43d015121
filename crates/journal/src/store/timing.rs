//! The log loop's clocks.

use tracing::{error, info, warn};

use super::log_loop::LogLoop;
use crate::core::clock::{Jump, TrustChange, TrustedTime};

impl LogLoop {
    /// Reads the clock, and logs when it jumps or loses trust.
    pub(super) fn observe_clock(&mut self) -> TrustedTime {
        let (now, steady) = (self.shared.config.clock.now(), self.started.elapsed());
        if let Some(jump) = self.jumps.observe(now, steady) {
            report(jump);
        }
        if let Some(turn) = self.trust.observe(now, steady) {
            report_turn(turn);
            // Other messages are due now.
            self.maturing.retry_skipped();
        }
        self.maturing.observe(now);
        self.trust.at(now, steady)
    }

    /// The time that dedup windows count with.
    pub(super) fn steady(&self) -> u64 {
        self.steady.after(self.started.elapsed())
    }

    /// The time for decisions that cannot be undone.
    pub(super) fn trusted_time(&self) -> TrustedTime {
        self.trust.at(self.shared.config.clock.now(), self.started.elapsed())
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

fn report_turn(turn: TrustChange) {
    match turn {
        TrustChange::Doubted(ahead) => error!(
            days = ahead.as_secs() / (24 * 3600),
            "the clock is far ahead of the last time that is known: unless it is set right, what is old or due by it goes or \
             becomes visible in ten minutes"
        ),
        TrustChange::Trusted => info!("the clock is trusted again"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::super::bench::Bench;
    use super::super::image::Image;
    use crate::core::record::{Change, Record};
    use crate::core::state::PartitionKey;
    use crate::id::{MessageId, Ticks};
    use crate::read::Message;
    use crate::topic::TopicConfig;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    /// Appends messages with a retention of a day, and one that is due in a day. Returns the time.
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
            // Messages that come now have their times from this clock.
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
    fn a_clock_that_is_set_makes_nobody_forget_a_dedup_id() {
        let step = Duration::from_secs(300);
        for (opened_again, checkpoint) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut bench = Bench::new(16 << 20);
            assert!(bench.append_once("a"));
            if checkpoint {
                bench.checkpoint();
            }
            for turn in 1..=2 {
                let now = Ticks(bench.clock.load(Ordering::SeqCst));
                bench.clock.store(now.plus(step).0, Ordering::SeqCst);
                if opened_again {
                    bench = bench.reopen();
                }
                // Others begin the next generation, and a tick drops the old one.
                assert!(bench.append_once(["b", "c"][turn - 1]));
                bench.tick();
                assert!(!bench.append_once("a"), "{opened_again} {checkpoint} {turn}");
                if checkpoint {
                    bench.checkpoint();
                }
            }
        }
    }

    #[test]
    fn dedup_ids_are_forgotten_when_the_journal_has_run_for_two_windows() {
        let minute = Duration::from_secs(60);
        for opened_again in [false, true] {
            let mut bench = Bench::new(16 << 20);
            assert!(bench.append_once("a"));
            // The window is two minutes: an id is remembered for at least that long, and at most twice as long.
            for _ in 0..2 {
                bench.run_for(minute);
                if opened_again {
                    bench = bench.close_and_open();
                }
            }
            assert!(!bench.append_once("a"), "{opened_again}");
            for _ in 0..2 {
                bench.run_for(minute + minute / 20);
                if opened_again {
                    bench = bench.close_and_open();
                    bench.tick();
                }
            }
            assert!(bench.append_once("a"), "{opened_again}");
        }
    }

    #[test]
    fn ids_of_a_version_that_knew_only_the_wall_clock_age_from_when_it_was_opened() {
        let mut bench = bench();
        let now = bench.clock.load(Ordering::SeqCst);
        let (id, meta, body) = (MessageId(Ticks(now)), "".into(), "x".into());
        let message = Message { id, meta, body, expires: None };
        let change = Change::Append { partition_key: PartitionKey::new(1, 1), message, dedup: "a".into() };
        bench.log_loop.shared.write().apply(Record { now, steady: None, changes: vec![change] }, &mut |_| {});
        let state = bench.log_loop.shared.read().clone();
        assert_eq!(state.steady, now);
        let image = Image { topics: Vec::new(), ..Image::capture(&mut state.clone(), 7, 99) };
        let mut bytes = image.encode();
        assert_eq!(Image::decode(bytes.clone().into()).unwrap().steady, 99);
        // An old snapshot ended before these bytes.
        bytes.truncate(bytes.len() - 8);
        let decoded = Image::decode(bytes.into()).unwrap();
        assert_eq!((decoded.steady, decoded.newest), (0, image.newest));
        assert!(!bench.append_once("a"));
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
        bench.log_loop.trust.observe(later, Duration::from_secs(3600));
        bench.tick();
        assert_eq!((bench.visible(), bench.waiting()), (1, 0), "the old ones are gone, and one was due");
    }
}
