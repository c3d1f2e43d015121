//! However many messages fail, what a worker keeps and stores of a partition is bounded.

use std::num::NonZeroU32;
use std::time::Duration;

use menagerie_znodes::queues::{OPEN_MAX, Order, Retry};

use super::super::message;
use super::script::{Script, fresh};
use crate::core::machine::Noted;

/// A partition whose messages all have keys of their own, and a worker with its journal.
struct Failing {
    script: Script,
    /// Number of the next message.
    next: u64,
    last: u64,
    /// Most unfinished messages that a record has named.
    most_open: usize,
    reads: usize,
}

impl Failing {
    fn new(order: Order, retry: Retry, last: u64) -> Self {
        let script = Script::new(order, Some(retry), |options| {
            options.concurrency = 64;
            options.failure.attempts = NonZeroU32::new(2);
            options.failure.backoff = Some(Duration::from_secs(60));
        });
        Self { script: script.owning(fresh()), next: 1, last, most_open: 0, reads: 1 }
    }

    /// Fails whatever runs, stores notes and records, and reads, until nothing happens without time.
    fn settle(&mut self, fails: impl Fn(u64) -> bool) {
        let mut effects = Vec::new();
        loop {
            if self.reads > 0 && self.next <= self.last {
                self.reads -= 1;
                let read = self.next..=self.last.min(self.next + 99);
                self.next = read.end() + 1;
                let messages = read.map(|number| message(number, Some(&number.to_string()), 0));
                effects.extend(self.script.read(messages));
            }
            for number in self.script.running().concat() {
                effects.extend(match fails(number) {
                    true => self.script.fail(number),
                    false => self.script.done(number),
                });
            }
            if effects.is_empty() {
                return;
            }
            for effect in std::mem::take(&mut effects) {
                let mut words = effect.split_whitespace();
                let (what, number) = (words.next().unwrap(), words.next().unwrap());
                match what {
                    "note" => effects.extend(self.script.noted(number.parse().unwrap(), Noted::Stored)),
                    "record" => {
                        let open = effect.split_once(" but ").map_or(0, |(_, open)| open.split(' ').count());
                        self.most_open = self.most_open.max(open);
                        effects.extend(self.script.confirmed());
                    }
                    "read" => self.reads += 1,
                    _ => {}
                }
            }
        }
    }
}

#[test]
fn a_full_window_stops_reading_and_goes_on_when_its_messages_are_given_up() {
    for order in [Order::Partition, Order::Key, Order::None] {
        let mut failing = Failing::new(order, Retry::Later, 10_000);
        failing.settle(|_| true);
        let full = failing.next - 1;
        assert!((OPEN_MAX as u64 / 2..=OPEN_MAX as u64).contains(&full), "{order:?}: {full} were read");
        assert_eq!(failing.script.pass(Duration::from_secs(1)), Vec::<String>::new(), "{order:?}");
        failing.script.at += Duration::from_secs(60);
        let woken = failing.script.pass(Duration::ZERO);
        assert!(!woken.is_empty());
        failing.settle(|_| true);
        assert!(failing.next - 1 > full, "{order:?}: nothing more was read");
    }
}

#[test]
fn ten_thousand_keys_that_all_fail_stay_within_the_bound_and_are_all_given_up() {
    for retry in [Retry::Later, Retry::Block] {
        let mut failing = Failing::new(Order::Key, retry, 10_000);
        let given_up = |failing: &Failing| {
            let view = failing.script.machine.view(failing.script.now().instant);
            assert_eq!(view.stats.done, 0);
            view.stats.given_up
        };
        while given_up(&failing) < 10_000 {
            let before = (given_up(&failing), failing.next);
            failing.settle(|_| true);
            assert!(failing.most_open <= OPEN_MAX, "{retry:?}: {} are named", failing.most_open);
            failing.script.pass(Duration::from_secs(60));
            failing.settle(|_| true);
            assert_ne!(before, (given_up(&failing), failing.next), "{retry:?}: it is stuck");
        }
    }
}

#[test]
fn keys_that_fail_keep_others_from_nothing() {
    let mut failing = Failing::new(Order::Key, Retry::Later, 2_000);
    for _ in 0..20 {
        failing.settle(|number| number % 7 != 0);
        failing.script.pass(Duration::from_secs(60));
    }
    let stats = failing.script.machine.view(failing.script.now().instant).stats;
    assert_eq!((stats.done, stats.given_up), (2_000 / 7, 2_000 - 2_000 / 7));
}
