//! Slots, through the binary: commands under them, their outcome, and what operators may do.

mod complaints;
pub mod fleetlock;
mod guarding;
mod input;
#[cfg(feature = "strace")]
mod nodes;
mod operators;
mod scripts;
mod shorter;
mod storm;
mod suspended;
mod watchdog;

use menagerie_testkit::{Process, Proxy, eventually};
use serde_json::Value;

use crate::cli::User;

/// A user with a pool of this size, in a chroot of their own. Sessions expire quickly.
fn user(name: &str, max: u32) -> User {
    let user = User::new(&format!("slots-{name}")).with("MENAGERIE_SESSION_TIMEOUT", "2s");
    user.ok(&["slots", "create", "pool", "--max", &max.to_string()]);
    user
}

/// A user in the same chroot, behind a proxy. Sessions last.
fn far_from(user: &User) -> (User, Proxy) {
    let (servers, proxy) = user.servers_through_proxy();
    (User::at(servers).with("MENAGERIE_SESSION_TIMEOUT", "20s"), proxy)
}

/// The pool's current state.
fn pool(user: &User) -> Value {
    user.json(&["slots", "show", "pool"])
}

fn names(list: &Value) -> Vec<String> {
    let name = |entry: &Value| entry["holder"].as_str().expect("everybody has a name").to_owned();
    list.as_array().expect("it is a list").iter().map(name).collect()
}

/// Holders by slot.
fn holders(user: &User) -> Vec<String> {
    names(&pool(user)["holders"])
}

/// Waiters in order.
fn waiters(user: &User) -> Vec<String> {
    names(&pool(user)["waiters"])
}

/// Starts a command under a slot for this holder. The script must print its pid first.
fn start(user: &User, holder: &str, options: &[&str], script: &str) -> (Process, u32) {
    let process = queue(user, holder, options, script);
    let pid = process.wait_for_line("its process id", |line| line.parse().ok());
    (process, pid)
}

/// The same for one that has to wait first.
fn queue(user: &User, holder: &str, options: &[&str], script: &str) -> Process {
    let run = ["slots", "run", "pool", "--holder", holder, "--host", holder, "--grace", "1s"];
    user.spawn(&[&run, options, &["--", "sh", "-c", script]].concat())
}

/// Waits until this holder is in the queue.
fn wait_for_waiter(user: &User, holder: &str) {
    eventually(&format!("{holder} waits"), || waiters(user).contains(&holder.to_owned()).then_some(()));
}

/// Whether a process runs; a zombie does not.
fn is_running(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
    !matches!(state, Some("Z" | "X") | None)
}

pub fn wait_until_gone(pid: u32) {
    eventually(&format!("process {pid} is gone"), || (!is_running(pid)).then_some(()));
}
