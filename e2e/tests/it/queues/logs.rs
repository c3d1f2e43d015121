//! What a worker logs of its messages.

use menagerie_testkit::eventually;
use rustix::process::Signal;

use super::{Fleet, ready};

#[test]
fn each_end_of_an_attempt_is_logged_under_the_id_that_put_has_printed_and_their_numbers_in_a_summary() {
    let fleet = Fleet::with_queue("logs", "mail", 1);
    let user = &fleet.user;
    let put = |body: &str, more: &[&str]| {
        let put = user.json(&[&["queue", "put", "mail", body], more].concat());
        put["id"].as_str().expect("it has an id").to_owned()
    };
    let expired = put("too late", &["--ttl", "1"]);
    let (good, bad) = (put("good", &[]), put("bad", &[]));
    eventually("its time to live has ended", || {
        (user.json(&["queue", "trace", &expired])["state"] == "expired").then_some(())
    });
    let task = "read -r body; [ \"$body\" = good ]";
    let options = ["--log-level", "debug", "--attempts", "2"];
    let mut worker = fleet.starting("mail", &options, &["sh", "-c", task]);
    ready(&worker);
    fleet.wait_until_drained("mail");
    worker.signal(Signal::INT);
    assert_eq!(worker.wait_for_end().status.code(), Some(0));
    let log = worker.stderr();
    let is_logged = |level: &str, id: &str, what: &str| {
        let has =
            |line: &str| line.contains(level) && line.contains(what) && line.contains(&format!("id={id}"));
        assert!(log.lines().any(has), "no {level} line of {id} says {what:?}: {log}");
    };
    is_logged("DEBUG", &good, "message done");
    is_logged("WARN", &bad, "attempt failed; trying again");
    is_logged("WARN", &bad, "message given up");
    is_logged("DEBUG", &expired, "message expired before its turn; skipped");
    let summary = log.lines().find(|line| line.contains("messages within the last minute"));
    let summary = summary.unwrap_or_else(|| panic!("there is no summary: {log}"));
    for fact in ["INFO", "done=1", "retried=1", "given_up=1", "expired=1", "stopped=0"] {
        assert!(summary.contains(fact), "{fact}: {summary}");
    }
}
