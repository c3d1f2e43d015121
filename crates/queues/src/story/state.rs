//! What has become of a message, decided from what is stored about it.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

use super::Outcome;

/// What has become of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "MessageState")]
pub enum State {
    /// It is not due yet.
    Delayed,
    /// It waits for its turn.
    Waiting,
    /// A worker has it, as it said a second ago or so.
    Running,
    /// It has failed, and is tried again.
    Retrying,
    /// It was given up, and is among the failed messages.
    Failed,
    /// It was handled.
    Done,
    /// Its time to live ended before its turn came.
    Expired,
    /// It was given up, and is kept nowhere.
    Skipped,
    /// An operator has dropped it.
    Forgotten,
}

/// The text names no state.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no state of a message: there are {list}", list = State::ALL.map(State::as_str).join(", "))]
pub struct StateError(String);

impl State {
    /// All of them, in the order of a message's life.
    pub const ALL: [Self; 9] = [
        Self::Delayed,
        Self::Waiting,
        Self::Running,
        Self::Retrying,
        Self::Failed,
        Self::Done,
        Self::Expired,
        Self::Skipped,
        Self::Forgotten,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delayed => "delayed",
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Retrying => "retrying",
            Self::Failed => "failed",
            Self::Done => "done",
            Self::Expired => "expired",
            Self::Skipped => "skipped",
            Self::Forgotten => "forgotten",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for State {
    type Err = StateError;

    fn from_str(text: &str) -> Result<Self, StateError> {
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| StateError(text.to_owned()))
    }
}

/// What is stored about a message, where it stands now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// It is among the delayed messages.
    pub is_delayed: bool,
    /// It is among the failed messages.
    pub is_failed: bool,
    /// An operator has dropped or cancelled it.
    pub is_dropped: bool,
    /// Its last attempt that counts.
    pub last: Option<Outcome>,
    /// Workers are done with it, in whatever way.
    pub is_past: bool,
    /// Its partition's owner says that it runs.
    pub is_running: bool,
    /// It is no longer in its partition.
    pub is_gone: bool,
    /// An operator has dropped all messages around it.
    pub is_swept: bool,
    /// It is so old that the queue need not keep its story.
    pub is_old: bool,
    /// Its time to live has ended.
    pub is_expired: bool,
}

/// What these facts amount to.
pub(crate) fn state(facts: &Facts) -> State {
    // What is recorded is the end. What was only told is not: another owner may run it again.
    let is_over = facts.is_past && facts.last.is_some_and(Outcome::is_final);
    match facts.last {
        _ if facts.is_delayed => State::Delayed,
        _ if facts.is_failed => State::Failed,
        _ if facts.is_dropped => State::Forgotten,
        // With `--ack before`, it is past before it runs.
        _ if facts.is_running && !is_over => State::Running,
        Some(Outcome::Expired) => State::Expired,
        Some(Outcome::Skipped) => State::Skipped,
        Some(Outcome::Done) => State::Done,
        // It was among the failed messages, and whoever took it from there left no note.
        Some(Outcome::Failed) if facts.is_past => State::Forgotten,
        // Purged, or skipped by an operator. If its end was told, the story of that time would still have it.
        _ if facts.is_gone && (facts.is_swept || !facts.is_past || !facts.is_old) => State::Forgotten,
        _ if facts.is_past => State::Done,
        // Nobody has come to it yet.
        _ if facts.is_expired => State::Expired,
        // Its worker lost the partition before it could move it to the failed messages.
        Some(Outcome::Failed | Outcome::Retry | Outcome::Stuck) => State::Retrying,
        Some(Outcome::Orphaned | Outcome::Stopped) | None => State::Waiting,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(last: Option<Outcome>) -> Facts {
        Facts { last, ..Facts::default() }
    }

    #[test]
    fn states_are_read_by_name_and_others_are_refused_with_a_list() {
        for state in State::ALL {
            assert_eq!(state.to_string().parse(), Ok(state));
        }
        let refused = "lost".parse::<State>().unwrap_err().to_string();
        assert_eq!(
            refused,
            "\"lost\" is no state of a message: there are delayed, waiting, running, retrying, failed, done, expired, \
             skipped, forgotten"
        );
    }

    #[test]
    fn where_it_is_says_more_than_how_it_ended() {
        for last in [None, Some(Outcome::Done), Some(Outcome::Failed), Some(Outcome::Retry)] {
            let (facts, past) = (facts(last), true);
            assert_eq!(state(&Facts { is_delayed: true, ..facts }), State::Delayed);
            assert_eq!(state(&Facts { is_failed: true, is_past: past, ..facts }), State::Failed);
            assert_eq!(state(&Facts { is_dropped: true, is_past: past, ..facts }), State::Forgotten);
        }
    }

    #[test]
    fn what_workers_have_written_is_believed_before_the_cursor() {
        for (last, ahead, past) in [
            (None, State::Waiting, State::Done),
            (Some(Outcome::Stopped), State::Waiting, State::Done),
            (Some(Outcome::Retry), State::Retrying, State::Done),
            (Some(Outcome::Stuck), State::Retrying, State::Done),
            (Some(Outcome::Done), State::Done, State::Done),
            (Some(Outcome::Expired), State::Expired, State::Expired),
            (Some(Outcome::Skipped), State::Skipped, State::Skipped),
            (Some(Outcome::Failed), State::Retrying, State::Forgotten),
        ] {
            assert_eq!(state(&facts(last)), ahead, "{last:?}");
            assert_eq!(state(&Facts { is_past: true, ..facts(last) }), past, "{last:?}");
        }
    }

    #[test]
    fn what_has_expired_need_not_wait_for_a_worker_to_say_so() {
        for last in [None, Some(Outcome::Retry)] {
            assert_eq!(state(&Facts { is_expired: true, ..facts(last) }), State::Expired);
            assert_eq!(state(&Facts { is_expired: true, is_running: true, ..facts(last) }), State::Running);
        }
        assert_eq!(state(&Facts { is_expired: true, ..facts(Some(Outcome::Done)) }), State::Done);
    }

    #[test]
    fn what_runs_again_is_running_until_its_end_is_recorded() {
        for last in [Outcome::Done, Outcome::Failed, Outcome::Expired, Outcome::Skipped, Outcome::Retry] {
            let running = Facts { is_running: true, ..facts(Some(last)) };
            assert_eq!(state(&running), State::Running, "{last:?}");
        }
        let done = Facts { is_running: true, is_past: true, ..facts(Some(Outcome::Done)) };
        assert_eq!(state(&done), State::Done, "its owner says so once a second");
        let recorded_first = Facts { is_running: true, is_past: true, ..facts(None) };
        assert_eq!(state(&recorded_first), State::Running);
    }

    #[test]
    fn what_is_gone_is_done_only_if_its_story_may_be_gone_too() {
        let gone = Facts { is_gone: true, ..facts(None) };
        let past = Facts { is_past: true, ..gone };
        for (facts, expected) in [
            (gone, State::Forgotten),
            (past, State::Forgotten),
            (Facts { is_old: true, ..gone }, State::Forgotten),
            (Facts { is_old: true, ..past }, State::Done),
            (Facts { is_old: true, is_swept: true, ..past }, State::Forgotten),
            (Facts { last: Some(Outcome::Done), is_swept: true, ..past }, State::Done),
        ] {
            assert_eq!(state(&facts), expected, "{facts:?}");
        }
    }
}
