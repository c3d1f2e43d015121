//! A worker with one partition, told facts one by one; what it does about them comes as text.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use menagerie_journal::{JournalError, Message, MessageId, Ticks};
use menagerie_kernel::Fence;
use menagerie_znodes::Name;
use menagerie_znodes::queues::{Handling, Order, PartitionName, QueueName, Retry};

use super::super::{id, message};
use crate::core::lane::{Handover, Holder, Ownership, RecordPlan};
use crate::core::ledger::Recorded;
use crate::core::machine::{
    Effect, Fact, Fetched, Happening, How, Instructed, Machine, Noted, Now, Owned, Urgency,
};
use crate::core::options::Options;
use crate::core::tally::StoredAttempts;
use crate::core::window::RunId;
use crate::task::Outcome;

/// A worker that serves the queue `mail`, whose only partition is `mail-1`.
pub struct Script {
    pub machine: Machine,
    handling: Handling,
    started: Instant,
    /// Time since the start.
    pub at: Duration,
    fence: i64,
    /// What the last read asked for.
    asked: Option<MessageId>,
    runs: BTreeMap<RunId, Vec<MessageId>>,
    /// How attempts and messages ended.
    pub endings: Vec<String>,
    /// Messages that began, with the attempt as their task sees it.
    pub told: Vec<(u64, u32)>,
}

pub fn queue() -> QueueName {
    "mail".parse().unwrap()
}

pub fn partition() -> PartitionName {
    queue().partition(1)
}

/// What a partition that nobody had before is found with.
pub fn fresh() -> Ownership {
    Ownership {
        partition: partition(),
        fence: Fence::new(1, 0),
        term: 1,
        cursor: id(0),
        beyond: None,
        attempts: StoredAttempts::default(),
        predecessor: None,
        reported: id(0),
        handling: Handling::default(),
    }
}

/// A previous owner that did not release, after so many others.
pub fn vanished(window: u32, crashes: u32) -> Option<Holder> {
    Some(Holder { fence: "another".to_owned(), window, crashes, released: false })
}

impl Script {
    pub fn new(order: Order, retry: Option<Retry>, adjust: impl FnOnce(&mut Options)) -> Self {
        let handling = Handling { order, retry, ..Handling::default() };
        let mut options = Options::new(Name::new("w").unwrap(), vec![queue()]);
        options.first_read_wait = Duration::ZERO;
        adjust(&mut options);
        let mut script = Self {
            machine: Machine::new(options),
            handling,
            started: Instant::now(),
            at: Duration::ZERO,
            fence: 0,
            asked: None,
            runs: BTreeMap::new(),
            endings: Vec::new(),
            told: Vec::new(),
        };
        let handling = BTreeMap::from([(queue(), handling)]);
        script.step(Fact::Instructed(Instructed { handling, ..Instructed::default() }));
        script
    }

    /// One that has claimed its partition as found, and is reading.
    pub fn owning(mut self, found: Ownership) -> Self {
        assert_eq!(self.assign(true), ["claim"]);
        self.claimed(found);
        self
    }

    pub fn now(&self) -> Now {
        let ticks = u64::try_from(self.at.as_millis()).unwrap();
        Now { instant: self.started + self.at, ticks: Ticks(ticks) }
    }

    pub fn owned(&self) -> Owned {
        Owned { partition: partition(), fence: Fence::new(1, self.fence) }
    }

    pub fn step(&mut self, fact: Fact) -> Vec<String> {
        let effects = self.machine.step(fact, self.now());
        effects.into_iter().filter_map(|effect| self.describe(effect)).collect()
    }

    pub fn assign(&mut self, is_ours: bool) -> Vec<String> {
        let partitions = is_ours.then(partition).into_iter().collect::<BTreeSet<_>>();
        self.step(Fact::Assigned { epoch: 1, partitions })
    }

    /// The claim succeeds, under a new fence.
    pub fn claimed(&mut self, found: Ownership) -> Vec<String> {
        self.fence += 1;
        let fence = Fence::new(1, self.fence);
        self.step(Fact::Claimed(Box::new(Ownership { fence, handling: self.handling, ..found })))
    }

    /// The read in flight finds these messages.
    pub fn read(&mut self, messages: impl IntoIterator<Item = Message>) -> Vec<String> {
        let read = Ok((messages.into_iter().collect(), None));
        let fetched = Fetched { asked: self.asked, read };
        self.step(Fact::Fetched(self.owned(), fetched))
    }

    /// The read in flight finds messages with these numbers.
    pub fn read_numbers(&mut self, numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
        self.read(numbers.into_iter().map(|number| message(number, None, 0)))
    }

    /// The run of this message, and possibly of others, ends.
    pub fn ran(&mut self, number: u64, ran: Result<Vec<Outcome>, JournalError>) -> Vec<String> {
        let run = self.runs.iter().find(|(_, messages)| messages.contains(&id(number)));
        let run = *run.unwrap_or_else(|| panic!("{number} does not run")).0;
        self.runs.remove(&run);
        self.step(Fact::Ran(self.owned(), run, ran))
    }

    /// All messages of the run with this one are done.
    pub fn done(&mut self, number: u64) -> Vec<String> {
        let count = self.running().into_iter().find(|run| run.contains(&number)).map_or(0, |run| run.len());
        self.ran(number, Ok(vec![Outcome::Done; count]))
    }

    pub fn fail(&mut self, number: u64) -> Vec<String> {
        self.ran(number, Ok(vec![Outcome::retry("no")]))
    }

    pub fn noted(&mut self, number: u64, noted: Noted) -> Vec<String> {
        self.step(Fact::Noted(self.owned(), id(number), noted))
    }

    pub fn recorded(&mut self, recorded: Recorded) -> Vec<String> {
        self.step(Fact::Recorded(self.owned(), recorded))
    }

    pub fn confirmed(&mut self) -> Vec<String> {
        self.recorded(Recorded::Confirmed)
    }

    pub fn pass(&mut self, time: Duration) -> Vec<String> {
        self.at += time;
        self.step(Fact::Timer)
    }

    /// Messages of each run.
    pub fn running(&self) -> Vec<Vec<u64>> {
        self.runs.values().map(|messages| messages.iter().map(|id| id.0.0).collect()).collect()
    }

    fn describe(&mut self, effect: Effect) -> Option<String> {
        Some(match effect {
            Effect::Claim(_) => "claim".to_owned(),
            Effect::CancelClaim(_) => "cancel claim".to_owned(),
            Effect::Fetch(_, fetch) => {
                self.asked = fetch.only;
                match fetch.only {
                    Some(only) => format!("read {}", only.0.0),
                    None => format!("read after {}", fetch.after.0.0),
                }
            }
            Effect::CancelFetch(_) => "cancel read".to_owned(),
            Effect::Run(_, run) => {
                let messages: Vec<MessageId> = run.messages.iter().map(|message| message.id).collect();
                self.told.extend(messages.iter().map(|id| id.0.0).zip(run.attempts.iter().copied()));
                let store = run.store.map_or(String::new(), |store| format!("count {}, ", store.attempts));
                let attempts: Vec<String> =
                    run.attempts.iter().filter(|attempt| **attempt > 1).map(u32::to_string).collect();
                let attempts = match attempts.is_empty() {
                    true => String::new(),
                    false => format!(" (attempt {})", attempts.join(" ")),
                };
                let text = format!("{store}run {}{attempts}", numbers(&messages));
                self.runs.insert(run.run, messages);
                text
            }
            Effect::Stop(run) => {
                format!("stop {}", self.runs.get(&run).map_or("?".to_owned(), |run| numbers(run)))
            }
            Effect::Note(_, note) => {
                let (number, made) = (note.message.id.0.0, note.attempts.attempts);
                let end = if note.given_up.is_some() { ", given up" } else { "" };
                let settled = match note.settled.is_empty() {
                    true => String::new(),
                    false => format!(", forget {}", numbers(&note.settled)),
                };
                format!("note {number} attempt {made}{end}{settled}")
            }
            Effect::Record(_, plan, urgency) => record(&plan, urgency),
            Effect::Release(_, handover) => release(&handover),
            Effect::Drop(_) => "drop".to_owned(),
            Effect::GiveUpNotes(_) => "give up notes".to_owned(),
            Effect::Publish(_) | Effect::Report { .. } => return None,
            Effect::Tell(happening) => {
                self.endings.extend(ending(&happening));
                return None;
            }
        })
    }
}

fn numbers(ids: &[MessageId]) -> String {
    ids.iter().map(|id| id.0.0.to_string()).collect::<Vec<_>>().join(" ")
}

fn record(plan: &RecordPlan, urgency: Urgency) -> String {
    let first = if urgency == Urgency::First { " first" } else { "" };
    let beyond = plan.beyond.as_ref();
    let beyond = beyond.map(|(done, open)| format!(", done through {} but {}", done.0.0, numbers(open)));
    format!("record {}{}{first}", plan.cursor.0.0, beyond.unwrap_or_default())
}

fn release(handover: &Handover) -> String {
    let mut text = format!("release at {}", handover.position.0.0);
    for (id, attempts) in &handover.begun {
        let given_up = if attempts.given_up { " given up" } else { "" };
        text += &format!(", {} begun {}{given_up}", id.0.0, attempts.attempts);
    }
    if let Some(through) = handover.begun_through {
        text += &format!(", begun through {}", through.0.0);
    }
    if !handover.settled.is_empty() {
        text += &format!(", forget {}", numbers(&handover.settled));
    }
    if let Some(suspect) = &handover.suspect {
        text += &format!(", {} suspect after {} crashes", suspect.window, suspect.crashes);
    }
    text
}

fn ending(happening: &Happening) -> Option<String> {
    let Happening::Ended(ending) = happening else { return None };
    let how = match &ending.how {
        How::Done => "done",
        How::Retry(..) => "failed",
        How::GivenUp(..) => "given up",
        How::Orphaned => "orphaned",
        How::Stopped => "stopped",
        How::Expired => "expired",
        How::Skipped => "skipped",
    };
    Some(format!("{} {how}", ending.message.id.0.0))
}
