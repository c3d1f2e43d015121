//! Power cuts, and crashes of the process, at every operation of random scripts.

use std::sync::Arc;

use menagerie_wal::sim::{Chance, SimDisk};
use menagerie_wal::{Durability, Error, Options, Wal, verify_on};
use proptest::prelude::*;

use crate::harness::{Opened, SMALL, open};

#[derive(Debug, Clone)]
enum Step {
    /// One record with a payload of this many bytes.
    Append(usize),
    Commit,
    Abandon,
    Sync,
    /// Snapshot this percentage of what is durable, and drop it.
    Drop(u64),
    /// Close and open again.
    Reopen,
    /// Lose the process, but not the power, and open again.
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0usize..90).prop_map(Step::Append),
        1 => (300usize..900).prop_map(Step::Append),
        6 => Just(Step::Commit),
        1 => Just(Step::Abandon),
        1 => Just(Step::Sync),
        2 => (0u64..=100).prop_map(Step::Drop),
        1 => Just(Step::Reopen),
        1 => Just(Step::Crash),
    ];
    proptest::collection::vec(step, 1..28)
}

/// An owner that remembers everything acknowledged.
struct Owner {
    options: Options,
    disk: SimDisk,
    wal: Option<Wal>,
    /// All committed payloads; the first has sequence number 1.
    committed: Vec<Vec<u8>>,
    /// Appended, not committed.
    group: Vec<Vec<u8>>,
    /// Whether a commit of `group` was begun, so that it may be in the log.
    committing: bool,
    /// Number of records known durable.
    durable: usize,
    covered: u64,
    /// Makes each payload unlike all others, so that an abandoned one that comes back is recognised.
    appended: u64,
}

impl Owner {
    fn new(options: Options) -> Self {
        Self {
            options,
            disk: SimDisk::new(),
            wal: None,
            committed: Vec::new(),
            group: Vec::new(),
            committing: false,
            durable: 0,
            covered: 0,
            appended: 0,
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), Error> {
        if self.wal.is_none() {
            self.open()?;
        }
        let wal = self.wal.as_mut().unwrap();
        match step {
            Step::Append(bytes) => {
                self.appended += 1;
                let mut payload = self.appended.to_le_bytes().to_vec();
                payload.extend((0..*bytes).map(|byte| (byte as u64 * 7 + self.appended) as u8));
                wal.append(&[&payload])?;
                self.group.push(payload);
            }
            Step::Commit => {
                self.committing = true;
                wal.commit()?;
                self.committing = false;
                self.committed.append(&mut self.group);
            }
            Step::Abandon => {
                wal.abandon();
                self.group.clear();
            }
            Step::Sync => wal.sync()?,
            Step::Drop(percent) => {
                wal.sync()?;
                self.durable = self.committed.len();
                self.covered = self.covered.max(wal.synced_sequence() * percent / 100);
                wal.drop_covered(self.covered)?;
            }
            Step::Reopen => {
                self.group.clear();
                self.wal.take().unwrap().close()?;
                self.durable = self.committed.len();
                let torn = self.open()?;
                assert!(!torn, "a clean close leaves nothing torn");
            }
            Step::Crash => {
                self.group.clear();
                self.wal = None;
                let torn = self.open()?;
                assert!(!torn, "nothing was being written");
            }
        }
        self.durable = self.durable.max(self.wal.as_ref().map_or(0, |wal| wal.synced_sequence() as usize));
        Ok(())
    }

    /// Opens the log and compares; afterwards what was found is what was committed, and durable. True if a torn
    /// tail was cut.
    fn open(&mut self) -> Result<bool, Error> {
        let verified = verify_on(Arc::new(self.disk.clone()), self.covered)?;
        let Opened { wal, recovery, records } = open(&self.disk, self.options, self.covered)?;
        assert_eq!((verified.last_sequence, verified.torn), (recovery.last_sequence, recovery.torn));
        let torn = recovery.torn.is_some();
        let writing = self.committing || self.options.durability == Durability::Os;
        assert!(writing || !torn, "nothing was being written, so nothing can be torn");
        let mut possible = self.committed.clone();
        if self.committing {
            possible.append(&mut self.group);
        }
        let last = recovery.last_sequence as usize;
        assert!(last >= self.durable, "{last} of {} durable records", self.durable);
        assert!(last <= possible.len(), "{last} records, but only {} were written", possible.len());
        possible.truncate(last);
        let numbered = (1..).zip(possible.iter().cloned()).skip(self.covered as usize);
        assert_eq!(records, numbered.collect::<Vec<_>>());
        // Opening made replayed records durable, so the owner may rely on them.
        self.durable = last;
        self.committed = possible;
        self.group.clear();
        self.committing = false;
        self.wal = Some(wal);
        Ok(torn)
    }

    /// The power comes back, or the process is started again.
    fn lose(&mut self, chance: &mut Chance) {
        self.wal = None;
        if chance.below(4) == 0 {
            self.disk.restart();
        } else {
            self.disk = self.disk.power_cut(chance);
        }
        // Until it is opened, only a commit in progress may show.
        if !self.committing {
            self.group.clear();
        }
    }
}

/// Runs a script with the power failing after `operations`; then opens, losing the power again meanwhile now and
/// then; then carries the script to its end and closes.
fn run(script: &[Step], options: Options, operations: u64, seed: u64) {
    let mut owner = Owner::new(options);
    let mut chance = Chance::new(seed ^ operations << 20);
    owner.disk.cut_power_after(operations);
    let done = script.iter().take_while(|step| owner.step(step).is_ok()).count();
    owner.lose(&mut chance);
    for _ in 0..chance.below(3) {
        owner.disk.cut_power_after(chance.below(12));
        let _ = owner.open();
        owner.lose(&mut chance);
    }
    owner.open().expect("what a power cut leaves can be opened");
    owner.lose(&mut chance);
    let torn = owner.open().expect("and opened again");
    assert!(!torn, "a tail is cut once");
    for step in &script[done..] {
        owner.step(step).expect("the log goes on after a power cut");
    }
    owner.step(&Step::Reopen).expect("a clean close and opening");
}

/// The number of operations of a script that meets no power cut.
fn operations(script: &[Step], options: Options) -> u64 {
    let mut owner = Owner::new(options);
    for step in script {
        owner.step(step).expect("nothing fails");
    }
    owner.disk.operations()
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, max_shrink_time: 10_000, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(32))]

    #[test]
    fn everything_acknowledged_survives_a_power_cut_at_any_operation(script in steps(), seed: u64) {
        for operations in 0..=operations(&script, SMALL) {
            run(&script, SMALL, operations, seed);
        }
    }

    #[test]
    fn without_syncs_a_power_cut_leaves_a_prefix_and_no_gap(script in steps(), seed: u64) {
        let options = Options { durability: Durability::Os, ..SMALL };
        for operations in 0..=operations(&script, options) {
            run(&script, options, operations, seed);
        }
    }
}

/// A fixed script through all states, with many subsets for each operation: also those that chance leaves out above.
#[test]
fn a_log_survives_many_subsets_at_each_operation() {
    use Step::{Abandon, Append, Commit, Crash, Drop, Reopen};
    let script = [
        Append(20),
        Commit,
        Append(60),
        Append(700),
        Append(5),
        Commit,
        Append(80),
        Abandon,
        Append(30),
        Commit,
        Reopen,
        Append(90),
        Append(90),
        Commit,
        Drop(60),
        Append(90),
        Append(90),
        Append(90),
        Commit,
        Crash,
        Append(400),
        Commit,
        Drop(100),
        Append(90),
        Commit,
        Append(70),
        Append(70),
        Append(70),
        Append(70),
        Commit,
    ];
    for operations in 0..=operations(&script, SMALL) {
        for seed in 0..16 {
            run(&script, SMALL, operations, seed);
        }
    }
}

/// The process dies, so that what it wrote is there but not durable; then the power fails while the log is opened.
/// Opening must make durable what it found before it builds on it: names too.
#[test]
fn a_power_cut_while_opening_after_a_crash_loses_nothing_that_was_found() {
    use Step::{Append, Commit};
    let script = [Append(200), Commit, Append(200), Commit, Append(80), Append(80), Commit];
    for operations in 0..=operations(&script, SMALL) {
        for (opening, seed) in (0..12).flat_map(|opening| (0..16).map(move |seed| (opening, seed))) {
            let mut owner = Owner::new(SMALL);
            owner.disk.cut_power_after(operations);
            let done = script.iter().take_while(|step| owner.step(step).is_ok()).count();
            owner.wal = None;
            owner.disk.restart();
            owner.disk.cut_power_after(opening);
            let _ = owner.open();
            owner.wal = None;
            owner.disk = owner.disk.power_cut(&mut Chance::new(seed << 20 | operations << 8 | opening));
            let what = format!("{operations} operations, then {opening}, seed {seed}");
            owner.open().unwrap_or_else(|error| panic!("{what}: {error}"));
            for step in &script[done..] {
                owner.step(step).unwrap_or_else(|error| panic!("{what}: {error}"));
            }
        }
    }
}
