//! From a seed to a script.

use menagerie_wire::request::{Create, SetWatches};
use menagerie_wire::{Acl, MultiOp, OpCode, Request};

use super::alphabet::{self, Alphabet, CREDENTIALS, WatchHabit};
use super::creation;
use super::dice::Dice;
use super::guess::Guess;
use super::script::{Action, Message, SLOTS, Step};

/// A version that no znode of a script reaches.
const VERSION_NEVER: i32 = 77;

/// The script of that seed, in its own part of the tree.
pub fn script(seed: u64, steps: usize, prefix: &str) -> Vec<Step> {
    let mut dice = Dice::new(seed);
    let alphabet = Alphabet::new(prefix, &mut dice);
    let mut generator = Generator { dice, alphabet, guess: Guess::new(), written: 1 };
    let mut script: Vec<Step> = PLANTED.iter().map(|suffix| generator.plant(suffix)).collect();
    script.resize_with(steps, || generator.step());
    script
}

/// What every script starts with, so that there is something to play with.
const PLANTED: [&str; 5] = ["", "/a", "/b", "/a/a", "/a/b"];

pub(super) struct Generator {
    pub(super) dice: Dice,
    alphabet: Alphabet,
    guess: Guess,
    /// About how many transactions there were, for requests that look back.
    pub(super) written: usize,
}

/// One kind of step.
pub(super) type Kind = fn(&mut Generator, usize) -> Action;

/// Weights of the steps. Creations outweigh deletions, or there would be nothing to read.
const KINDS: [(usize, Kind); 27] = [
    (22, Generator::create),
    (8, Generator::delete),
    (10, Generator::set_data),
    (6, Generator::exists),
    (6, Generator::get_data),
    (4, Generator::get_children),
    (6, Generator::get_children2),
    (3, Generator::get_acl),
    (3, Generator::set_acl),
    (2, Generator::sync),
    (2, Generator::check),
    (8, Generator::multi),
    (3, Generator::multi_read),
    (5, Generator::add_watch),
    (3, Generator::check_watches),
    (3, Generator::remove_watches),
    (3, Generator::set_watches),
    (2, Generator::get_ephemerals),
    (2, Generator::get_all_children_number),
    (2, Generator::who_am_i),
    (3, Generator::auth),
    (1, Generator::small_fry),
    (1, Generator::unknown),
    (3, Generator::malformed),
    (1, Generator::close),
    (2, Generator::resume),
    (6, Generator::cut),
];

fn send(request: &Request<'_>) -> Action {
    Action::Send(Message::new(request))
}

impl Generator {
    fn step(&mut self) -> Step {
        let slot = self.dice.below(SLOTS);
        let kind = self.dice.weighted(&KINDS);
        let mut action = kind(self, slot);
        if let Action::Send(message) = &mut action
            && message.xid.is_none()
            && self.dice.chance(2)
        {
            // Numbers that clients do not use, or have used before.
            message.xid = Some(self.dice.pick(&[0, 1, -2, i32::MIN, i32::MAX]));
        }
        self.guess.acted(slot, &action);
        self.written += 1;
        Step { slot, action }
    }

    fn plant(&mut self, suffix: &str) -> Step {
        let path = format!("{}{suffix}", self.alphabet.prefix);
        let create = Create { path: &path, data: Some(b""), acl: vec![Acl::open()], flags: 0, ttl: None };
        let action = send(&Request::Create { op: OpCode::Create, create });
        self.guess.acted(0, &action);
        Step { slot: 0, action }
    }

    /// Any path, but more often one where there is something.
    fn path(&mut self) -> String {
        match self.guess.znode(&mut self.dice) {
            Some(znode) if self.dice.chance(55) => znode,
            _ => self.alphabet.any(&mut self.dice),
        }
    }

    /// Any path, but more often one where there is nothing yet.
    fn free_path(&mut self) -> String {
        let path = self.alphabet.any(&mut self.dice);
        if self.guess.exists(&path) && self.dice.chance(60) {
            self.alphabet.any(&mut self.dice)
        } else {
            path
        }
    }

    /// Any path of the alphabet, but more often one that this session watches.
    fn watched_path(&mut self, slot: usize) -> String {
        match self.guess.watched(slot, &mut self.dice) {
            Some(watched) if self.dice.chance(70) => watched,
            _ => self.alphabet.ordinary(&mut self.dice),
        }
    }

    fn version(&mut self) -> i32 {
        self.dice.weighted(&[(12, -1), (4, 0), (3, 1), (1, 2), (1, -2), (1, VERSION_NEVER)])
    }

    fn data(&mut self) -> Option<&'static [u8]> {
        self.dice.pick(&[None, Some(b"".as_slice()), Some(b"x"), Some(b"some longer data")])
    }

    /// Whether to watch the path by a read: only where that is how this session watches it.
    fn watch(&mut self, slot: usize, path: &str) -> bool {
        self.dice.chance(75) && self.alphabet.habit(slot, path) == Some(WatchHabit::OneShot)
    }

    pub(super) fn create(&mut self, _slot: usize) -> Action {
        let path = self.free_path();
        let (op, flags, ttl) = creation::any(&mut self.dice);
        let (data, acl) = (self.data(), alphabet::acl(&mut self.dice));
        send(&Request::Create { op, create: Create { path: &path, data, acl, flags, ttl } })
    }

    pub(super) fn delete(&mut self, _slot: usize) -> Action {
        send(&Request::Delete { path: &self.path(), version: self.version() })
    }

    pub(super) fn set_data(&mut self, _slot: usize) -> Action {
        send(&Request::SetData { path: &self.path(), data: self.data(), version: self.version() })
    }

    pub(super) fn exists(&mut self, slot: usize) -> Action {
        let path = self.path();
        send(&Request::Exists { watch: self.watch(slot, &path), path: &path })
    }

    pub(super) fn get_data(&mut self, slot: usize) -> Action {
        let path = self.path();
        send(&Request::GetData { watch: self.watch(slot, &path), path: &path })
    }

    pub(super) fn get_children(&mut self, slot: usize) -> Action {
        let path = self.path();
        send(&Request::GetChildren { watch: self.watch(slot, &path), path: &path })
    }

    pub(super) fn get_children2(&mut self, slot: usize) -> Action {
        let path = self.path();
        send(&Request::GetChildren2 { watch: self.watch(slot, &path), path: &path })
    }

    fn get_acl(&mut self, _slot: usize) -> Action {
        send(&Request::GetAcl { path: &self.path() })
    }

    /// Never on what scripts share, or one could lock out the next; nor at the top of this one, which would end here.
    pub(super) fn set_acl(&mut self, _slot: usize) -> Action {
        let mut path = self.path();
        while path.len() <= self.alphabet.prefix.len() || !path.starts_with(&self.alphabet.prefix) {
            path = self.alphabet.ordinary(&mut self.dice);
        }
        send(&Request::SetAcl { path: &path, acl: alphabet::acl(&mut self.dice), version: self.version() })
    }

    fn sync(&mut self, _slot: usize) -> Action {
        send(&Request::Sync { path: &self.path() })
    }

    /// Only ones that fail: see `known`.
    fn check(&mut self, _slot: usize) -> Action {
        send(&Request::Check { path: &self.path(), version: VERSION_NEVER })
    }

    pub(super) fn multi(&mut self, _slot: usize) -> Action {
        let paths: Vec<String> = (0..self.dice.below(6)).map(|_| self.path()).collect();
        let ops = paths.iter().map(|path| self.multi_op(path)).collect();
        send(&Request::Multi(ops))
    }

    fn multi_op<'a>(&mut self, path: &'a str) -> MultiOp<'a> {
        match self.dice.below(20) {
            0..10 => {
                let (op, flags, ttl) = creation::in_multi(&mut self.dice);
                let (data, acl) = (self.data(), alphabet::acl(&mut self.dice));
                MultiOp::Create { op, create: Create { path, data, acl, flags, ttl } }
            }
            10..13 => MultiOp::Delete { path, version: self.version() },
            13..16 => MultiOp::SetData { path, data: self.data(), version: self.version() },
            16..19 => MultiOp::Check { path, version: self.version() },
            _ => self.read_op(path),
        }
    }

    fn read_op<'a>(&mut self, path: &'a str) -> MultiOp<'a> {
        // Watches inside are ignored by servers, so they need no habit.
        let watch = self.dice.chance(50);
        if self.dice.chance(50) {
            MultiOp::GetData { path, watch }
        } else {
            MultiOp::GetChildren { path, watch }
        }
    }

    pub(super) fn multi_read(&mut self, _slot: usize) -> Action {
        let paths: Vec<String> = (0..self.dice.below(4)).map(|_| self.path()).collect();
        let mut ops: Vec<MultiOp<'_>> = paths.iter().map(|path| self.read_op(path)).collect();
        if self.dice.chance(5) {
            ops.push(MultiOp::Check { path: "/", version: -1 });
        }
        send(&Request::MultiRead(ops))
    }

    fn add_watch(&mut self, slot: usize) -> Action {
        let path = match self.alphabet.private(slot) {
            Some(private) if self.dice.chance(30) => private,
            _ => self.alphabet.ordinary(&mut self.dice),
        };
        let mode = match self.alphabet.habit(slot, &path) {
            Some(WatchHabit::Persistent) => 0,
            Some(WatchHabit::Recursive) => 1,
            Some(WatchHabit::OneShot) | None if self.dice.chance(80) => return self.exists(slot),
            Some(WatchHabit::OneShot) | None => self.dice.pick(&[-1, 2, 99]),
        };
        send(&Request::AddWatch { path: &path, mode })
    }

    /// Which watches are meant; of persistent ones always all: see `known`.
    fn watcher_kind(&mut self, slot: usize, path: &str) -> i32 {
        let one_shot = self.alphabet.habit(slot, path) == Some(WatchHabit::OneShot);
        match self.dice.below(10) {
            0 => self.dice.pick(&[0, -1, 99]),
            1..7 if one_shot => self.dice.pick(&[1, 2]),
            _ => 3,
        }
    }

    /// Only on paths that nobody else watches: see `known`.
    fn check_watches(&mut self, slot: usize) -> Action {
        let Some(path) = self.alphabet.private(slot) else { return self.remove_watches(slot) };
        send(&Request::CheckWatches { path: &path, kind: self.watcher_kind(slot, &path) })
    }

    fn remove_watches(&mut self, slot: usize) -> Action {
        let path = self.watched_path(slot);
        send(&Request::RemoveWatches { path: &path, kind: self.watcher_kind(slot, &path) })
    }

    /// What a client sends after it came back, having seen any transaction since the start, or one before it.
    pub(super) fn set_watches(&mut self, slot: usize) -> Action {
        let mut paths = |habit| self.alphabet.watched(slot, habit, &mut self.dice);
        let (data, exist, child) =
            (paths(WatchHabit::OneShot), paths(WatchHabit::OneShot), paths(WatchHabit::OneShot));
        let (persistent, recursive) = (paths(WatchHabit::Persistent), paths(WatchHabit::Recursive));
        let mut watches = SetWatches {
            relative_zxid: i64::try_from(self.dice.below(self.written * 2)).expect("small") - 1,
            data: data.iter().map(String::as_str).collect(),
            exist: exist.iter().map(String::as_str).collect(),
            child: child.iter().map(String::as_str).collect(),
            ..SetWatches::default()
        };
        if self.dice.chance(50) {
            return send(&Request::SetWatches(watches));
        }
        watches.persistent = persistent.iter().map(String::as_str).collect();
        watches.recursive = recursive.iter().map(String::as_str).collect();
        send(&Request::SetWatches2(watches))
    }

    pub(super) fn get_ephemerals(&mut self, _slot: usize) -> Action {
        send(&Request::GetEphemerals { prefix: &self.path() })
    }

    /// Never of the empty path: see `known`.
    fn get_all_children_number(&mut self, _slot: usize) -> Action {
        let path = match self.path() {
            path if path.is_empty() => "/".to_owned(),
            path => path,
        };
        send(&Request::GetAllChildrenNumber { path: &path })
    }

    fn who_am_i(&mut self, _slot: usize) -> Action {
        send(&Request::WhoAmI)
    }

    fn auth(&mut self, _slot: usize) -> Action {
        let scheme = self.dice.weighted(&[(20, "digest"), (2, "ip"), (1, "bogus"), (1, "world"), (1, "")]);
        send(&Request::Auth { scheme, credentials: self.dice.one_of(&CREDENTIALS).as_bytes() })
    }

    /// Requests that are refused, or change nothing.
    fn small_fry(&mut self, _slot: usize) -> Action {
        match self.dice.below(4) {
            0 => send(&Request::Reconfig),
            1 => send(&Request::DeleteContainer { path: &self.path() }),
            2 => Action::ConnectAhead,
            _ => send(&Request::Ping),
        }
    }

    fn unknown(&mut self, _slot: usize) -> Action {
        let op = self.dice.pick(&[0, 10, 23, 50, 99, 108, 1000, -1, -12]);
        let body = vec![0; self.dice.below(9)];
        let label = format!("unknown operation {op} with {} bytes", body.len());
        Action::Send(Message { label, xid: None, op, body, starts_with_zxid: false })
    }

    /// Any request, cut short or with an impossible length at its start.
    fn malformed(&mut self, slot: usize) -> Action {
        let kind = self.dice.weighted(&KINDS);
        let Action::Send(mut message) = kind(self, slot) else { return self.malformed(slot) };
        if message.body.is_empty() {
            return self.malformed(slot);
        }
        let starts_with_length =
            !message.starts_with_zxid && OpCode::from_code(message.op) == Some(OpCode::Create);
        if starts_with_length && self.dice.chance(30) {
            let length: i32 = self.dice.pick(&[-2, i32::MIN, i32::MAX]);
            message.body[..4].copy_from_slice(&length.to_be_bytes());
            message.label = format!("{} with length {length}", message.label);
        } else {
            message.body.truncate(self.dice.below(message.body.len()));
            message.label = format!("{} cut to {} bytes", message.label, message.body.len());
        }
        message.starts_with_zxid = false;
        Action::Send(message)
    }
}
