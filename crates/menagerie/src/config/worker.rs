//! `[worker]`: a worker's settings where its command line gives none.

use std::num::NonZeroU32;
use std::time::Duration;

use menagerie_queues::core::failure::OnFailure;
use menagerie_queues::core::ledger::Commit;
use serde::Deserialize;
use toml::Spanned;

use super::file::RawDuration;
use super::{Chosen, ConfigError, Origin};
use crate::durations;

/// As written in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawWorker {
    concurrency: Option<Spanned<u16>>,
    strict: Option<Spanned<bool>>,
    attempts: Option<Spanned<u32>>,
    backoff: Option<Spanned<RawDuration>>,
    backoff_max: Option<Spanned<RawDuration>>,
    on_failure: Option<Spanned<String>>,
    settle: Option<Spanned<RawDuration>>,
    batch: Option<Spanned<u16>>,
    commit: Option<Spanned<String>>,
}

/// The validated settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerSettings {
    /// Messages handled concurrently, each of another partition.
    pub concurrency: Option<Chosen<usize>>,
    /// Drain a queue before the next one.
    pub strict: Option<Chosen<bool>>,
    /// Attempts in all.
    pub attempts: Option<Chosen<NonZeroU32>>,
    /// Pause after the first failure.
    pub backoff: Option<Chosen<Duration>>,
    /// Longest pause.
    pub backoff_max: Option<Chosen<Duration>>,
    /// What to do after the last attempt.
    pub on_failure: Option<Chosen<OnFailure>>,
    /// Partitions move after this long without a change in membership.
    pub settle: Option<Chosen<Duration>>,
    /// Messages per task.
    pub batch: Option<Chosen<usize>>,
    /// When to commit the cursor.
    pub commit: Option<Chosen<Commit>>,
}

/// Validates the settings.
pub fn resolve(raw: RawWorker, origin: &dyn Fn(usize) -> Origin) -> Result<WorkerSettings, ConfigError> {
    let duration = |text: RawDuration| durations::parse_fine(&text.0);
    let positive = |number: u16| match number {
        0 => Err("it is at least 1".to_owned()),
        number => Ok(usize::from(number)),
    };
    Ok(WorkerSettings {
        concurrency: value("worker.concurrency", raw.concurrency, origin, positive)?,
        strict: value("worker.strict", raw.strict, origin, Ok)?,
        attempts: value("worker.attempts", raw.attempts, origin, |number| {
            NonZeroU32::new(number).ok_or_else(|| "it is at least 1".to_owned())
        })?,
        backoff: value("worker.backoff", raw.backoff, origin, duration)?,
        backoff_max: value("worker.backoff_max", raw.backoff_max, origin, duration)?,
        on_failure: value("worker.on_failure", raw.on_failure, origin, |text| on_failure(&text))?,
        settle: value("worker.settle", raw.settle, origin, duration)?,
        batch: value("worker.batch", raw.batch, origin, positive)?,
        commit: value("worker.commit", raw.commit, origin, |text| commit(&text))?,
    })
}

fn value<R, T>(
    key: &'static str,
    raw: Option<Spanned<R>>,
    origin: &dyn Fn(usize) -> Origin,
    read: impl FnOnce(R) -> Result<T, String>,
) -> Result<Option<Chosen<T>>, ConfigError> {
    let Some(raw) = raw else { return Ok(None) };
    let origin = origin(raw.span().start);
    match read(raw.into_inner()) {
        Ok(value) => Ok(Some(Chosen { value, origin })),
        Err(why) => {
            let help = "docs/config.md lists every key; `menagerie worker --help` says what they take";
            Err(ConfigError::Value { key, origin, why, help })
        }
    }
}

/// Parses `log`, `queue` or `stop`.
pub fn on_failure(text: &str) -> Result<OnFailure, String> {
    match text {
        "log" => Ok(OnFailure::Log),
        "queue" => Ok(OnFailure::Queue),
        "stop" => Ok(OnFailure::Stop),
        _ => Err(format!("{text:?} is none of log, queue, stop")),
    }
}

/// Parses `each`, a number of messages, or a time.
pub fn commit(text: &str) -> Result<Commit, String> {
    if text == "each" {
        return Ok(Commit::EACH);
    }
    if let Ok(count) = text.parse() {
        let count = NonZeroU32::new(count).ok_or("record at least every message: write 1 or more")?;
        return Ok(Commit::Count(count));
    }
    match durations::parse_fine(text) {
        Ok(time) if !time.is_zero() => Ok(Commit::Every(time)),
        Ok(_) | Err(_) => {
            Err(format!("{text:?} is none of `each`, a number of messages, a time such as 50ms"))
        }
    }
}

/// Formats it as [`commit`] reads it.
pub fn show_commit(commit: Commit) -> String {
    match commit {
        Commit::EACH => "each".to_owned(),
        Commit::Count(count) => count.to_string(),
        Commit::Every(time) => format!("{}ms", time.as_millis()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_read_as_the_command_line_says_them() {
        assert_eq!(commit("each"), Ok(Commit::EACH));
        assert_eq!(commit("100"), Ok(Commit::Count(NonZeroU32::new(100).unwrap())));
        assert_eq!(commit("50ms"), Ok(Commit::Every(Duration::from_millis(50))));
        assert_eq!(commit("2s"), Ok(Commit::Every(Duration::from_secs(2))));
        for text in ["", "0", "0ms", "never", "-1"] {
            assert!(commit(text).is_err(), "{text}");
        }
        for text in ["each", "7", "50ms"] {
            assert_eq!(show_commit(commit(text).unwrap()), text);
        }
    }
}
