//! Damaged znodes, by hand or by a broken script: every command ends, says what is wrong and what to try, or goes on;
//! none spins; and the doctor finds the damage. Every znode of slots and queues is damaged in every way, one at a time.

mod queues;
mod slots;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use menagerie_testkit::{Keeper, Process, Server, four_letter_word};
use menagerie_znodes::{ZnodeSpec, lookup, map};
use serde_json::Value;

use crate::cli::{Done, User};

/// Time for a command to end by itself; a busy machine gets more before it is killed.
const LIMIT: Duration = Duration::from_secs(10);
const KILLED_AFTER: &str = "60";

/// Servers get this many seconds to start.
const SERVES_FOR: &str = "0.5";

/// Requests of one command and everything beside it. A retry loop without back-off makes thousands a second.
const REQUESTS_MAX: u64 = 1_000;

/// Looks like JSON and is none, nor anything else that we write.
const GARBAGE: &str = "{garbage";

/// Cases run concurrently.
const AT_ONCE: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    /// With its subtree.
    Deleted,
    Emptied,
    Garbage,
}

/// What to damage, and which commands to run.
struct Matrix {
    /// Owners of the map's entries.
    owners: &'static [&'static str],
    /// Entries that exist only for a moment.
    fleeting: &'static [&'static str],
    world: fn(&User) -> Vec<Process>,
    commands: &'static [&'static [&'static str]],
    /// Whether a command has to succeed however this entry is damaged.
    must_succeed: fn(&[&str], &ZnodeSpec) -> bool,
    /// Whether nothing shows that it ever existed.
    leaves_no_trace: fn(&ZnodeSpec) -> bool,
}

/// One world and its damage.
struct Case<'a> {
    user: User,
    namespace: String,
    server: SocketAddr,
    entry: &'a ZnodeSpec,
    damage: Damage,
    _processes: Vec<Process>,
}

impl Matrix {
    fn entries(&self) -> Vec<&'static ZnodeSpec> {
        let owned = map().into_iter().filter(|(owner, _)| self.owners.contains(owner));
        owned
            .flat_map(|(_, entries)| entries)
            .filter(|entry| !self.fleeting.contains(&entry.pattern))
            .collect()
    }

    /// Damages everything, one at a time, and reports what went wrong.
    fn run(&self, damage: Damage) {
        let entries = Mutex::new(self.entries());
        let complaints = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for worker in 0..AT_ONCE {
                let (entries, complaints) = (&entries, &complaints);
                scope.spawn(move || {
                    let server = Keeper::new().args(["--durability", "os"]).start();
                    let usual = self.usual(&server, &format!("/usual-{worker}"));
                    loop {
                        let Some(entry) = entries.lock().expect("nobody has panicked").pop() else { break };
                        let found = self.case(&server, entry, damage).complaints(self, &usual);
                        complaints.lock().expect("nobody has panicked").extend(found);
                    }
                });
            }
        });
        let complaints = complaints.into_inner().expect("nobody has panicked");
        assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n\n"));
    }

    /// How each command ends without damage.
    fn usual(&self, server: &Server, namespace: &str) -> BTreeMap<usize, Option<i32>> {
        let user = user(server, namespace);
        let _processes = (self.world)(&user);
        self.commands.iter().enumerate().map(|(at, command)| (at, run(&user, command).code)).collect()
    }

    fn case<'a>(&self, server: &Server, entry: &'a ZnodeSpec, damage: Damage) -> Case<'a> {
        let letters = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let namespace = format!("/{damage:?}{}", entry.pattern.chars().map(letters).collect::<String>());
        let user = user(server, &namespace);
        let processes = (self.world)(&user);
        Case { user, namespace, server: server.address(), entry, damage, _processes: processes }
    }
}

fn user(server: &Server, namespace: &str) -> User {
    User::at(server.address().to_string()).with("MENAGERIE_NAMESPACE", namespace)
}

impl Case<'_> {
    fn complaints(&self, matrix: &Matrix, usual: &BTreeMap<usize, Option<i32>>) -> Vec<String> {
        let Some(path) = self.path() else {
            return vec![format!(
                "{} is on the map, and nowhere in this world: put one there",
                self.entry.pattern
            )];
        };
        let mut complaints = Vec::new();
        self.inflict(&path);
        let mut found = self.doctor();
        let mut failed = Vec::new();
        for (at, command) in matrix.commands.iter().enumerate() {
            self.inflict(&path);
            let (done, took, requests) = self.timed(command);
            let mut complain = |what: &str| {
                complaints.push(format!(
                    "{path} {:?}, {command:?}: {what}; code {:?}, {took:?}, {requests} requests\n{}{}",
                    self.damage,
                    done.code,
                    done.text(),
                    done.stderr
                ));
            };
            if took > LIMIT || requests > REQUESTS_MAX {
                complain("it did not end in time, or spun");
            }
            if done.code == Some(0) || done.code == usual[&at] {
                continue;
            }
            if found.is_empty() {
                found = self.doctor();
            }
            // The processes may have mended it by now: then there is nothing to find.
            if !found.is_empty() || self.is_damaged(&path) {
                failed.push(command.join(" "));
            }
            if (matrix.must_succeed)(command, self.entry) {
                complain("it had to succeed");
            }
            if !explains(&done, &path) {
                complain("it does not say what is wrong, or what to try");
            }
        }
        if !failed.is_empty() && found.is_empty() && !self.leaves_no_trace(matrix) {
            complaints
                .push(format!("{path} {:?}: {failed:?} failed, and the doctor found nothing", self.damage));
        }
        // By now the processes have noticed.
        let before = packets(self.server);
        thread::sleep(Duration::from_millis(200));
        let idle = packets(self.server) - before;
        if idle > REQUESTS_MAX / 4 {
            complaints.push(format!("{path} {:?}: somebody spins: {idle} requests in 200 ms", self.damage));
        }
        complaints
    }

    fn leaves_no_trace(&self, matrix: &Matrix) -> bool {
        self.damage == Damage::Deleted && (matrix.leaves_no_trace)(self.entry)
    }

    /// The first znode of this entry that exists, below the namespace.
    fn path(&self) -> Option<String> {
        let all = self.user.run(&["zk", "ls", "-R", "-n", &self.namespace]).text();
        let is_it =
            |path: &String| lookup::find(path).is_some_and(|(_, found)| found.pattern == self.entry.pattern);
        all.lines().map(|line| format!("/{line}")).find(is_it)
    }

    fn is_damaged(&self, path: &str) -> bool {
        let found = self.user.run(&["zk", "get", &format!("{}{path}", self.namespace)]);
        match self.damage {
            Damage::Deleted => found.code != Some(0),
            Damage::Emptied => found.text().trim().is_empty(),
            Damage::Garbage => found.text().trim() == GARBAGE,
        }
    }

    fn inflict(&self, path: &str) {
        let full = format!("{}{path}", self.namespace);
        match self.damage {
            Damage::Deleted => delete(&self.user, &full),
            Damage::Emptied => drop(self.user.run(&["zk", "set", &full, ""])),
            Damage::Garbage => drop(self.user.run(&["zk", "set", &full, GARBAGE])),
        }
    }

    /// The doctor's findings in the tree.
    fn doctor(&self) -> Vec<String> {
        let found: Value =
            serde_json::from_str(&self.user.run(&["doctor", "-o", "json"]).text()).expect("it prints JSON");
        let findings = found["findings"].as_array().expect("it is a list");
        let of_tree = findings.iter().filter(|found| found["check"] == "znodes" && found["health"] != "ok");
        of_tree.map(|found| found["finding"].as_str().expect("it is text").to_owned()).collect()
    }

    fn timed(&self, command: &[&str]) -> (Done, Duration, u64) {
        let (before, began) = (packets(self.server), Instant::now());
        let done = run(&self.user, command);
        (done, began.elapsed(), packets(self.server) - before)
    }
}

/// It may be gone already, and a process may add a child at the same moment.
fn delete(user: &User, path: &str) {
    while user.run(&["zk", "rm", "-r", "--yes", path]).stderr.contains("has children") {}
}

/// Runs a command to its end; stops a server after a moment.
fn run(user: &User, command: &[&str]) -> Done {
    let serves = command[0] == "worker" || command.contains(&"serve");
    let line = match serves {
        true => ["timeout", "--preserve-status", "-s", "TERM", SERVES_FOR],
        false => ["timeout", "--preserve-status", "-s", "KILL", KILLED_AFTER],
    };
    Done::of(user.command_under(&line, command).output().expect("it can be started"))
}

/// Whether an error names the path or what is missing, and says what to try.
fn explains(done: &Done, path: &str) -> bool {
    let said = format!("{}{}", done.text(), done.stderr);
    let is_told = |word: &&str| said.contains(*word);
    let names = [
        path,
        "there is no pool",
        "there is no queue",
        "there is no schedule",
        "no slot of pool",
        "holds no slot",
        "partitions have none",
        // The journal registers again a moment later.
        "none of that name is registered",
        "no journal is registered",
    ];
    let what_to_try = ["help: ", " WARNING - ", " CRITICAL - ", " UNKNOWN - "];
    names.iter().any(is_told) && what_to_try.iter().any(is_told)
}

fn packets(server: SocketAddr) -> u64 {
    let answer = four_letter_word(server, "mntr");
    let count = answer.lines().find_map(|line| line.strip_prefix("zk_packets_received\t"));
    count.expect("mntr counts packets").parse().expect("it is a number")
}
