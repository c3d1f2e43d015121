//! What has become of a message, decided from what is stored about it.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use thiserror::Error;

use super::Outcome;

/// What has become of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
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
    /// Its time to live has ended.
    pub is_expired: bool,
}

/// What these facts amount to.
pub(crate) fn state(facts: &Facts) -> State {
    match facts.last {
        _ if facts.is_delayed => State::Delayed,
        _ if facts.is_failed => State::Failed,
        _ if facts.is_dropped => State::Forgotten,
        Some(Outcome::Expired) => State::Expired,
        Some(Outcome::Skipped) => State::Skipped,
        Some(Outcome::Done) => State::Done,
        // It was among the failed messages, and whoever took it from there left no note.
        Some(Outcome::Failed) => State::Forgotten,
        _ if facts.is_past => State::Done,
        // Purged, or skipped by an operator.
        _ if facts.is_gone => State::Forgotten,
        _ if facts.is_running => State::Running,
        // Nobody has come to it yet.
        _ if facts.is_expired => State::Expired,
        Some(Outcome::Retry | Outcome::Stuck) => State::Retrying,
        Some(Outcome::Stopped) | None => State::Waiting,
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
            (Some(Outcome::Failed), State::Forgotten, State::Forgotten),
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
    fn what_was_purged_unhandled_is_forgotten() {
        let gone = Facts { is_gone: true, ..facts(None) };
        assert_eq!(state(&gone), State::Forgotten);
        assert_eq!(state(&Facts { is_past: true, ..gone }), State::Done);
    }
}
