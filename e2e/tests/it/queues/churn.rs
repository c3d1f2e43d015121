//! Fifty workers come and go at random, gracefully or not: at every moment a partition has at most one owner, its
//! messages are handled in order, and none is lost. If none is killed, each message is handled once.

use std::env;
use std::thread;
use std::time::{Duration, Instant};

use menagerie_testkit::{Process, eventually_within};
use rustix::process::Signal;

use super::{Fleet, assert_all, assert_once, assert_order, assert_owners, ready};
use crate::dice::{Dice, seed};
use crate::process::let_pass;

const PARTITIONS: u16 = 16;

/// Concurrently started workers.
const AT_ONCE: usize = 10;

/// Longest wait for everything once it is calm.
const CALM: Duration = Duration::from_secs(240);

/// Duration of the churn.
fn length() -> Duration {
    let seconds =
        env::var("MENAGERIE_CHURN_SECONDS").map_or(20, |text| text.parse().expect("it is a number"));
    Duration::from_secs(seconds)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manners {
    /// No worker is killed.
    Good,
    Bad,
}

fn churn(name: &str, many: usize, manners: Manners) {
    let fleet = match manners {
        Manners::Good => Fleet::with_queue(name, "mail", PARTITIONS),
        Manners::Bad => Fleet::hasty(name, "mail", PARTITIONS, "2s"),
    };
    let mut dice = Dice::new(seed());
    let start = || fleet.starting("mail", &["--settle", "200ms"], &["sh", "work.sh"]);
    // All of them are there at once, before the first leaves.
    let mut workers: Vec<Process> = Vec::new();
    while workers.len() < many {
        let some: Vec<Process> = (workers.len()..many).take(AT_ONCE).map(|_| start()).collect();
        some.iter().for_each(|worker| drop(ready(worker)));
        workers.extend(some);
    }
    let listed = || fleet.user.json(&["queue", "workers"]).as_array().map_or(0, Vec::len);
    eventually_within(CALM, "all are listed", || (listed() == many).then_some(()));
    let (began, user) = (Instant::now(), &fleet.user);
    let put = thread::scope(|scope| {
        let putting = scope.spawn(|| {
            let mut put = 0;
            while began.elapsed() < length() {
                super::put(user, "mail", put..put + 64);
                put += 64;
                let_pass(Duration::from_millis(500));
            }
            put
        });
        while began.elapsed() < length() {
            if workers.len() < many {
                workers.push(start());
            }
            let chosen = dice.below(workers.len() as u64) as usize;
            match (dice.below(8), manners) {
                // Perhaps for the second time: then it aborts running tasks.
                (0, Manners::Bad) => workers[chosen].signal(Signal::INT),
                (1, _) => {
                    let mut gone = workers.swap_remove(chosen);
                    gone.signal(Signal::INT);
                    gone.wait_for_end();
                }
                (2, Manners::Bad) => drop(workers.swap_remove(chosen)),
                (3, Manners::Bad) => {
                    workers[chosen].signal(Signal::STOP);
                    let_pass(Duration::from_millis(dice.below(3000)));
                    workers[chosen].signal(Signal::CONT);
                }
                _ => {}
            }
            workers.retain_mut(|worker| worker.try_wait().is_none());
            let_pass(Duration::from_millis(dice.below(150)));
        }
        putting.join().expect("it put all of them")
    });
    // Enough to finish it, and no more than the machine can run.
    while workers.len() > 4 {
        let mut gone = workers.pop().expect("there are more than four");
        gone.signal(Signal::INT);
        gone.wait_for_end();
    }
    workers.push(start());
    eventually_within(CALM, "all is handled", || (fleet.lag("mail") == 0).then_some(()));
    let handled = fleet.handled();
    println!("{put} messages, {} runs", handled.len());
    assert_all(&handled, 0..put);
    assert_order(&handled);
    assert_owners(&handled);
    assert_eq!(fleet.file("violations"), "");
    if manners == Manners::Good {
        assert_once(&handled);
    }
}

#[test]
fn fifty_workers_churn() {
    churn("churn", 50, Manners::Bad);
}

#[test]
fn workers_with_good_manners_repeat_nothing() {
    churn("manners", 12, Manners::Good);
}
