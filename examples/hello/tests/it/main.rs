//! The engine as a process, killed again and again.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::process::{Command, Output};

use menagerie_testkit::{Daemon, World, eventually};
use serde_json::Value;

/// This engine's program in the world's environment.
fn hello(world: &World, args: &[&str]) -> Command {
    let menagerie = world.environment().command(&[]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_hello"));
    command.args(args).current_dir(world.environment().folder());
    for (name, value) in menagerie.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

#[track_caller]
fn succeed(mut command: Command) -> Vec<u8> {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    stdout
}

fn menagerie(world: &World, args: &[&str]) -> Vec<u8> {
    succeed(world.environment().command(args))
}

fn counted(world: &World) -> u64 {
    let view: Value =
        serde_json::from_slice(&succeed(hello(world, &["show", "words", "-o", "json"]))).unwrap();
    view["tally"]["messages"].as_u64().unwrap()
}

/// Kinds and states of all roles.
fn roles(world: &World) -> Vec<(String, String)> {
    let view: Value = serde_json::from_slice(&menagerie(world, &["status", "-o", "json"])).unwrap();
    let text = |role: &Value, key: &str| role[key].as_str().unwrap().to_owned();
    let roles = view["components"].as_array().unwrap().iter();
    roles.map(|role| (text(role, "kind"), text(role, "state"))).collect()
}

#[test]
fn every_message_is_counted_once_though_leaders_are_killed() {
    let world = World::new("hello").with("MENAGERIE_SESSION_TIMEOUT", "2s");
    let _journal = world.serve(&["journal"]);
    menagerie(&world, &["queue", "create", "words", "--partitions", "3"]);
    let mut counters: Vec<Daemon> =
        (0..2).map(|_| Daemon::start("hello", hello(&world, &["serve", "words"]))).collect();
    let running = ("hello".to_owned(), "running".to_owned());
    assert_eq!(roles(&world).iter().filter(|role| **role == running).count(), 2);
    let words: Vec<&str> = ["queue", "put", "words"].into_iter().chain(["word"; 50]).collect();
    for round in 0..6 {
        menagerie(&world, &words);
        counters[round % 2].kill();
        counters[round % 2].restart();
    }
    eventually("all are counted", || (counted(&world) == 300).then_some(()));
    for counter in &mut counters {
        assert_eq!(counter.stop().status.code(), Some(0));
    }
    assert_eq!(counted(&world), 300, "nothing is counted twice");
    eventually("all have left", || roles(&world).iter().all(|(kind, _)| kind != "hello").then_some(()));
}
