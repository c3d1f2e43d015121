//! Which queues and journals a worker uses.

use std::net::SocketAddr;

use menagerie_testkit::{Authority, eventually, eventually_within};

use super::{Fleet, LONG, assert_all, journal, ready};
use crate::cli::User;
use crate::metrics::samples;

#[test]
fn metrics_are_there_and_move() {
    let fleet = Fleet::with_queue("metrics", "mail", 1);
    let worker = fleet.starting("mail", &["--metrics", "127.0.0.1:0"], &["sh", "work.sh"]);
    let metrics: SocketAddr =
        worker.wait_for_line("where they are", |line| line.strip_prefix("worker metrics on ")?.parse().ok());
    ready(&worker);
    fleet.put("mail", 0..3);
    fleet.wait_until_drained("mail");
    eventually("all is counted", || {
        let samples = samples(metrics);
        let of = |name: &str| samples.get(name).copied().unwrap_or_default();
        let done = r#"menagerie_worker_messages_total{queue="mail",outcome="done"}"#;
        let lag = r#"menagerie_worker_lag{queue="mail",partition="1"}"#;
        let counted = of(done) == 3.0 && of("menagerie_worker_task_seconds_count") == 3.0;
        let told = of("menagerie_worker_partitions") == 1.0 && samples.get(lag) == Some(&0.0);
        // At least reads and commits.
        let asked = ["read", "commit"]
            .iter()
            .all(|call| of(&format!(r#"menagerie_worker_journal_seconds_count{{call="{call}"}}"#)) >= 1.0);
        (counted && told && asked && of("menagerie_worker_record_seconds_count") >= 1.0).then_some(())
    });
}

#[test]
fn journal_that_speaks_tls_is_used_by_who_trusts_it() {
    let authority = Authority::new();
    let file = |name: &str| authority.file(name).to_str().expect("its name is text").to_owned();
    let user = User::new("queues-tls").with("MENAGERIE_JOURNAL_CA", file("ca.pem"));
    let journal = journal(&user, &["--tls-cert", &file("cert.pem"), "--tls-key", &file("key.pem")]);
    let fleet = Fleet::with_journal(user, journal);
    fleet.create("mail", 2);
    fleet.put("mail", 0..10);
    let _worker = fleet.worker("mail", &[]);
    fleet.wait_until_drained("mail");
    assert_all(&fleet.handled(), 0..10);
    let stranger = User::at(fleet.user.servers.clone().expect("it has servers"));
    stranger.fails(&["queue", "put", "mail", "x"], 69, &["--journal-ca"]);
    // The journal itself gives the token to processes of the same user.
    stranger.with("MENAGERIE_JOURNAL_CA", file("ca.pem")).ok(&["queue", "put", "mail", "x"]);
}

#[test]
fn a_second_journal_of_a_name_does_not_start() {
    let mut fleet = Fleet::with_queue("twins", "mail", 1);
    let other = fleet.user.folder().join("other");
    let twin = ["journal", "--listen", "127.0.0.1:0", "--data", other.to_str().expect("its name is text")];
    let end = fleet.user.spawn(&twin).wait_for_end();
    assert_eq!(end.status.code(), Some(1), "{}", end.stderr);
    let taken = format!("journal \"main\" runs already, on {}", fleet.journal.address());
    assert!(end.stderr.contains(&taken) && end.stderr.contains("--name"), "{}", end.stderr);
    fleet.user.ok(&["queue", "put", "mail", "x"]);
    // Restart the first one while its earlier registration still exists.
    fleet.crash_journal();
    fleet.user.ok(&["queue", "put", "mail", "y"]);
    // A journal that has died is waited for until its registration is gone.
    fleet.journal.kill();
    let _heir = fleet.user.start(&twin);
    eventually_within(LONG, "it has the name", || {
        let create = ["queue", "create", "post", "--partitions", "1"];
        (fleet.user.run(&create).code == Some(0)).then_some(())
    });
    fleet.user.ok(&["queue", "put", "post", "z"]);
    // The messages of the other queue are in the folder of the first one.
    fleet.user.fails(&["queue", "put", "mail", "z"], 69, &["these messages are in folder"]);
}
