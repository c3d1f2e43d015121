//! Linearizability: several clients, a few znodes, and a server that is killed again and again. Every znode's history
//! must be one that a server without concurrency, and without crashes, could have produced.
//!
//! # Layout
//! - `history`: operations, answers, and the server that does one thing at a time. `checker`: the search for an order.
//! - `line`: a connection that may break. Here: the clients that make the history.

mod checker;
mod history;
mod line;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use menagerie_testkit::{Keeper, Reply, eventually};
use menagerie_wire::{ErrorCode, OpCode, Request, Response};
use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};

use self::checker::is_linearizable;
use self::history::{Answer, Ask, Op};
use self::line::Line;
use crate::verbs::creation;

const CLIENTS: u64 = 5;
const ZNODES: u32 = 3;
/// How often the server is killed.
const CRASHES: usize = 10;
/// Answers between two crashes: enough to be in the middle of something, few enough to check.
const ANSWERS: u64 = 300;

/// What all clients share.
struct Stage {
    address: SocketAddr,
    /// Ticks with every invocation and every answer.
    clock: AtomicU64,
    answers: AtomicU64,
    next_value: AtomicU64,
    over: AtomicBool,
    histories: Mutex<BTreeMap<u32, Vec<Op>>>,
}

#[test]
fn histories_are_linearizable_across_crashes() {
    let mut keeper = Keeper::new().start();
    let stage = Arc::new(Stage {
        address: keeper.address(),
        clock: AtomicU64::new(0),
        answers: AtomicU64::new(0),
        next_value: AtomicU64::new(1),
        over: AtomicBool::new(false),
        histories: Mutex::default(),
    });
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let stage = Arc::clone(&stage);
            thread::spawn(move || stage.play(number))
        })
        .collect();
    for _ in 0..CRASHES {
        let goal = stage.answers.load(Ordering::SeqCst) + ANSWERS;
        eventually("clients are served", || (stage.answers.load(Ordering::SeqCst) >= goal).then_some(()));
        keeper.kill();
        keeper.restart();
    }
    stage.over.store(true, Ordering::SeqCst);
    for client in clients {
        client.join().expect("no client panics");
    }
    let histories = std::mem::take(&mut *stage.histories.lock().unwrap());
    for (znode, history) in histories {
        let unanswered = history.iter().filter(|op| op.answer == Answer::Nothing).count();
        assert!(history.len() > 100, "{} operations on znode {znode} prove little", history.len());
        assert!(is_linearizable(&history), "znode {znode}, {unanswered} unanswered: {history:#?}");
    }
}

impl Stage {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// One client: connects, works until the connection breaks, and again.
    fn play(&self, number: u64) {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&number.to_be_bytes());
        let mut dice = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
        while !self.over.load(Ordering::SeqCst) {
            // While the server is down nobody listens.
            let Ok(mut line) = Line::open(self.address) else {
                thread::yield_now();
                continue;
            };
            let mut connected = true;
            while connected && !self.over.load(Ordering::SeqCst) {
                connected = self.ask(&mut line, &mut dice);
            }
        }
    }

    /// One operation; false when the connection broke.
    fn ask(&self, line: &mut Line, dice: &mut TestRng) -> bool {
        let znode = dice.next_u32() % ZNODES;
        let value = self.next_value.fetch_add(1, Ordering::SeqCst);
        let version = dice.next_u32().is_multiple_of(3).then_some((dice.next_u32() % 4) as i32);
        let ask = match dice.next_u32() % 10 {
            0..2 => Ask::Create(value),
            2..5 => Ask::Set(value, version),
            5 => Ask::Delete(version),
            _ => Ask::Read,
        };
        let from = self.now();
        let answer = match line.call(&request(&ask, &path(znode), &value.to_be_bytes())) {
            Ok(reply) => answer(&ask, &reply),
            Err(_) => Answer::Nothing,
        };
        let until = self.now();
        let answered = answer != Answer::Nothing;
        if answered {
            self.answers.fetch_add(1, Ordering::SeqCst);
        }
        let op = Op { ask, answer, from, until };
        self.histories.lock().unwrap().entry(znode).or_default().push(op);
        answered
    }
}

fn path(znode: u32) -> String {
    format!("/znode-{znode}")
}

fn request<'a>(ask: &Ask, path: &'a str, data: &'a [u8]) -> Request<'a> {
    match ask {
        Ask::Create(_) => creation(path, data, 0),
        Ask::Read => Request::GetData { path, watch: false },
        Ask::Set(_, version) => Request::SetData { path, data: Some(data), version: version.unwrap_or(-1) },
        Ask::Delete(version) => Request::Delete { path, version: version.unwrap_or(-1) },
    }
}

fn answer(ask: &Ask, reply: &Reply) -> Answer {
    match (reply.header.err, ask) {
        (ErrorCode::NoNode, _) => Answer::Missing,
        (ErrorCode::NodeExists, _) => Answer::Exists,
        (ErrorCode::BadVersion, _) => Answer::OtherVersion,
        (ErrorCode::Ok, Ask::Create(_) | Ask::Delete(_)) => Answer::Done,
        (ErrorCode::Ok, Ask::Set(..)) => match reply.response(OpCode::SetData) {
            Ok(Response::Stat(stat)) => Answer::Version(stat.version),
            other => panic!("not an answer to setData: {other:?}"),
        },
        (ErrorCode::Ok, Ask::Read) => match reply.response(OpCode::GetData) {
            Ok(Response::Data { data: Some(data), stat }) => {
                Answer::Found(u64::from_be_bytes(data.try_into().expect("eight bytes")), stat.version)
            }
            other => panic!("not an answer to getData: {other:?}"),
        },
        (err, _) => panic!("{ask:?} is answered with {err}"),
    }
}
