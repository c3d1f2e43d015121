//! The stories in `testdata/*.txt`: facts in, what the worker does out. After a wanted change of behaviour:
//! `UPDATE_TRANSCRIPTS=1 cargo test -p menagerie-queues --lib`, and read the difference.

use std::fs;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use menagerie_journal::{Message, MessageId};
use menagerie_znodes::queues::{Order, Retry};

use super::super::{id, message};
use super::script::{Script, fresh, partition, vanished};
use crate::core::lane::Ownership;
use crate::core::ledger::{Ack, Recorded};
use crate::core::machine::{Fact, Noted};
use crate::core::tally::{Attempts, StoredAttempts};
use crate::task::Outcome;

/// The value after a word, such as `4` in `concurrency 4`.
fn after<'a>(words: &[&'a str], word: &str) -> Option<&'a str> {
    words.iter().position(|one| *one == word).and_then(|at| words.get(at + 1)).copied()
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("{word} is no number"))
}

fn ids(list: &str) -> Vec<MessageId> {
    list.split(',').map(|one| id(number(one))).collect()
}

/// `worker key later concurrency 4 batch 2 attempts 3 at-most-once`
fn worker(words: &[&str]) -> Script {
    let order = match words[0] {
        "partition" => Order::Partition,
        "key" => Order::Key,
        "none" => Order::None,
        other => panic!("no order: {other}"),
    };
    let retry = match words {
        _ if words.contains(&"later") => Some(Retry::Later),
        _ if words.contains(&"block") => Some(Retry::Block),
        _ => None,
    };
    let mut script = Script::new(order, retry, |options| {
        let count = |word| after(words, word).map(|count| usize::try_from(number(count)).unwrap());
        options.concurrency = count("concurrency").unwrap_or(1);
        options.batch = count("batch").unwrap_or(1);
        options.failure.attempts =
            after(words, "attempts").and_then(|count| NonZeroU32::new(count.parse().unwrap()));
        if words.contains(&"at-most-once") {
            options.ack = Ack::Before;
        }
    });
    script.assign(true);
    script
}

/// `claim cursor 3 done 9 open 4,6 window 2 crashes 1 attempts 4=2,6=1`
fn found(words: &[&str]) -> Ownership {
    let attempts = after(words, "attempts").into_iter().flat_map(|list| list.split(','));
    let attempts = attempts.map(|one| {
        let (message, made) = one.split_once('=').expect("MESSAGE=ATTEMPTS");
        (id(number(message)), Attempts { attempts: made.parse().unwrap(), given_up: false })
    });
    let crashes = after(words, "crashes").map(|count| count.parse().unwrap());
    let window = after(words, "window").map_or(2, |count| count.parse().unwrap());
    Ownership {
        cursor: id(after(words, "cursor").map_or(0, number)),
        beyond: after(words, "done")
            .map(|done| (id(number(done)), after(words, "open").map_or(Vec::new(), ids))),
        attempts: StoredAttempts { messages: attempts.collect(), begun: id(0) },
        predecessor: crashes.and_then(|crashes| vanished(window, crashes)),
        ..fresh()
    }
}

/// `1 2:a` are a message without a key, and one with.
fn messages(words: &[&str]) -> Vec<Message> {
    let one = |word: &&str| match word.split_once(':') {
        Some((ticks, key)) => message(number(ticks), Some(key), 0),
        None => message(number(word), None, 0),
    };
    words.iter().map(one).collect()
}

fn play_one(script: &mut Script, command: &str, words: &[&str]) -> Vec<String> {
    let first = || number(words[0]);
    match command {
        "claim" => script.claimed(found(words)),
        "read" => script.read(messages(words)),
        "done" => script.done(first()),
        "fail" => script.fail(first()),
        "stopped" => script.ran(first(), Ok(vec![Outcome::Stopped])),
        "noted" => script.noted(first(), Noted::Stored),
        "recorded" => script.confirmed(),
        "refused" => script.recorded(Recorded::Refused),
        "pass" => script.pass(Duration::from_secs(first())),
        "lose" => script.step(Fact::Lost(script.owned())),
        "assign" => script.assign(words != ["nothing"]),
        "finish" => script.step(Fact::Finish),
        "abort" => script.step(Fact::Abort),
        "released" => script.step(Fact::Released(partition())),
        other => panic!("no command: {other}"),
    }
}

/// Plays the commands of a story (`> ...`) and writes what comes of them behind each. Comments and empty lines stay.
fn play(story: &str) -> String {
    let mut script = None;
    let mut played = String::new();
    for line in story.lines().filter(|line| line.is_empty() || line.starts_with(['#', '>'])) {
        // Seen if the story fails.
        println!("{line}");
        played += &format!("{line}\n");
        let Some(command) = line.strip_prefix("> ") else { continue };
        let words: Vec<&str> = command.split_whitespace().collect();
        if words[0] == "worker" {
            script = Some(worker(&words[1..]));
            continue;
        }
        let script = script.as_mut().expect("a story begins with its worker");
        let mut told = play_one(script, words[0], &words[1..]);
        told.extend(std::mem::take(&mut script.endings).into_iter().map(|ending| format!("({ending})")));
        if told.is_empty() {
            told.push("nothing".to_owned());
        }
        told.iter().for_each(|one| played += &format!("  {one}\n"));
    }
    played
}

fn check(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(format!("{name}.txt"));
    let story = fs::read_to_string(&path).unwrap();
    let played = play(&story);
    if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
        fs::write(&path, &played).unwrap();
    } else if played != story {
        let differs = played.lines().zip(story.lines()).position(|(now, then)| now != then).unwrap_or(0);
        panic!(
            "{name}.txt differs from line {} on (UPDATE_TRANSCRIPTS=1 rewrites it); it is now:\n{played}",
            differs + 1
        );
    }
}

macro_rules! stories {
    ($($name:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            check(stringify!($name));
        }
    )*};
}

stories!(a_message_that_kills_its_workers, keys_side_by_side, what_is_done_beyond_a_gap_survives);
