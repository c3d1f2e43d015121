//! What the owner of a partition is doing with it, for whoever looks: the journal keeps it beside the position.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use menagerie_journal::{MessageId, Ticks};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::lane::Lane;
use super::machine::{How, Now};
use super::window::{AfterNote, Standing};
use crate::message_uuid::MessageUuid;

/// Messages named; the others are only counted.
const NAMED_MAX: usize = 20;
/// Most characters of an error.
const ERROR_CHARS_MAX: usize = 200;
/// Recent outcomes are counted in this many steps of this length.
const STEPS: usize = 6;
const STEP: Duration = Duration::from_secs(10);
/// An owner that works says so more often than this.
const FRESH_MS: u64 = 30_000;
/// Kinds of errors that are told apart at a time.
const ERRORS_MAX: usize = 16;

/// A message that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningMessage {
    /// Its id.
    pub id: MessageUuid,
    /// Which attempt.
    pub attempt: u32,
    /// Since when, in ms since 1970.
    pub since_ms: u64,
    /// A program has had it for long, and has not answered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub silent: bool,
}

/// A message that has failed, and is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryingMessage {
    /// Its id.
    pub id: MessageUuid,
    /// The attempt that comes next.
    pub attempt: u32,
    /// Attempts in total.
    pub attempts: u32,
    /// When it is tried again, in ms since 1970.
    pub next_ms: u64,
    /// Why it failed.
    pub error: String,
}

/// What came of attempts lately.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RecentOutcomes")]
pub struct Recent {
    /// Over how many seconds this was counted.
    pub seconds: u64,
    /// Messages done.
    pub done: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Messages given up after their last attempt.
    #[serde(default)]
    pub given_up: u64,
    /// Messages that expired.
    pub expired: u64,
    /// The most frequent error, and how often it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<(String, u64)>,
}

/// What the owner of a partition is doing with it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Activity {
    /// When it was written, in ms since 1970.
    pub at_ms: u64,
    /// The owner.
    pub worker: String,
    /// Messages that run: those that have run longest, longest first.
    pub running: Vec<RunningMessage>,
    /// Positions of the others that run, in order, each as its distance from the one before: there may be many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_running: Vec<u64>,
    /// How many there are.
    pub running_count: u64,
    /// Messages that are tried again, the next one first.
    pub retrying: Vec<RetryingMessage>,
    /// How many there are.
    pub retrying_count: u64,
    /// What came of attempts lately.
    pub recent: Recent,
    /// When a message last ended, in ms since 1970: done, given up or expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_end_ms: Option<u64>,
    /// Messages put per 1,000 seconds, lately; `None` if that is not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put_per_1000_s: Option<u64>,
}

impl Activity {
    /// Whether it is recent enough to believe: an owner with running messages says so every ten seconds.
    pub fn is_fresh(&self, now: Ticks) -> bool {
        unix_ms(now).saturating_sub(self.at_ms) < FRESH_MS
    }

    /// All messages that run.
    pub fn all_running(&self) -> AllRunning {
        let positions = self.also_running.iter().scan(0_u64, |at, distance| {
            *at = at.saturating_add(*distance);
            Some(MessageId(Ticks(*at)))
        });
        AllRunning {
            worker: self.worker.clone(),
            named: self.running.iter().map(|running| (running.id, running.clone())).collect(),
            positions: positions.collect(),
        }
    }
}

/// All messages of a partition that run.
#[derive(Debug, Default)]
pub struct AllRunning {
    /// Where they run.
    pub worker: String,
    named: HashMap<MessageUuid, RunningMessage>,
    positions: HashSet<MessageId>,
}

impl AllRunning {
    /// Whether this message, at this position, runs.
    pub fn has(&self, id: MessageUuid, position: MessageId) -> bool {
        self.named.contains_key(&id) || self.positions.contains(&position)
    }

    /// What is known about this one.
    pub fn named(&self, id: MessageUuid) -> Option<&RunningMessage> {
        self.named.get(&id)
    }
}

/// Each position as its distance from the one before.
fn distances(mut positions: Vec<MessageId>) -> Vec<u64> {
    positions.sort_unstable();
    let before = std::iter::once(0).chain(positions.iter().map(|position| position.0.0));
    positions.iter().zip(before).map(|(position, before)| position.0.0 - before).collect()
}

/// Counts what came of attempts.
#[derive(Debug, Clone, Default)]
pub struct Counter {
    steps: VecDeque<(Instant, Step)>,
    /// When a message last ended: done, given up or expired.
    last_end: Option<Instant>,
}

#[derive(Debug, Clone, Default)]
struct Step {
    done: u64,
    failed: u64,
    given_up: u64,
    expired: u64,
    errors: BTreeMap<String, u64>,
}

impl Counter {
    /// Counts an outcome.
    pub fn count(&mut self, how: &How, now: Instant) {
        self.forget(now);
        if self.steps.back().is_none_or(|(began, _)| now.saturating_duration_since(*began) >= STEP) {
            self.steps.push_back((now, Step::default()));
        }
        if matches!(how, How::Done | How::GivenUp(..) | How::Expired) {
            self.last_end = Some(now);
        }
        let Some((_, step)) = self.steps.back_mut() else { return };
        match how {
            How::Done => step.done += 1,
            How::Retry(failed, _) | How::GivenUp(failed, _) => {
                step.failed += 1;
                step.given_up += u64::from(matches!(how, How::GivenUp(..)));
                let error = short(&failed.error);
                if step.errors.len() < ERRORS_MAX || step.errors.contains_key(&error) {
                    *step.errors.entry(error).or_default() += 1;
                }
            }
            How::Expired => step.expired += 1,
            How::Orphaned | How::Stopped | How::Skipped => {}
        }
    }

    fn forget(&mut self, now: Instant) {
        while self.steps.front().is_some_and(|(began, _)| is_old(*began, now)) {
            self.steps.pop_front();
        }
    }

    fn recent(&self, now: Instant) -> Recent {
        let mut recent = Recent::default();
        let mut errors: BTreeMap<&str, u64> = BTreeMap::new();
        // Nothing may have been counted for long, so nothing was forgotten.
        let steps = || self.steps.iter().filter(|(began, _)| !is_old(*began, now));
        for (_, step) in steps() {
            recent.done += step.done;
            recent.failed += step.failed;
            recent.given_up += step.given_up;
            recent.expired += step.expired;
            for (error, count) in &step.errors {
                *errors.entry(error).or_default() += count;
            }
        }
        let began = steps().next().map_or(now, |(began, _)| *began);
        recent.seconds = now.saturating_duration_since(began).as_secs().max(1);
        let most = errors.into_iter().max_by_key(|(_, count)| *count);
        recent.error = most.map(|(error, count)| (error.to_owned(), count));
        recent
    }
}

fn is_old(began: Instant, now: Instant) -> bool {
    now.saturating_duration_since(began) >= STEP * STEPS as u32
}

/// What the owner of a lane is doing with it.
pub fn activity(lane: &Lane, worker: &str, attempts: u32, now: Now) -> Activity {
    let wall = |at: Instant| match at.checked_duration_since(now.instant) {
        Some(ahead) => unix_ms(now.ticks.plus(ahead)),
        None => unix_ms(now.ticks.minus(now.instant.saturating_duration_since(at))),
    };
    let (mut running, mut retrying) = (Vec::new(), Vec::new());
    for (_, slot) in lane.window.slots() {
        let Some(message) = &slot.message else { continue };
        let id = || MessageUuid::of(&lane.partition, message);
        match slot.standing {
            Standing::Running { attempt, since: Some(since), .. } => {
                running.push((
                    since,
                    message.id,
                    RunningMessage { id: id(), attempt, since_ms: wall(since), silent: false },
                ));
            }
            Standing::BackingOff(until) | Standing::Noting(AfterNote::Wait(until)) => {
                let attempt = lane.tally.attempts(message.id) + 1;
                let error = short(slot.last_error.as_deref().unwrap_or("it was stopped"));
                retrying.push((
                    until,
                    RetryingMessage { id: id(), attempt, attempts, next_ms: wall(until), error },
                ));
            }
            _ => {}
        }
    }
    running.sort_by_key(|(since, ..)| *since);
    let also_running = running.iter().skip(NAMED_MAX).map(|(_, position, _)| *position).collect();
    retrying.sort_by_key(|(until, _)| *until);
    Activity {
        at_ms: unix_ms(now.ticks),
        worker: worker.to_owned(),
        running_count: running.len() as u64,
        also_running: distances(also_running),
        running: running.into_iter().take(NAMED_MAX).map(|(.., message)| message).collect(),
        retrying_count: retrying.len() as u64,
        retrying: retrying.into_iter().take(NAMED_MAX).map(|(_, message)| message).collect(),
        recent: lane.counter.recent(now.instant),
        last_end_ms: lane.counter.last_end.map(wall),
        put_per_1000_s: lane.inflow.per_1000_s(),
    }
}

fn short(error: &str) -> String {
    error.chars().take(ERROR_CHARS_MAX).collect()
}

fn unix_ms(ticks: Ticks) -> u64 {
    let since = SystemTime::from(ticks).duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::failure::OnFailure;
    use crate::task::Failed;

    fn failed(error: &str) -> How {
        How::Retry(Failed { error: error.to_owned(), output: Vec::new(), retry: true }, STEP)
    }

    #[test]
    fn a_minute_is_remembered_with_its_most_frequent_error() {
        let (mut counter, began) = (Counter::default(), Instant::now());
        counter.count(&failed("old"), began);
        let now = began + Duration::from_secs(59);
        let given_up = How::GivenUp(
            Failed { error: "b".to_owned(), output: Vec::new(), retry: false },
            OnFailure::Queue,
        );
        for how in [How::Done, failed("a"), failed("b"), given_up, How::Expired, How::Stopped] {
            counter.count(&how, now);
        }
        let recent = counter.recent(now);
        assert_eq!((recent.done, recent.failed, recent.given_up, recent.expired), (1, 4, 1, 1));
        assert_eq!(recent.seconds, 59);
        assert_eq!(recent.error, Some(("b".to_owned(), 2)));
        counter.count(&How::Done, began + Duration::from_secs(61));
        assert_eq!(counter.recent(began + Duration::from_secs(61)).failed, 3, "the first has been forgotten");
    }

    #[test]
    fn what_was_counted_long_ago_is_not_recent_although_nothing_was_counted_since() {
        let (mut counter, began) = (Counter::default(), Instant::now());
        counter.count(&How::Done, began);
        counter.count(&failed("a"), began + Duration::from_secs(30));
        let recent = counter.recent(began + Duration::from_secs(80));
        assert_eq!((recent.done, recent.failed, recent.seconds), (0, 1, 50));
        let nothing = Recent { seconds: 1, ..Recent::default() };
        assert_eq!(counter.recent(began + Duration::from_secs(3_600)), nothing);
    }

    #[test]
    fn messages_that_are_not_named_are_known_to_run_by_their_positions() {
        let partition = "mail-1".parse().unwrap();
        let of = |ticks| (MessageUuid::derived(&partition, MessageId(Ticks(ticks))), MessageId(Ticks(ticks)));
        let positions = [17_951_207_650_369_468, 17_951_207_650_369_470, 17_951_207_990_000_000];
        let ((named, _), also_running) =
            (of(5), distances(positions.iter().rev().map(|at| of(*at).1).collect()));
        assert_eq!(also_running[1..], [2, 339_630_530]);
        let running = vec![RunningMessage { id: named, attempt: 1, since_ms: 0, silent: false }];
        let activity = Activity { running, also_running, ..Activity::default() };
        let all = activity.all_running();
        let is_running = |ticks| all.has(of(ticks).0, of(ticks).1);
        assert!(is_running(5) && positions.into_iter().all(is_running));
        assert!(!is_running(6) && !is_running(17_951_207_650_369_469));
    }

    #[test]
    fn errors_without_end_are_bounded() {
        let (mut counter, now) = (Counter::default(), Instant::now());
        (0..1_000).for_each(|number| counter.count(&failed(&format!("{number}")), now));
        assert_eq!(counter.recent(now).failed, 1_000);
        assert!(counter.steps.iter().all(|(_, step)| step.errors.len() <= ERRORS_MAX));
        counter.count(&failed(&"x".repeat(10_000)), now + STEP);
        let longest = counter.steps.iter().flat_map(|(_, step)| step.errors.keys()).map(String::len).max();
        assert_eq!(longest, Some(ERROR_CHARS_MAX));
    }

    #[test]
    fn the_most_frequent_error_is_counted_however_long_it_is() {
        let (mut counter, now) = (Counter::default(), Instant::now());
        let long = failed(&"x".repeat(ERROR_CHARS_MAX + 1));
        counter.count(&long, now);
        (0..ERRORS_MAX).for_each(|number| counter.count(&failed(&format!("{number}")), now));
        counter.count(&long, now);
        assert_eq!(counter.recent(now).error, Some(("x".repeat(ERROR_CHARS_MAX), 2)));
    }
}
