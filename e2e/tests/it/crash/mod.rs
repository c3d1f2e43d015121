//! kill -9 at any moment under load: every acknowledged write survives the restart, zxids and sequence numbers never
//! go back, and sessions resume with their ephemeral znodes.

mod model;
mod worker;

use std::collections::BTreeSet;
use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use menagerie_testkit::{Keeper, RawClient, Server, eventually};

use self::worker::{Shared, TICKETS, Tickets, Worker};
use crate::ask::{children, create, done};
use crate::dice::{Dice, seed};

const WORKERS: u64 = 4;

/// Largest number of replies between two kills: enough that groups form and segments fill, few enough that kills come
/// often.
const REPLIES_MAX: u64 = 800;

/// A start takes about this long: an earlier kill hits the recovery.
const START_MS: u64 = 40;

#[test]
fn nothing_acknowledged_is_lost_to_kill_9_under_load() {
    let kills = env::var("MENAGERIE_KILLS").map_or(50, |n| n.parse().expect("MENAGERIE_KILLS is a number"));
    let seed = seed();
    let mut server = Keeper::new().args(["--log-level", "warn"]).start();
    done(&mut RawClient::open(server.address()), &create(TICKETS, b""));
    let shared = Shared::new(server.address());
    let tickets: Vec<Tickets> = thread::scope(|scope| {
        let _stop = StopOnDrop(&shared.stop);
        let workers: Vec<_> = (0..WORKERS)
            .map(|number| {
                let worker = Worker::new(&shared, number, seed);
                scope.spawn(|| worker.run())
            })
            .collect();
        let mut dice = Dice::new(seed);
        for _ in 0..kills {
            await_replies(&shared, &workers, dice.below(REPLIES_MAX));
            server.kill();
            if dice.below(4) == 0 {
                server.restart_briefly(Duration::from_millis(dice.below(START_MS)));
            }
            server.restart();
        }
        await_replies(&shared, &workers, 1);
        shared.stop.store(true, Ordering::SeqCst);
        workers.into_iter().map(|worker| worker.join().expect("the worker found nothing wrong")).collect()
    });
    check_tickets(&mut server, &shared, &tickets);
}

/// Waits for this many more replies; a failed worker ends the wait.
fn await_replies(shared: &Shared, workers: &[ScopedJoinHandle<'_, Tickets>], more: u64) {
    let target = shared.answered.load(Ordering::SeqCst) + more;
    let failed = eventually("replies to the workers", || {
        let failed = workers.iter().any(ScopedJoinHandle::is_finished);
        (failed || shared.answered.load(Ordering::SeqCst) >= target).then_some(failed)
    });
    assert!(!failed, "a worker has failed; its panic is above");
}

fn check_tickets(server: &mut Server, shared: &Shared, tickets: &[Tickets]) {
    server.kill();
    server.restart();
    let mut client = RawClient::open(server.address());
    assert!(client.ping() > shared.seen_zxid(), "a new session has a transaction behind all others");
    let found: BTreeSet<String> = children(&mut client, TICKETS).into_iter().collect();
    for Tickets { kept, returned } in tickets {
        assert!(!kept.is_empty() && !returned.is_empty(), "the workers drew and returned tickets");
        assert_eq!(kept.difference(&found).next(), None, "a ticket was given out and is gone");
        assert_eq!(returned.intersection(&found).next(), None, "a ticket was returned and is back");
    }
}

/// Stops the workers when a check fails, so that the failure is reported at once.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
