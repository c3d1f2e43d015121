//! Ledger and window together: what a lane records is true, and survives its owner.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use menagerie_journal::{MessageId, Ticks};
use menagerie_kernel::Fence;
use menagerie_znodes::Name;
use menagerie_znodes::queues::{Handling, Order, PartitionName, QueueName, Retry};
use proptest::prelude::*;

use super::{count, id, message};
use crate::core::lane::{Holder, Lane, Ownership, RecordPlan};
use crate::core::ledger::{Ack, Commit};
use crate::core::options::Options;
use crate::core::tally::StoredAttempts;
use crate::core::window::{RunId, Standing};

#[derive(Debug, Clone)]
enum Step {
    Put(usize),
    Begin,
    /// A run ends; each message is done or backs off for so long.
    End(usize, Vec<Option<u64>>),
    /// A record is confirmed; or it is stored and its owner dies before it knows.
    Confirm,
    /// The owner dies; the record in flight is stored or not.
    Crash(bool),
    Pass(u64),
    Close(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let fate = prop_oneof![3 => Just(None), 1 => (1_u64..60).prop_map(Some)];
    let step = prop_oneof![
        4 => (0_usize..4).prop_map(Step::Put),
        6 => Just(Step::Begin),
        6 => (any::<usize>(), prop::collection::vec(fate, 3)).prop_map(|(run, fates)| Step::End(run, fates)),
        4 => Just(Step::Confirm),
        1 => any::<bool>().prop_map(Step::Crash),
        2 => (1_u64..40).prop_map(Step::Pass),
        1 => prop::bool::weighted(0.3).prop_map(Step::Close),
    ];
    prop::collection::vec(step, 0..200)
}

/// A lane, what is stored, and what is true.
struct World {
    options: Options,
    handling: Handling,
    lane: Lane,
    now: Instant,
    put: Vec<(MessageId, usize)>,
    finished: BTreeSet<MessageId>,
    cursor: MessageId,
    beyond: Option<(MessageId, Vec<MessageId>)>,
    in_flight: Option<RecordPlan>,
    runs: Vec<(RunId, Vec<MessageId>)>,
    last_run: u64,
}

fn own(
    options: &Options,
    handling: Handling,
    cursor: MessageId,
    beyond: Option<(MessageId, Vec<MessageId>)>,
    predecessor: Option<Holder>,
) -> Lane {
    let queue: QueueName = "mail".parse().unwrap();
    let partition: PartitionName = queue.partition(1);
    let attempts = StoredAttempts::default();
    let (fence, term, reported) = (Fence::new(1, 1), 1, id(0));
    let owned =
        Ownership { partition, fence, term, cursor, beyond, attempts, predecessor, reported, handling };
    Lane::new(owned, options, None)
}

impl World {
    fn new(options: Options, handling: Handling) -> Self {
        let lane = own(&options, handling, id(0), None, None);
        Self {
            options,
            handling,
            lane,
            now: Instant::now(),
            put: Vec::new(),
            finished: BTreeSet::new(),
            cursor: id(0),
            beyond: None,
            in_flight: None,
            runs: Vec::new(),
            last_run: 0,
        }
    }

    fn is_recorded(&self, id: MessageId) -> bool {
        let beyond = |(through, open): &(MessageId, Vec<MessageId>)| id <= *through && !open.contains(&id);
        id <= self.cursor || self.beyond.as_ref().is_some_and(beyond)
    }

    /// Reads whatever can be read, as the machine does.
    fn read(&mut self) {
        while let Some((_, only)) = self.lane.next_read(usize::MAX) {
            let after = self.lane.read_after();
            let wanted = |id: MessageId| only.map_or(id > after, |only| only == id);
            let found = self.put.iter().filter(|(id, _)| wanted(*id));
            let found =
                found.map(|(id, key)| message(id.0.0, [None, Some("a"), Some("b"), Some("c")][*key], 0));
            let found: Vec<_> = found.take(100).collect();
            let is_end = found.is_empty();
            self.lane.on_read(only, found, self.now);
            if is_end {
                break;
            }
        }
    }

    fn begin(&mut self) -> Result<(), TestCaseError> {
        let Some(first) = self.lane.candidate(self.now) else { return Ok(()) };
        let batch = self.lane.batch(first, self.options.batch, Ticks(0));
        for id in &batch {
            prop_assert!(!self.is_recorded(*id), "{} is recorded, and begins", id.0.0);
        }
        self.last_run += 1;
        let attempts: Vec<(MessageId, u32)> = batch.iter().map(|id| (*id, 1)).collect();
        self.lane.tally.mark_begun(&batch);
        self.lane.window.begin(RunId(self.last_run), &attempts, Some(self.now));
        self.runs.push((RunId(self.last_run), batch));
        Ok(())
    }

    fn end(&mut self, run: usize, fates: &[Option<u64>]) {
        let Some(index) = run.checked_rem(self.runs.len()) else { return };
        let (run, _) = self.runs.remove(index);
        let mut is_broken = false;
        for ((id, ..), fate) in self.lane.window.end(run).into_iter().zip(fates) {
            match fate {
                // In order, what is behind a failure in its batch runs again.
                _ if is_broken => self.lane.window.set(id, Standing::Waiting),
                None => {
                    self.finished.insert(id);
                    self.lane.finish(id, self.now);
                }
                Some(ms) => {
                    let until = self.now + Duration::from_millis(*ms);
                    self.lane.window.set(id, Standing::BackingOff(until));
                    is_broken = !self.lane.is_side_by_side();
                }
            }
        }
    }

    fn store(&mut self) -> Result<(), TestCaseError> {
        let Some(plan) = self.in_flight.take() else { return Ok(()) };
        prop_assert!(plan.cursor >= self.cursor, "forward");
        self.cursor = plan.cursor;
        self.beyond = plan.beyond.or(self.beyond.take());
        let done = |(id, _): &(MessageId, usize)| !self.is_recorded(*id) || self.finished.contains(id);
        prop_assert!(self.put.iter().all(done), "an unfinished message is recorded as done");
        Ok(())
    }

    fn play(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Put(key) => self.put.push((id(self.put.len() as u64 * 3 + 5), key)),
            Step::Begin => self.begin()?,
            Step::End(run, fates) => self.end(run, &fates),
            Step::Confirm => {
                if self.in_flight.is_some() {
                    self.store()?;
                    self.lane.confirm_record();
                }
            }
            Step::Crash(is_stored) => {
                match is_stored {
                    true => self.store()?,
                    false => self.in_flight = None,
                }
                self.runs.clear();
                let holder = Holder::new(Fence::new(1, 1), None, self.handling.order, &self.options);
                let beyond = self.beyond.clone().filter(|_| Lane::has_gaps(&self.handling));
                self.lane = own(&self.options, self.handling, self.cursor, beyond, Some(holder));
            }
            Step::Pass(ms) => self.now += Duration::from_millis(ms),
            Step::Close(true) => self.lane.ledger.close(),
            Step::Close(false) => self.lane.ledger.reopen(),
        }
        self.lane.window.wake(self.now);
        self.read();
        if let Some(plan) = self.lane.record_due(self.now) {
            prop_assert!(self.in_flight.is_none(), "one at a time");
            prop_assert!(plan.cursor > self.cursor || plan.beyond.is_some(), "it says something");
            self.in_flight = Some(plan);
        }
        self.check()
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let first = self.put.iter().map(|(id, _)| *id).find(|id| !self.finished.contains(id));
        let frontier = self.lane.ledger.frontier(self.lane.window.first());
        prop_assert!(first.is_none_or(|first| frontier < first), "beyond an unfinished message");
        prop_assert_eq!(self.lane.ledger.confirmed(), self.cursor);
        if self.lane.can_end() {
            prop_assert!(self.in_flight.is_none() && self.runs.is_empty());
            // Under this owner; what an earlier one finished without a record runs again.
            let lane = |id: &&MessageId| self.lane.window.slot(**id).is_none() && **id <= self.lane.read;
            prop_assert!(self.finished.iter().filter(lane).all(|id| self.is_recorded(*id)));
        }
        let width = if self.handling.order == Order::Partition { 1 } else { self.options.concurrency };
        let window = self.options.commit.window(Ack::After, width, self.options.batch) as usize;
        let unrecorded = |id: &&MessageId| self.lane.window.slot(**id).is_none() && !self.is_recorded(**id);
        let unrecorded = self.finished.iter().filter(unrecorded).filter(|id| **id <= self.lane.read).count();
        let running: usize = self.runs.iter().map(|(_, batch)| batch.len()).sum();
        prop_assert!(
            !matches!(self.options.commit, Commit::Count(_)) || unrecorded + running <= window,
            "{} done and {} running without a record, of {}",
            unrecorded,
            running,
            window
        );
        Ok(())
    }
}

proptest! {
    /// Whatever happens and whoever dies: the cursor goes forward, and never beyond an unfinished message; no record says
    /// that an unfinished message is done; what is recorded never begins again; no more is begun without a record than
    /// the next owner expects.
    #[test]
    fn records_are_true_and_bound_what_is_repeated(
        steps in steps(), order in 0_usize..3, blocks in any::<bool>(), concurrency in 1_usize..5, batch in 1_usize..4,
        commit in 0_usize..4,
    ) {
        let order = [Order::Partition, Order::Key, Order::None][order];
        let retry = Some(if blocks { Retry::Block } else { Retry::Later });
        let handling = Handling { order, retry, ..Handling::default() };
        let mut options = Options::new(Name::new("w").unwrap(), Vec::new());
        (options.concurrency, options.batch) = (concurrency, batch);
        let every = Commit::Every(Duration::from_millis(20));
        options.commit = [Commit::EACH, count(2), count(5), every][commit];
        let mut world = World::new(options, handling);
        for step in steps {
            world.play(step)?;
        }
    }
}

#[test]
fn where_messages_overtook_others_all_that_were_read_or_not_recorded_may_have_begun() {
    let predecessor = Holder { fence: "another".to_owned(), window: 600, crashes: 0, released: false };
    let options = Options::new(Name::new("w").unwrap(), Vec::new());
    let suspects = |order, beyond| {
        let handling = Handling { order, ..Handling::default() };
        own(&options, handling, id(0), beyond, Some(predecessor.clone())).tally.suspects()
    };
    assert_eq!(suspects(Order::Partition, None), 600);
    assert_eq!(suspects(Order::None, None), 1_624);
    assert_eq!(suspects(Order::Partition, Some((id(3), vec![id(1)]))), 1_624, "it had another order before");
}
