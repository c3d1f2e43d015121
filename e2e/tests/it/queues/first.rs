//! The guide "Your first queue in five minutes", as typed; and the demo.

use menagerie_testkit::{Process, eventually};
use rustix::process::Signal;
use serde_json::Value;

use crate::cli::User;
use crate::queue_http::Client;

fn up(user: &User, more: &[&str]) -> Process {
    let up = user.spawn(&crate::up::up(more));
    up.wait_for_line("how to stop it", |line| line.contains("Ctrl-C").then_some(()));
    up
}

#[test]
fn first_queue_in_five_minutes() {
    let user = User::nowhere();
    let mut up = up(&user, &[]);
    user.ok(&["queue", "create", "mail", "--partitions", "4"]);
    let id = user.ok(&["queue", "put", "mail", "hello", "--key", "customer-7"]);
    assert_eq!(user.ok(&["queue", "get", "mail", id.trim()]), "hello");
    user.write("letters", "one\ntwo\nthree\n");
    user.ok(&["queue", "put", "mail", "--file", "letters"]);
    assert!(user.ok(&["queue", "peek", "mail"]).contains("hello"));
    assert!(user.ok(&["queue", "show", "mail"]).contains("4 messages behind; nobody handles it"));
    let mut worker =
        user.spawn(&["worker", "mail", "--settle", "100ms", "--", "sh", "-c", "cat >> sent; echo >> sent"]);
    super::ready(&worker);
    eventually("all are sent", || {
        let sent = std::fs::read_to_string(user.folder().join("sent")).unwrap_or_default();
        ["hello", "one", "two", "three"].iter().all(|word| sent.contains(word)).then_some(())
    });
    eventually("it is not behind", || {
        user.ok(&["queue", "show", "mail"]).contains("not behind").then_some(())
    });
    let addresses = std::fs::read(user.folder().join("data/addresses.json")).expect("it says where it is");
    let addresses: Value = serde_json::from_slice(&addresses).expect("it is JSON");
    let http = addresses["queue"].as_str().and_then(|at| at.parse().ok()).expect("an address");
    let key = user.ok(&["queue", "key", "add", "default"]);
    let mut client = Client::open(http, key.trim()).expect("it listens");
    for _ in 0..2 {
        let once = "Idempotency-Key: order-66\r\n";
        let posted = client.ask("POST", "/v1/default/mail", once, "from afar").expect("it answers");
        assert_eq!(posted.0, 201);
    }
    let (code, read) = client.ask("GET", "/v1/default/mail?partitions=1,2,3,4", "", "").expect("it answers");
    assert_eq!((code, read["messages"].as_array().map(Vec::len)), (200, Some(5)));
    eventually("it is sent, too", || {
        let sent = std::fs::read_to_string(user.folder().join("sent")).unwrap_or_default();
        sent.contains("from afar").then_some(())
    });
    worker.signal(Signal::INT);
    assert_eq!(worker.wait_for_end().status.code(), Some(0));
    up.signal(Signal::INT);
    assert_eq!(up.wait_for_end().status.code(), Some(0));
}

#[test]
fn demo_puts_two_workers_to_work_and_says_where_to_look() {
    let user = User::nowhere();
    let mut up = up(&user, &["--demo"]);
    up.wait_for_line("what to type", |line| line.contains("menagerie queue show mail --watch").then_some(()));
    let workers = eventually("two workers share it", || {
        let workers = user.json(&["queue", "workers"]);
        let have =
            |worker: &serde_json::Value| worker["partitions"].as_array().is_some_and(|all| all.len() == 2);
        workers.as_array().filter(|all| all.len() == 2 && all.iter().all(have)).cloned()
    });
    assert_eq!(workers[0]["worker"], "demo-1");
    up.wait_for_line("the end", |line| line.contains("messages of queue mail are handled").then_some(()));
    let before = up.stderr().len();
    up.signal(Signal::INT);
    let end = up.wait_for_end();
    assert_eq!(end.status.code(), Some(0));
    assert!(!end.stderr[before..].contains("WARN"), "it ends without complaint: {}", end.stderr);
}
