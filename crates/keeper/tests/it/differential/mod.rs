//! One script, two servers: the keeper answers like Apache ZooKeeper, except for what `known` lists.
//!
//! # Layout
//! - `dice`, `alphabet`, `creation`, `endings`, `guess`, `generate`: from a seed to a `script`.
//! - `run`: a script on a server, to a `transcript`; `known`: the differences that are meant.
//! - here: both at once, and what to show when they disagree.
//!
//! A failure prints its seed. `MENAGERIE_DIFF_SEED=17` runs that one alone, `MENAGERIE_DIFF_STEPS` makes scripts longer,
//! `MENAGERIE_DIFF_SEEDS` runs more of them.

mod alphabet;
mod creation;
mod dice;
mod endings;
mod generate;
mod guess;
mod known;
mod run;
mod script;
mod transcript;

use std::env;
use std::fmt::Write as _;
use std::ops::Range;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use menagerie_testkit::{Apache, Keeper, Server};

use self::known::Make;
use self::run::Stage;
use self::script::{Action, Step};
use self::transcript::{Transcript, first_difference};

/// Scripts in an ordinary run of the tests.
const SEEDS: u64 = 40;

/// Steps of a script.
const STEPS: usize = 150;

/// Scripts between two restarts of the keeper.
const SCRIPTS_PER_LIFE: usize = 10;

/// How often a failing script is tried with fewer steps, before it is shown.
const SHRINKS_MAX: usize = 150;

/// Failing scripts that are shown in full; of the others only the seed.
const SHOWN_MAX: usize = 3;

#[test]
fn keeper_and_apache_tell_the_same_story() {
    let (keeper, apache) = (Keeper::new().start(), start_apache());
    Theatre::new((Make::Keeper, keeper), (Make::Apache38, apache)).play(SEEDS);
}

/// Writes take so long here that sessions resume while theirs are in flight.
#[test]
fn keeper_on_a_slow_disk_and_apache_tell_the_same_story() {
    const SYNC: Duration = Duration::from_millis(40);
    let (keeper, apache) = (Keeper::new().slow_syncs(SYNC).start(), start_apache());
    Theatre::new((Make::Keeper, keeper), (Make::Apache38, apache)).play(SEEDS / 4);
}

/// The test of the test: what differs between two servers of one make is the fault of our scripts or masks.
#[test]
fn apache_and_apache_tell_the_same_story() {
    let (one, other) = (start_apache(), start_apache());
    Theatre::new((Make::Apache38, one), (Make::Apache38, other)).play(SEEDS / 8);
}

/// Durability is not the question here; nor is when containers are reaped, which would take transactions of its own.
fn start_apache() -> Server {
    Apache::new().unsynced().property("znode.container.checkIntervalMs=86400000").start()
}

fn setting<T: FromStr>(name: &str) -> Option<T> {
    let value = env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is not a number")))
}

/// Two stages that play the same scripts.
struct Theatre {
    servers: [(Make, Server); 2],
    /// Scripts played so far: each gets its own part of the tree.
    played: usize,
}

impl Theatre {
    fn new(one: (Make, Server), other: (Make, Server)) -> Self {
        Self { servers: [one, other], played: 0 }
    }

    fn stages(&self) -> [Stage; 2] {
        self.servers.each_ref().map(|(make, server)| Stage { make: *make, address: server.address() })
    }

    /// Kills the keeper between scripts: it must go on where it was. It also never gets old enough to reap containers,
    /// which would take transactions of its own.
    fn restart(&mut self) {
        for (make, server) in &mut self.servers {
            match make {
                Make::Keeper => server.restart(),
                Make::Apache38 => {}
            }
        }
    }

    /// Plays the scripts of all seeds, and only then complains: one cause often shows in many places.
    fn play(&mut self, seeds: u64) {
        let steps = setting("MENAGERIE_DIFF_STEPS").unwrap_or(STEPS);
        let seeds: Range<u64> = match setting("MENAGERIE_DIFF_SEED") {
            Some(seed) => seed..seed + 1,
            None => 0..setting("MENAGERIE_DIFF_SEEDS").unwrap_or(seeds),
        };
        let failed: Vec<(u64, String)> =
            seeds.filter_map(|seed| Some((seed, self.differs(seed, &vec![true; steps])?))).collect();
        if failed.is_empty() {
            return;
        }
        let numbers: Vec<u64> = failed.iter().map(|(seed, _)| *seed).collect();
        let mut report = format!("scripts of {steps} steps with different outcomes: seeds {numbers:?}\n");
        for (seed, difference) in failed.into_iter().take(SHOWN_MAX) {
            let difference = self.shortest(seed, steps, difference);
            let _ = writeln!(report, "\n== MENAGERIE_DIFF_SEED={seed}\n{difference}");
        }
        panic!("{report}");
    }

    /// Plays those steps of a seed's script that are kept, on both stages at once, and shows where they differ.
    fn differs(&mut self, seed: u64, keep: &[bool]) -> Option<String> {
        self.played += 1;
        if self.played.is_multiple_of(SCRIPTS_PER_LIFE) {
            self.restart();
        }
        let prefix = format!("/s{:05}", self.played);
        let script = generate::script(seed, keep.len(), &prefix);
        let script: Vec<Step> =
            script.into_iter().zip(keep).filter(|(_, keep)| **keep).map(|(step, _)| step).collect();
        let [one, other] = self.stages();
        let (ours, theirs) = thread::scope(|scope| {
            let theirs = scope.spawn(|| run::run(other, &script));
            (run::run(one, &script), theirs.join().expect("the other stage plays to the end"))
        });
        let at = first_difference(&ours, &theirs)?;
        Some(self.show(&script, at, &ours, &theirs))
    }

    /// Leaves out steps, in ever smaller pieces, as long as a difference remains: what is shown is what it takes.
    fn shortest(&mut self, seed: u64, steps: usize, first: String) -> String {
        let mut keep = vec![true; steps];
        let Some(mut shown) = self.differs(seed, &keep) else { return format!("not seen again:\n{first}") };
        let (mut piece, mut tries) = (steps / 2, 0);
        while piece > 0 {
            for start in (0..steps).step_by(piece).rev() {
                let piece = start..(start + piece).min(steps);
                if tries == SHRINKS_MAX || keep[piece.clone()].iter().all(|kept| !kept) {
                    continue;
                }
                let mut fewer = keep.clone();
                fewer[piece].fill(false);
                tries += 1;
                if let Some(difference) = self.differs(seed, &fewer) {
                    (keep, shown) = (fewer, difference);
                }
            }
            piece /= 2;
        }
        shown
    }

    fn show(&self, script: &[Step], at: usize, ours: &Transcript, theirs: &Transcript) -> String {
        /// Steps before the difference: they are what led to it, if the script is short.
        const BEFORE: usize = 12;
        let mut text = String::new();
        for (i, step) in script.iter().enumerate().take(at + 1).skip(at.saturating_sub(BEFORE)) {
            let _ = writeln!(text, "{i:>4} slot {}: {}", step.slot, label(&step.action));
            if i < at {
                let first = ours[i].0.first().map_or("", |line| line.lines().next().unwrap_or_default());
                let _ = writeln!(text, "       {first}");
            }
        }
        if at >= script.len() {
            let _ = writeln!(text, "     slot {}: closes at the end", at - script.len());
        }
        for (stage, outcome) in self.stages().iter().zip([&ours[at], &theirs[at]]) {
            let _ = writeln!(text, "  {:?}:\n    {}", stage.make, outcome.0.join("\n    "));
        }
        text
    }
}

fn label(action: &Action) -> String {
    match action {
        Action::Send(message) => match message.xid {
            Some(xid) => format!("{} as {xid}", message.label),
            None => message.label.clone(),
        },
        Action::Cut(cut) => {
            let under_way: Vec<&str> = cut.under_way.iter().map(|message| message.label.as_str()).collect();
            let how = if cut.drop_first { "dropped" } else { "taken over" };
            format!("{} while under way: {under_way:#?}, then {}", how, cut.first.label)
        }
        Action::Close | Action::Resume(_) | Action::ConnectAhead => format!("{action:?}"),
    }
}
