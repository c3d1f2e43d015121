//! Nobody reads the output of a worker and its tasks: a stopped terminal, a pipe to a sleeping process. Work goes on,
//! partitions are kept, and tasks are stopped when they must be.

use menagerie_testkit::{Process, eventually};
use rustix::process::Signal;

use super::{Fleet, assert_all, assert_once};
use crate::slots::wait_until_gone;

/// Execs its arguments, which print into a pipe that nobody reads.
const UNREAD: &str = r#"mkfifo unread; exec 8<> unread; exec "$@" >&8 2>&1"#;

/// Prints much more than a pipe holds to both streams; stays at one message.
const NOISY: &str = r#"read -r body
head -c 300000 /dev/zero | tr '\0' x; head -c 300000 /dev/zero | tr '\0' x >&2
[ "$body" != 99 ] || { echo $$ > pid; exec sleep 600; }
echo "$body" | sh work.sh"#;

#[test]
fn work_goes_on_and_tasks_are_stopped_although_nobody_reads() {
    let fleet = Fleet::with_queue("unread", "mail", 1);
    let (line, worker) =
        (["sh", "-c", UNREAD, "sh"], ["worker", "mail", "--settle", "200ms", "--grace", "1s"]);
    let worker = [&worker[..], &["--", "sh", "-c", NOISY]].concat();
    let mut worker = Process::spawn(&mut fleet.user.command_under(&line, &worker));
    fleet.put("mail", 0..8);
    fleet.wait_until_drained("mail");
    let handled = fleet.handled();
    assert_all(&handled, 0..8);
    assert_once(&handled);
    assert!(handled.iter().all(|one| one.fence == handled[0].fence), "it was lost: {handled:?}");
    fleet.user.ok(&["queue", "put", "mail", "99"]);
    let task = fleet.wait_for_file("pid").trim().parse().expect("a number");
    // The state dump would go where nobody reads, too.
    worker.signal(Signal::USR2);
    worker.signal(Signal::TERM);
    wait_until_gone(task);
    assert_eq!(worker.wait_for_end().status.code(), Some(0));
    assert!(fleet.user.json(&["queue", "workers"]).as_array().is_some_and(Vec::is_empty), "it has left");
    eventually("the message waits", || (fleet.lag("mail") == 1).then_some(()));
}
