//! The few names that scripts use: few enough that sessions meet on them all the time.

use menagerie_wire::{Acl, Id, Perms};

use super::dice::Dice;
use super::script::SLOTS;

/// Paths that only the session in that slot watches: see `known` for why `checkWatches` needs such.
const PRIVATE: [(usize, &str); 3] = [(0, "/b/a"), (1, "/c"), (2, "/a/b/c")];

/// How a session watches a path during one script: see `known` for why never in two ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchHabit {
    OneShot,
    Persistent,
    Recursive,
}

#[derive(Debug)]
pub struct Alphabet {
    /// The script's own part of the tree.
    pub prefix: String,
    /// Paths on which things succeed.
    ordinary: Vec<String>,
    /// Paths that are wrong, or not ours.
    hostile: Vec<String>,
    /// By slot and ordinary path.
    habits: Vec<Vec<WatchHabit>>,
}

impl Alphabet {
    pub fn new(prefix: &str, dice: &mut Dice) -> Self {
        let below = |suffixes: &[&str]| -> Vec<String> {
            suffixes.iter().map(|suffix| format!("{prefix}{suffix}")).collect()
        };
        let ordinary = below(&[
            "",
            "/a",
            "/b",
            "/c",
            "/a/a",
            "/a/b",
            "/b/a",
            "/a/a/a",
            "/a/b/c",
            "/a0000000001",
            "/a/b0000000000",
        ]);
        let mut hostile = below(&[
            "/",
            "/a/",
            "/a//b",
            "//",
            "/a/./b",
            "/.",
            "/a/..",
            "/a\0",
            "/\u{1}",
            "/a/\u{e000}",
            "/\u{fff0}",
            "/nope/nope",
            "/é",
        ]);
        hostile.extend(
            [
                "",
                "/",
                "a",
                "//",
                "/zookeeper",
                "/zookeeper/config",
                "/zookeeper/quota",
                "/zookeeper/x",
                "/zookeeper/config/x",
            ]
            .map(str::to_owned),
        );
        let habit = [(70, WatchHabit::OneShot), (15, WatchHabit::Persistent), (15, WatchHabit::Recursive)];
        let habits = (0..SLOTS).map(|_| ordinary.iter().map(|_| dice.weighted(&habit)).collect()).collect();
        Self { prefix: prefix.to_owned(), ordinary, hostile, habits }
    }

    /// A path on which things can succeed.
    pub fn ordinary(&self, dice: &mut Dice) -> String {
        self.ordinary[dice.below(self.ordinary.len())].clone()
    }

    /// Any path: mostly an ordinary one.
    pub fn any(&self, dice: &mut Dice) -> String {
        if dice.chance(90) {
            self.ordinary(dice)
        } else {
            self.hostile[dice.below(self.hostile.len())].clone()
        }
    }

    /// The path that nobody but that session watches, if it has one.
    pub fn private(&self, slot: usize) -> Option<String> {
        let (_, suffix) = PRIVATE.iter().find(|(owner, _)| *owner == slot)?;
        Some(format!("{}{suffix}", self.prefix))
    }

    /// How that session watches that path; `None` if it never does.
    pub fn habit(&self, slot: usize, path: &str) -> Option<WatchHabit> {
        let suffix = path.strip_prefix(&self.prefix);
        if PRIVATE.iter().any(|(owner, private)| *owner != slot && suffix == Some(private)) {
            return None;
        }
        let at = self.ordinary.iter().position(|ordinary| ordinary == path)?;
        Some(self.habits[slot][at])
    }

    /// Up to three of the paths that the session watches in that way.
    pub fn watched(&self, slot: usize, habit: WatchHabit, dice: &mut Dice) -> Vec<String> {
        let all = self.ordinary.iter().filter(|path| self.habit(slot, path) == Some(habit));
        let all: Vec<&String> = all.collect();
        if all.is_empty() {
            return Vec::new();
        }
        (0..dice.below(4)).map(|_| all[dice.below(all.len())].clone()).collect()
    }
}

/// Credentials of the digest scheme; the last two are odd, but accepted.
pub const CREDENTIALS: [&str; 5] = ["u:p", "v:q", "u:other", "", "zz"];

/// `u` with the password `p`, and `v` with `q`, as access lists name them.
const DIGESTS: [&str; 2] = ["u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=", "v:Mfy8apI9YguGKmh+AxUmAFSwkII="];

/// Entries that are valid for everybody.
const GOOD: [(&str, &str); 6] = [
    ("world", "anyone"),
    ("digest", DIGESTS[0]),
    ("digest", DIGESTS[1]),
    ("ip", "127.0.0.1"),
    ("ip", "127.0.0.0/8"),
    ("ip", "10.0.0.0/8"),
];

/// Entries that spoil a list, always or (`auth`) for sessions without credentials.
const DOUBTFUL: [(&str, &str); 14] = [
    ("auth", ""),
    ("auth", "ignored"),
    ("world", "bob"),
    ("world", ""),
    ("digest", "u"),
    ("digest", "u:p:q"),
    ("digest", "u:"),
    ("digest", ":p"),
    ("ip", "256.0.0.1"),
    ("ip", "127.0.0.1/33"),
    ("ip", "::1"),
    ("bogus", "x"),
    ("super", "x"),
    ("", ""),
];

/// An access list: mostly the open one, or scripts would soon lock themselves out.
pub fn acl(dice: &mut Dice) -> Vec<Acl> {
    if dice.chance(80) {
        return vec![Acl::open()];
    }
    let mut list: Vec<Acl> = (0..dice.below(4)).map(|_| entry(dice)).collect();
    if dice.chance(20)
        && let Some(first) = list.first().cloned()
    {
        list.push(first);
    }
    list
}

fn entry(dice: &mut Dice) -> Acl {
    let (scheme, id) = if dice.chance(70) { dice.pick(&GOOD) } else { dice.pick(&DOUBTFUL) };
    let perms = match dice.below(4) {
        0 => i32::try_from(dice.below(33)).expect("small"),
        1 => dice.pick(&[-1, 1, 16, 17]),
        _ => Perms::ALL.0,
    };
    Acl { perms: Perms(perms), id: Id::new(scheme, id) }
}
