//! kill -9 of peers, the leading coordinator and the journal while words are counted: the counts are exact.

use std::time::{Duration, Instant};

use menagerie_testkit::Daemon;

use super::{counted, words};
use crate::cli::User;

const WORDS: u64 = 300_000;
/// Peers are killed this often, at this pace.
const KILLS: usize = 8;
const PACE: Duration = Duration::from_millis(700);

fn peers(user: &User) -> Daemon {
    user.start(&["peer", "--count", "3"])
}

#[test]
fn words_are_counted_exactly_though_peers_and_the_leader_are_killed() {
    let user = User::new("flow-kills").with("MENAGERIE_SESSION_TIMEOUT", "2s");
    let expected = words(&user, WORDS);
    let _journal = user.serve(&["journal"]);
    let mut leader = user.start(&["coordinator"]);
    let _stand_by = user.start(&["coordinator"]);
    let mut fleet = [peers(&user), peers(&user)];
    let mut submit = user.spawn(&["flow", "submit", "job.toml", "--wait"]);
    let begun = Instant::now();
    for kill in 0..KILLS {
        let due = begun + PACE * kill as u32;
        menagerie_testkit::eventually("it is time for the next kill", || {
            (Instant::now() >= due).then_some(())
        });
        fleet[kill % 2].restart();
        if kill == KILLS / 2 {
            leader.kill();
        }
    }
    let end = submit.wait_for_end();
    assert_eq!(end.status.code(), Some(0), "{}", end.stderr);
    assert_eq!(counted(&user), expected);
}

#[test]
fn words_are_counted_exactly_though_the_journal_is_killed() {
    let user = User::new("flow-journal-kills");
    let expected = words(&user, WORDS);
    let mut journal = user.serve(&["journal"]);
    let _coordinator = user.start(&["coordinator"]);
    let _peers = peers(&user);
    let mut submit = user.spawn(&["flow", "submit", "job.toml", "--wait"]);
    for _ in 0..4 {
        journal.restart();
    }
    let end = submit.wait_for_end();
    assert_eq!(end.status.code(), Some(0), "{}", end.stderr);
    assert_eq!(counted(&user), expected);
}
