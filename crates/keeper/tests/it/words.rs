//! Four-letter words.

use menagerie_testkit::{Keeper, RawClient, four_letter_word};

use crate::verbs::Verbs;

#[test]
fn every_word_is_answered_in_plain_text() {
    let keeper = Keeper::new().start();
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
