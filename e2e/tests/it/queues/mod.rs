//! Queues, through the binary: what workers do, what happens when something dies, and what operators see.

mod altering;
mod bodies;
mod churn;
mod commands;
mod copies;
mod crash;
mod delayed;
mod first;
#[cfg(feature = "strace")]
mod full;
mod guide;
mod ids;
mod import;
mod keeping;
mod logs;
#[cfg(feature = "strace")]
mod name;
mod orders;
mod rebalance;
mod runners;
mod schedules;
mod serving;
mod shorter;
mod signals;
mod stories;
mod suspended;
mod trust;
mod unread;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use menagerie_testkit::{Daemon, Process, eventually, eventually_within};
use serde_json::Value;

use crate::cli::User;

/// What a busy machine may take for a few hundred messages.
const LONG: Duration = Duration::from_secs(120);

/// The task: records its message, partition, attempt and fence. Only one may work on a partition at a time, and the
/// kernel enforces it: a file lock ends with the last process that has it.
const WORK: &str = r#"
exec 9>> "lock-$MENAGERIE_QUEUE-$MENAGERIE_PARTITION"
flock -n 9 || echo "$MENAGERIE_QUEUE-$MENAGERIE_PARTITION is not alone" >> violations
read -r body
echo "$MENAGERIE_PARTITION $body $MENAGERIE_ATTEMPT $MENAGERIE_FENCE" >> handled
"#;

/// A journal and a user who types commands, in a chroot of their own.
pub struct Fleet {
    pub user: User,
    journal: Daemon,
}

/// A handled message; listed in the order of handling.
#[derive(Debug, Clone)]
pub struct Handled {
    pub partition: u32,
    pub body: u32,
    pub attempt: u32,
    pub fence: (u64, u64),
}

impl Fleet {
    pub fn new(name: &str) -> Self {
        Self::of(User::new(&format!("queues-{name}")))
    }

    pub fn of(user: User) -> Self {
        let journal = journal(&user, &[]);
        Self::with_journal(user, journal)
    }

    pub fn with_journal(user: User, journal: Daemon) -> Self {
        user.write("work.sh", WORK);
        user.write("violations", "");
        user.write("handled", "");
        Self { user, journal }
    }

    pub fn with_queue(name: &str, queue: &str, partitions: u16) -> Self {
        let fleet = Self::new(name);
        fleet.create(queue, partitions);
        fleet
    }

    /// With short sessions, which also expire when the machine is busy for this long.
    pub fn hasty(name: &str, queue: &str, partitions: u16, session: &str) -> Self {
        let user = User::new(&format!("queues-{name}")).with("MENAGERIE_SESSION_TIMEOUT", session);
        let fleet = Self::of(user);
        fleet.create(queue, partitions);
        fleet
    }

    pub fn create(&self, queue: &str, partitions: u16) {
        self.user.ok(&["queue", "create", queue, "--partitions", &partitions.to_string()]);
    }

    /// kill -9; [`crash_journal`](Self::crash_journal) brings it back.
    pub fn kill_journal(&mut self) {
        self.journal.kill();
    }

    /// kill -9, and restart on the same data and port.
    pub fn crash_journal(&mut self) {
        self.journal.restart();
    }

    /// Puts numbered messages, round-robin over partitions.
    pub fn put(&self, queue: &str, numbers: std::ops::Range<u32>) {
        put(&self.user, queue, numbers);
    }

    /// Starts a worker with the usual task; waits until it is registered.
    pub fn worker(&self, queue: &str, options: &[&str]) -> Process {
        let worker = self.starting(queue, options, &["sh", "work.sh"]);
        ready(&worker);
        worker
    }

    /// The same with another task, and without waiting.
    pub fn starting(&self, queue: &str, options: &[&str], command: &[&str]) -> Process {
        let usual = ["worker", queue, "--backoff", "50ms", "--grace", "1s"];
        let settle: &[&str] = if options.contains(&"--settle") { &[] } else { &["--settle", "300ms"] };
        self.user.spawn(&[&usual, settle, options, &["--"], command].concat())
    }

    pub fn show(&self, queue: &str) -> Value {
        self.user.json(&["queue", "show", queue])
    }

    pub fn lag(&self, queue: &str) -> u64 {
        self.show(queue)["lag"].as_u64().expect("it is a number")
    }

    /// Waits until everything is committed as processed.
    #[track_caller]
    pub fn wait_until_drained(&self, queue: &str) {
        let drained = || {
            let done = self.user.run(&["queue", "show", queue, "-o", "json"]);
            // ZooKeeper or the journal may be away just now.
            let view: Value = serde_json::from_str(&done.text()).ok()?;
            (view["lag"] == 0).then_some(())
        };
        eventually_within(LONG, &format!("queue {queue} is drained"), drained);
    }

    /// Messages handled so far.
    pub fn handled(&self) -> Vec<Handled> {
        self.file("handled").lines().filter_map(handled).collect()
    }

    pub fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.user.folder().join(name)).unwrap_or_default()
    }

    /// Waits until a file in the user's folder has content.
    #[track_caller]
    pub fn wait_for_file(&self, name: &str) -> String {
        eventually(&format!("{name} is written"), || {
            Some(self.file(name)).filter(|text| text.ends_with('\n'))
        })
    }
}

fn handled(line: &str) -> Option<Handled> {
    let mut words = line.split_whitespace();
    let mut number = || words.next()?.parse().ok();
    let (partition, body, attempt) = (number()?, number()?, number()?);
    let (generation, zxid) = words.next()?.split_once('-')?;
    Some(Handled { partition, body, attempt, fence: (generation.parse().ok()?, zxid.parse().ok()?) })
}

pub fn journal(user: &User, more: &[&str]) -> Daemon {
    user.serve(&[&["journal", "--log-level", "warn"], more].concat())
}

#[track_caller]
pub fn put(user: &User, queue: &str, numbers: std::ops::Range<u32>) {
    let lines: String = numbers.map(|number| format!("{number}\n")).collect();
    let done = user.run_with(&["queue", "put", queue, "--file", "-"], lines.as_bytes());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}

#[track_caller]
pub fn ready(worker: &Process) -> String {
    worker.wait_until_ready("worker")
}

/// Checks that messages of each partition were begun in order and none was skipped: a repetition goes back, and on
/// from there.
#[track_caller]
pub fn assert_order(handled: &[Handled]) {
    let mut partitions: BTreeMap<u32, Vec<&Handled>> = BTreeMap::new();
    for one in handled {
        partitions.entry(one.partition).or_default().push(one);
    }
    for (partition, handled) in partitions {
        let all: BTreeSet<u32> = handled.iter().map(|one| one.body).collect();
        let mut expected = all.iter();
        let mut seen = BTreeSet::new();
        for one in handled {
            if seen.insert(one.body) {
                assert_eq!(Some(&one.body), expected.next(), "out of order in partition {partition}");
            }
        }
    }
}

/// Checks that all of these were handled.
#[track_caller]
pub fn assert_all(handled: &[Handled], numbers: std::ops::Range<u32>) {
    let seen: BTreeSet<u32> = handled.iter().map(|one| one.body).collect();
    let missing: Vec<u32> = numbers.filter(|number| !seen.contains(number)).collect();
    assert!(missing.is_empty(), "never handled: {missing:?}");
}

/// Checks that none was handled twice.
#[track_caller]
pub fn assert_once(handled: &[Handled]) {
    let mut seen = BTreeSet::new();
    let twice: Vec<&Handled> = handled.iter().filter(|one| !seen.insert(one.body)).collect();
    assert!(twice.is_empty(), "handled twice: {twice:?}");
}

/// Checks that owners of each partition followed one another in the server's order: a fence is the zxid of the lock's
/// ticket, and an older one never comes after a newer one.
#[track_caller]
pub fn assert_owners(handled: &[Handled]) {
    let mut newest: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for one in handled {
        let newest = newest.entry(one.partition).or_default();
        assert!(one.fence >= *newest, "an owner before {newest:?} came back: {one:?}");
        *newest = one.fence;
    }
}
