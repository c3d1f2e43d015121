//! The questions that a program has at one moment, and what becomes of them when it ends. Pure: no IO, no clock.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use menagerie_kernel::Moment;

use crate::serve::SILENT_AFTER;

/// Numbers questions in the order in which they were asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key(pub u64);

/// A question in flight; `T` is what the shell needs to answer it.
#[derive(Debug)]
struct Question<T> {
    id: String,
    /// Its lease's end, as last seen.
    until: Moment,
    time_limit: Option<Duration>,
    asked: Instant,
    standing: Standing,
    payload: T,
}

/// Whether a question may still be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Waiting,
    /// Its lease says stop: it has until its grace ends.
    Stopping,
    /// Its time limit is over. An answer comes too late.
    TooLate,
}

/// What happens at a certain time, unless the answer comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    Silence,
    TimeLimit,
    StopGrace,
}

/// What has happened because time has passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Due {
    /// The program has not answered this question for long.
    Silent(String),
    /// A question's time limit is over: end the program.
    TimeLimit,
    /// A question that must stop has had its grace: end the program.
    StopGrace,
}

/// Why a program is ending, or has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cause {
    /// A question exceeded its time limit.
    TimeLimit,
    /// A question had to stop, or was dropped.
    Stop,
    /// It died, or cannot be understood any more; a sentence about it.
    Broken(String),
}

/// What becomes of a question when its program has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its time limit was over.
    TookTooLong(Option<Duration>),
    /// It failed, because of this error. Nobody knows whether it was to blame.
    Failed(String),
    /// Not its fault: it may be asked again.
    Stopped,
}

/// The questions in flight.
#[derive(Debug)]
pub(super) struct InFlight<T> {
    questions: HashMap<Key, Question<T>>,
    by_id: HashMap<String, Key>,
    /// How many leases end at each moment, because the guard's deadline is the first of them.
    ends: BTreeMap<Moment, usize>,
    alarms: BTreeSet<(Instant, Key, Alarm)>,
    stopping: usize,
    /// Time that a question has for its answer after its lease says stop.
    stop_grace: Duration,
}

impl<T> InFlight<T> {
    pub(super) fn new(stop_grace: Duration) -> Self {
        Self {
            questions: HashMap::new(),
            by_id: HashMap::new(),
            ends: BTreeMap::new(),
            alarms: BTreeSet::new(),
            stopping: 0,
            stop_grace,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.questions.is_empty()
    }

    pub(super) fn has_id(&self, id: &str) -> bool {
        self.by_id.contains_key(id)
    }

    /// Adds a question. Its id must not be in flight already.
    pub(super) fn insert(
        &mut self,
        key: Key,
        id: String,
        until: Moment,
        time_limit: Option<Duration>,
        asked: Instant,
        payload: T,
    ) {
        *self.ends.entry(until).or_default() += 1;
        let question = Question { id, until, time_limit, asked, standing: Standing::Waiting, payload };
        self.alarms.extend(question.alarm().map(|(at, alarm)| (at, key, alarm)));
        self.by_id.insert(question.id.clone(), key);
        self.questions.insert(key, question);
    }

    /// Takes the question that this id answers; `None` if it was not asked, is answered, or it is too late.
    pub(super) fn answer(&mut self, id: &str) -> Option<T> {
        let key = *self.by_id.get(id)?;
        self.questions.get(&key).filter(|question| question.standing != Standing::TooLate)?;
        self.remove(key).map(|question| question.payload)
    }

    fn remove(&mut self, key: Key) -> Option<Question<T>> {
        let question = self.questions.remove(&key)?;
        self.by_id.remove(&question.id);
        self.forget_end(question.until);
        self.stopping -= usize::from(question.standing == Standing::Stopping);
        self.disarm(key, &question);
        Some(question)
    }

    fn disarm(&mut self, key: Key, question: &Question<T>) {
        // There is one alarm at a time, besides that of a stop, which is rare.
        if let Some((at, alarm)) = question.alarm() {
            self.alarms.remove(&(at, key, alarm));
        }
        if let Some((at, alarm)) = question.time_limit_alarm() {
            self.alarms.remove(&(at, key, alarm));
        }
        if question.standing == Standing::Stopping {
            self.alarms.retain(|(_, other, _)| *other != key);
        }
    }

    fn forget_end(&mut self, until: Moment) {
        if let Some(count) = self.ends.get_mut(&until) {
            *count -= 1;
            if *count == 0 {
                self.ends.remove(&until);
            }
        }
    }

    /// Whether this question is in flight.
    pub(super) fn contains(&self, key: Key) -> bool {
        self.questions.contains_key(&key)
    }

    /// Takes over what has become of the leases: until when each lasts, and whether it says stop.
    pub(super) fn update_leases(&mut self, now: Instant, lease: impl Fn(&T) -> (Moment, bool)) {
        self.ends.clear();
        for (key, question) in &mut self.questions {
            let (until, is_stopped) = lease(&question.payload);
            question.until = until;
            *self.ends.entry(until).or_default() += 1;
            if is_stopped && question.standing == Standing::Waiting {
                question.standing = Standing::Stopping;
                self.stopping += 1;
                self.alarms.insert((now + self.stop_grace, *key, Alarm::StopGrace));
            }
        }
    }

    /// Whether there are questions, and all of them must stop: nobody is left for whom to keep the program.
    pub(super) fn all_stop(&self) -> bool {
        self.stopping > 0 && self.stopping == self.questions.len()
    }

    /// The earliest end of a lease.
    pub(super) fn earliest_end(&self) -> Option<Moment> {
        self.ends.keys().next().copied()
    }

    /// When [`on_time`](Self::on_time) has something to say.
    pub(super) fn next_alarm(&self) -> Option<Instant> {
        self.alarms.first().map(|(at, ..)| *at)
    }

    /// What has happened by now.
    pub(super) fn on_time(&mut self, now: Instant) -> Vec<Due> {
        let mut due = Vec::new();
        while let Some((_, key, alarm)) = self.alarms.first().copied().filter(|(at, ..)| *at <= now) {
            self.alarms.pop_first();
            let Some(question) = self.questions.get_mut(&key) else { continue };
            due.push(match alarm {
                Alarm::Silence => {
                    self.alarms.extend(question.time_limit_alarm().map(|(at, alarm)| (at, key, alarm)));
                    Due::Silent(question.id.clone())
                }
                Alarm::TimeLimit => {
                    self.stopping -= usize::from(question.standing == Standing::Stopping);
                    question.standing = Standing::TooLate;
                    Due::TimeLimit
                }
                Alarm::StopGrace => Due::StopGrace,
            });
        }
        due
    }

    /// Ends all questions. `has_expired`: the guard ended the program because of the earliest lease.
    pub(super) fn end(&mut self, cause: &Cause, has_expired: bool) -> Vec<(String, T, Fate)> {
        let count = self.questions.len();
        let broken = |why: &str| match count {
            0 | 1 => why.to_owned(),
            _ => format!("the program ended while {count} messages were in flight: {why}"),
        };
        let fate = |question: &Question<T>| match (cause, question.standing) {
            _ if has_expired => Fate::Stopped,
            (_, Standing::TooLate) => Fate::TookTooLong(question.time_limit),
            (_, Standing::Stopping) | (Cause::TimeLimit | Cause::Stop, Standing::Waiting) => Fate::Stopped,
            (Cause::Broken(why), Standing::Waiting) => Fate::Failed(broken(why)),
        };
        (self.by_id, self.ends, self.alarms, self.stopping) = Default::default();
        let mut ended: Vec<(Key, Question<T>)> = self.questions.drain().collect();
        ended.sort_by_key(|(key, _)| *key);
        ended
            .into_iter()
            .map(|(_, question)| {
                let fate = fate(&question);
                (question.id, question.payload, fate)
            })
            .collect()
    }
}

impl<T> Question<T> {
    /// The alarm that is set when it is asked.
    fn alarm(&self) -> Option<(Instant, Alarm)> {
        match self.time_limit {
            Some(limit) if limit <= SILENT_AFTER => self.time_limit_alarm(),
            Some(_) | None => Some((self.asked + SILENT_AFTER, Alarm::Silence)),
        }
    }

    /// `None` without a limit, or with one that no clock can express.
    fn time_limit_alarm(&self) -> Option<(Instant, Alarm)> {
        let limit = self.asked.checked_add(self.time_limit?)?;
        Some((limit, Alarm::TimeLimit))
    }
}

#[cfg(test)]
mod tests;
