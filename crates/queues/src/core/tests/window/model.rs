//! A window against a model that computes everything anew.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use menagerie_journal::{Message, MessageId, Ticks};
use menagerie_znodes::queues::{Order, Retry};
use proptest::prelude::*;

use super::super::message;
use super::id;
use crate::core::window::{AfterNote, RunId, Standing, Window};

/// What became of a message of a run.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Done,
    Fails(u64),
    GivenUp,
    Stopped(u64),
    PutBack,
}

#[derive(Debug, Clone)]
enum Step {
    /// The next unfinished one is read, or a new one with this key and priority.
    Read(usize, i8),
    Begin(usize),
    End(usize, Vec<Fate>),
    Noted(usize),
    Pass(u64),
    /// It was deleted.
    Delete(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let fate = prop_oneof![
        4 => Just(Fate::Done),
        2 => (1_u64..50).prop_map(Fate::Fails),
        1 => Just(Fate::GivenUp),
        1 => (1_u64..50).prop_map(Fate::Stopped),
        1 => Just(Fate::PutBack),
    ];
    let step = prop_oneof![
        5 => (0_usize..4, -1_i8..2).prop_map(|(key, priority)| Step::Read(key, priority)),
        4 => (1_usize..4).prop_map(Step::Begin),
        4 => (any::<usize>(), prop::collection::vec(fate, 3)).prop_map(|(run, fates)| Step::End(run, fates)),
        2 => any::<usize>().prop_map(Step::Noted),
        1 => (1_u64..40).prop_map(Step::Pass),
        1 => any::<usize>().prop_map(Step::Delete),
    ];
    prop::collection::vec(step, 0..150)
}

/// One of several, by any number.
fn pick<T: Copy>(all: &[T], number: usize) -> Option<T> {
    all.get(number.checked_rem(all.len())?).copied()
}

struct Known {
    message: Option<Message>,
    key: Option<String>,
    priority: i8,
    standing: Standing,
    has_failed: bool,
}

struct Model {
    order: Order,
    retry: Retry,
    messages: BTreeMap<MessageId, Known>,
}

impl Model {
    /// Whether the other one, which comes first, keeps this one from beginning.
    fn must_wait(&self, this: &Known, before: &Known) -> bool {
        let is_aside = self.retry == Retry::Later && matches!(before.standing, Standing::BackingOff(_));
        before.message.is_some()
            && match self.order {
                Order::Partition => !is_aside,
                Order::Key => this.key.is_some() && this.key == before.key,
                Order::None => false,
            }
    }

    /// All that may begin now, the next one first.
    fn candidates(&self) -> Vec<MessageId> {
        let failing = self.messages.iter().find(|(_, known)| known.has_failed).map(|(id, _)| *id);
        let end = failing.filter(|_| self.retry == Retry::Block);
        let waits = |(id, known): &(&MessageId, &Known)| {
            known.standing == Standing::Waiting
                && end.is_none_or(|end| **id <= end)
                && !self.messages.range(..**id).any(|(_, before)| self.must_wait(known, before))
        };
        let mut found: Vec<_> = self.messages.iter().filter(waits).collect();
        found.sort_by_key(|(id, known)| (Reverse(known.priority), **id));
        found.into_iter().map(|(id, _)| *id).collect()
    }

    fn check(&self, window: &Window, through: MessageId) -> Result<(), TestCaseError> {
        prop_assert_eq!(window.candidate(false), self.candidates().first().copied());
        prop_assert_eq!(window.has_ready(), !self.candidates().is_empty());
        let standings = |id: &MessageId| window.slot(*id).map(|slot| slot.standing.clone());
        for (id, known) in &self.messages {
            prop_assert_eq!(standings(id), Some(known.standing.clone()), "{}", id.0.0);
        }
        let ids: Vec<MessageId> = self.messages.keys().copied().collect();
        prop_assert_eq!(window.slots().map(|(id, _)| id).collect::<Vec<_>>(), ids.clone());
        let open: Vec<MessageId> = ids.iter().copied().filter(|id| *id <= through).collect();
        prop_assert_eq!(window.open(through).collect::<Vec<_>>(), open);
        let bytes = self.messages.values().filter_map(|known| known.message.as_ref());
        let bytes = bytes.map(|message| message.meta.len() + message.body.len()).sum();
        prop_assert_eq!(window.size(), (ids.len(), bytes));
        let of =
            |is: fn(&Standing) -> bool| self.messages.values().filter(|known| is(&known.standing)).count();
        let noting = of(|standing| matches!(standing, Standing::Noting(_)));
        prop_assert_eq!(
            (window.is_noting(), window.is_quiet()),
            (noting > 0, noting == 0 && window.running() == 0)
        );
        let wakes = self.messages.values().filter_map(|known| match known.standing {
            Standing::BackingOff(until) => Some(until),
            _ => None,
        });
        prop_assert_eq!(window.next_wake(), wakes.min());
        let first = self.messages.first_key_value();
        let waits = first.filter(|(_, known)| known.standing == Standing::Waiting && window.is_quiet());
        prop_assert_eq!(window.candidate(true), waits.map(|(id, _)| *id));
        self.check_keys()
    }

    /// Whatever runs, runs alone in its line.
    fn check_keys(&self) -> Result<(), TestCaseError> {
        let runs = |known: &&Known| matches!(known.standing, Standing::Running { .. });
        let mut keys: Vec<&String> =
            self.messages.values().filter(runs).filter_map(|known| known.key.as_ref()).collect();
        let count = keys.len();
        keys.sort();
        keys.dedup();
        prop_assert!(self.order != Order::Key || keys.len() == count, "two of one key run");
        Ok(())
    }

    /// What begins together may: in order without a gap, or all of them by themselves.
    fn check_batch(&self, batch: &[MessageId]) -> Result<(), TestCaseError> {
        let candidates = self.candidates();
        for (index, member) in batch.iter().enumerate() {
            prop_assert_eq!(&self.messages[member].standing, &Standing::Waiting);
            prop_assert!(!batch[..index].contains(member), "twice");
            let known = &self.messages[member];
            let mut before = self.messages.range(..*member).filter(|(id, _)| !batch[..index].contains(id));
            match self.order {
                Order::Partition => prop_assert!(!before.any(|(_, before)| self.must_wait(known, before))),
                Order::Key | Order::None => prop_assert!(candidates.contains(member)),
            }
        }
        Ok(())
    }
}

struct Play {
    window: Window,
    model: Model,
    now: Instant,
    last: u64,
    runs: u64,
    going: BTreeMap<RunId, Vec<MessageId>>,
}

impl Play {
    fn new(order: Order, retry: Retry, unfinished: u64) -> Self {
        let open: Vec<MessageId> = (1..=unfinished).map(|number| id(number * 3)).collect();
        let unread = |id: &MessageId| {
            let known = Known {
                message: None,
                key: None,
                priority: 0,
                standing: Standing::Unread,
                has_failed: false,
            };
            (*id, known)
        };
        let messages = open.iter().map(unread).collect();
        let now = Instant::now();
        Self {
            window: Window::new(order, retry, open),
            model: Model { order, retry, messages },
            now,
            last: unfinished * 3,
            runs: 0,
            going: BTreeMap::new(),
        }
    }

    fn set(&mut self, id: MessageId, standing: Standing) {
        self.window.set(id, standing.clone());
        if let Some(known) = self.model.messages.get_mut(&id) {
            known.has_failed |= matches!(standing, Standing::BackingOff(_));
            known.standing = standing;
        }
    }

    fn remove(&mut self, id: MessageId) {
        self.window.remove(id);
        self.model.messages.remove(&id);
    }

    fn fail(&mut self, id: MessageId, then: AfterNote) {
        self.window.fail(id, "no".to_owned());
        self.model.messages.get_mut(&id).expect("it is unfinished").has_failed = true;
        self.set(id, Standing::Noting(then));
    }

    fn in_standing(&self, is: fn(&Standing) -> bool) -> Vec<MessageId> {
        self.model.messages.iter().filter(|(_, known)| is(&known.standing)).map(|(id, _)| *id).collect()
    }

    fn play(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Read(key, priority) => self.read(key, priority)?,
            Step::Begin(count) => self.begin(count)?,
            Step::End(number, fates) => self.end(number, fates)?,
            Step::Noted(number) => {
                let noting = self.in_standing(|standing| matches!(standing, Standing::Noting(_)));
                let Some(id) = pick(&noting, number) else { return Ok(()) };
                match self.model.messages[&id].standing.clone() {
                    Standing::Noting(AfterNote::Wait(until)) => self.set(id, Standing::BackingOff(until)),
                    _ => self.remove(id),
                }
            }
            Step::Pass(ms) => {
                self.now += Duration::from_millis(ms);
                self.window.wake(self.now);
                for known in self.model.messages.values_mut() {
                    if matches!(known.standing, Standing::BackingOff(until) if until <= self.now) {
                        known.standing = Standing::Waiting;
                    }
                }
            }
            Step::Delete(number) => {
                let unread = self.in_standing(|standing| *standing == Standing::Unread);
                if let Some(id) = pick(&unread, number) {
                    self.remove(id);
                }
            }
        }
        prop_assert_eq!(
            self.window.runs().collect::<Vec<_>>(),
            self.going.keys().copied().collect::<Vec<_>>()
        );
        prop_assert_eq!(self.window.running(), self.going.len());
        [0, self.last / 2, self.last]
            .into_iter()
            .try_for_each(|ticks| self.model.check(&self.window, id(ticks)))
    }

    /// As a lane reads: first what was unfinished, in order.
    fn read(&mut self, key: usize, priority: i8) -> Result<(), TestCaseError> {
        let unread = self.window.next_unread(MessageId::ZERO);
        prop_assert_eq!(unread, self.in_standing(|standing| *standing == Standing::Unread).first().copied());
        let ticks = unread.map_or(self.last + 2, |id| id.0.0);
        self.last = self.last.max(ticks);
        let key = [None, Some("a"), Some("b"), Some("c")][key];
        let message = message(ticks, key, priority);
        self.window.insert(message.clone());
        let known = Known {
            message: Some(message),
            key: key.map(str::to_owned),
            priority: if self.model.order == Order::None { priority } else { 0 },
            standing: Standing::Waiting,
            has_failed: false,
        };
        self.model.messages.insert(id(ticks), known);
        Ok(())
    }

    fn begin(&mut self, count: usize) -> Result<(), TestCaseError> {
        // In order, a lane begins one batch at a time.
        let is_busy = self.model.order == Order::Partition && self.window.running() > 0;
        let Some(first) = self.window.candidate(false).filter(|_| !is_busy) else { return Ok(()) };
        let batch = self.window.batch(first, count, Ticks(0), |_| true);
        prop_assert!(batch[0] == first && batch.len() <= count);
        self.model.check_batch(&batch)?;
        self.runs += 1;
        let run = RunId(self.runs);
        let attempts: Vec<(MessageId, u32)> = batch.iter().map(|id| (*id, 1)).collect();
        let taken = self.window.begin(run, &attempts, Some(self.now));
        prop_assert_eq!(taken.iter().map(|message| message.id).collect::<Vec<_>>(), batch.clone());
        for id in &batch {
            let standing = Standing::Running { run, attempt: 1, since: Some(self.now) };
            self.model.messages.get_mut(id).expect("it is unfinished").standing = standing;
        }
        self.going.insert(run, batch);
        Ok(())
    }

    fn end(&mut self, number: usize, fates: Vec<Fate>) -> Result<(), TestCaseError> {
        let runs: Vec<RunId> = self.going.keys().copied().collect();
        let Some(run) = pick(&runs, number) else { return Ok(()) };
        let batch = self.going.remove(&run).expect("it goes on");
        let ended: Vec<MessageId> = self.window.end(run).into_iter().map(|(id, ..)| id).collect();
        prop_assert_eq!(&ended, &batch);
        let now = self.now;
        let later = |ms: u64| now + Duration::from_millis(ms);
        for (id, fate) in ended.into_iter().zip(fates) {
            match fate {
                Fate::Done => self.remove(id),
                Fate::Fails(ms) => self.fail(id, AfterNote::Wait(later(ms))),
                Fate::GivenUp => self.fail(id, AfterNote::Skip),
                Fate::Stopped(ms) => self.set(id, Standing::BackingOff(later(ms))),
                Fate::PutBack => self.set(id, Standing::Waiting),
            }
        }
        Ok(())
    }
}

proptest! {
    /// Whatever happens in whatever order, the window says what the model says: who may begin, who is unfinished, what
    /// goes on; no two of one line run; nothing begins behind a failing one that blocks.
    #[test]
    fn a_window_is_what_its_messages_make_it(
        steps in steps(), unfinished in 0_u64..4, order in 0_usize..3, blocks in any::<bool>(),
    ) {
        let order = [Order::Partition, Order::Key, Order::None][order];
        let retry = if blocks { Retry::Block } else { Retry::Later };
        let mut play = Play::new(order, retry, unfinished);
        for step in steps {
            play.play(step)?;
        }
    }
}
