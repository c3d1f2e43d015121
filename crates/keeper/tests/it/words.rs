//! Four-letter words.

use std::process::Command;

use menagerie_testkit::{Keeper, RawClient, binary, four_letter_word};

use crate::verbs::Verbs;

/// Words that show nothing of what clients do, and change nothing.
const HARMLESS: [&str; 7] = ["srvr", "ruok", "isro", "mntr", "stat", "conf", "envi"];

/// Words that show paths and sessions whatever the access lists say, or change something.
const OTHERS: [&str; 7] = ["cons", "crst", "dump", "srst", "wchc", "wchp", "wchs"];

/// What clients of Apache ZooKeeper look for.
fn refusal(word: &str) -> String {
    format!("{word} is not executed because it is not in the whitelist.\n")
}

#[test]
fn words_that_bypass_access_lists_are_refused_unless_the_operator_allows_them() {
    for (words, allowed) in [
        (&[][..], &[][..]),
        (&["--words", "dump,cons"], &["dump", "cons"]),
        (&["--words", "dump", "--words", " wchs"], &["dump", "wchs"]),
        (&["--words", "*"], &OTHERS),
    ] {
        let keeper = Keeper::new().args(words.iter().copied()).start();
        let mut client = RawClient::open(keeper.address());
        client.create_ephemeral("/secret");
        client.watch_data("/secret");
        for word in HARMLESS {
            let answer = four_letter_word(keeper.address(), word);
            assert!(!answer.contains("not executed") && !answer.contains("/secret"), "{word}: {answer}");
        }
        for word in OTHERS {
            let answer = four_letter_word(keeper.address(), word);
            assert_eq!(answer == refusal(word), !allowed.contains(&word), "{words:?}: {word}: {answer}");
        }
    }
}

#[test]
fn word_that_does_not_exist_cannot_be_allowed() {
    for (words, culprit) in [("nope", "nope"), ("dump,DUMP", "DUMP"), ("dumps", "dumps")] {
        let output = Command::new(binary()).args(["keeper", "--words", words]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(culprit) && stderr.contains("wchs"), "{stderr}");
    }
}

#[test]
fn every_word_is_answered_in_plain_text() {
    let keeper = Keeper::new().args(["--words", "*"]).start();
    let mut client = RawClient::open(keeper.address());
    client.create_ephemeral("/here");
    client.watch_data("/here");
    let session = format!("{:#x}", client.session().id);
    let port = format!("clientPort={}", keeper.address().port());
    let zxid = format!("Zxid: {:#x}", client.ping());
    for (word, expected) in [
        ("ruok", &["imok"][..]),
        ("isro", &["rw"]),
        ("srvr", &["Zookeeper version: 3.9", &zxid, "Mode: standalone", "Node count: 5", "Connections: "]),
        ("stat", &["Clients:", " /127.0.0.1:", "Mode: standalone"]),
        ("cons", &["/127.0.0.1:", &format!("sid={session}"), "queued="]),
        (
            "mntr",
            &["zk_version\t3.9", "zk_server_state\tstandalone", "zk_znode_count\t5", "zk_watch_count\t1"],
        ),
        ("mntr", &["zk_ephemerals_count\t1", "zk_num_alive_connections\t", "zk_outstanding_requests\t0"]),
        ("conf", &[&port, "tickTime=2000", "minSessionTimeout=4000", "maxSessionTimeout=40000"]),
        ("envi", &["Environment:", "zookeeper.version=3.9"]),
        ("dump", &[&session, "Sessions with Ephemerals (1):", "\t/here"]),
        ("wchs", &["1 connections watching 1 paths", "Total watches:1"]),
        ("wchc", &[&session, "\t/here"]),
        ("wchp", &["/here\n", &session]),
        ("srst", &["Server stats reset."]),
        ("nope", &["nope is not "]),
    ] {
        let answer = four_letter_word(keeper.address(), word);
        for part in expected {
            assert!(answer.contains(part), "{word} does not say {part:?}:\n{answer}");
        }
    }
}

#[test]
fn version_has_three_numbers_for_clients_that_look_for_them() {
    let keeper = Keeper::new().start();
    let answer = four_letter_word(keeper.address(), "envi");
    let version = answer.lines().find_map(|line| line.strip_prefix("zookeeper.version=")).unwrap();
    let numbers: Vec<u32> =
        version.split(['.', '-', ',']).take(3).map(|number| number.parse().unwrap()).collect();
    assert_eq!(numbers[..2], [3, 9]);
}

#[test]
fn word_may_have_a_line_end_behind_it() {
    let keeper = Keeper::new().start();
    assert_eq!(four_letter_word(keeper.address(), "ruok\n"), "imok");
}
