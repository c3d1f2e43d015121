//! kill -9 of peers, the leading coordinator and the journal while words are counted, and peers that freeze: the counts
//! are exact. `cargo xtask soak` counts more words, more often.

use std::env;
use std::time::{Duration, Instant};

use menagerie_testkit::{Daemon, eventually};

use super::{counted, words};
use crate::cli::User;

/// Peers are killed this often, at this pace.
const KILLS: usize = 8;
const PACE: Duration = Duration::from_millis(700);

/// A number from the environment, for longer runs.
fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).map_or(default, |text| text.parse().expect("it is a number"))
}

fn word_count() -> u64 {
    number("MENAGERIE_FLOW_WORDS", 300_000)
}

fn peers(user: &User) -> Daemon {
    user.start(&["peer", "--count", "3"])
}

/// Waits until peers work on a job.
fn at_work(user: &User, id: &str) {
    eventually("peers work on it", || {
        let job = user.json(&["flow", "show", id]);
        job["tasks"].as_array()?.iter().any(|task| task["peers"] != serde_json::json!([])).then_some(())
    });
}

/// Otherwise a kill would prove nothing.
#[track_caller]
fn assert_running(user: &User, id: &str) {
    assert_eq!(user.json(&["flow", "show", id])["job"]["state"], "running");
}

/// How many peers are alive.
fn pulses(user: &User) -> Option<usize> {
    let found = user.json(&["zk", "ls", "/menagerie/flows/default/pulse"]);
    Some(found["children"].as_array()?.len())
}

#[test]
fn words_are_counted_exactly_though_peers_and_the_leader_are_killed() {
    for round in 0..number("MENAGERIE_FLOW_ROUNDS", 1) {
        let user = User::new(&format!("flow-kills-{round}")).with("MENAGERIE_SESSION_TIMEOUT", "2s");
        let expected = words(&user, word_count());
        let _journal = user.serve(&["journal"]);
        let mut leader = user.start(&["coordinator"]);
        let _stand_by = user.start(&["coordinator"]);
        let mut fleet = [peers(&user), peers(&user)];
        let begun = Instant::now();
        let mut submit = user.spawn(&["flow", "submit", "job.toml", "--wait"]);
        let id = submit.wait_for_line("its id", |line| Some(line.to_owned()));
        for kill in 0..KILLS {
            let due = begun + PACE * kill as u32;
            eventually("it is time for the next kill", || (Instant::now() >= due).then_some(()));
            fleet[kill % 2].restart();
            if kill == 1 {
                assert_running(&user, &id);
                leader.kill();
            }
        }
        let end = submit.wait_for_end();
        assert_eq!(end.status.code(), Some(0), "{}", end.stderr);
        assert_eq!(counted(&user), expected);
        println!("round {round}: exact after {:.1} s", begun.elapsed().as_secs_f64());
    }
}

#[test]
fn words_are_counted_exactly_though_the_journal_is_killed() {
    let user = User::new("flow-journal-kills");
    let expected = words(&user, word_count());
    let mut journal = user.serve(&["journal"]);
    let _coordinator = user.start(&["coordinator"]);
    let _peers = peers(&user);
    let mut submit = user.spawn(&["flow", "submit", "job.toml", "--wait"]);
    let id = submit.wait_for_line("its id", |line| Some(line.to_owned()));
    at_work(&user, &id);
    assert_running(&user, &id);
    for _ in 0..4 {
        journal.restart();
    }
    let end = submit.wait_for_end();
    assert_eq!(end.status.code(), Some(0), "{}", end.stderr);
    assert_eq!(counted(&user), expected);
}

#[test]
fn a_frozen_peer_that_wakes_adds_nothing_to_what_others_have_done() {
    let user = User::new("flow-frozen").with("MENAGERIE_SESSION_TIMEOUT", "2s");
    let expected = words(&user, word_count());
    let _journal = user.serve(&["journal"]);
    let _coordinator = user.start(&["coordinator"]);
    let frozen = peers(&user);
    let mut submit = user.spawn(&["flow", "submit", "job.toml", "--wait"]);
    let id = submit.wait_for_line("its id", |line| Some(line.to_owned()));
    at_work(&user, &id);
    frozen.pause();
    assert_running(&user, &id);
    eventually("its session has ended", || (pulses(&user)? == 0).then_some(()));
    let _others = peers(&user);
    eventually("others work on it", || (pulses(&user)? == 3).then_some(()));
    frozen.resume();
    let end = submit.wait_for_end();
    assert_eq!(end.status.code(), Some(0), "{}", end.stderr);
    eventually("it has noticed, and begun anew", || (pulses(&user)? == 6).then_some(()));
    assert_eq!(counted(&user), expected);
}
