//! How a queue's messages are handled, as people write it.

use std::num::NonZeroU32;
use std::time::Duration;

use clap::Args;
use menagerie_queues::admin::{HandlingChange, OrDefault};
use menagerie_znodes::queues::{Handling, Order, Retry};

use crate::durations;
use crate::exit::CliError;

/// Order, and defaults for workers that do not choose themselves.
#[derive(Debug, Clone, Copy, Args)]
pub struct HandlingArgs {
    /// Which messages are handled in order: those of a `partition`, those of a `key` (different keys side by side), or
    /// `none` [default: partition].
    #[arg(long, value_name = "partition|key|none", value_parser = order, help_heading = "Handling")]
    order: Option<Order>,
    /// What messages behind a failed one do until its next attempt: wait (`block`), or go on (`later`; with --order key,
    /// those of its key wait) [default: block, without order later].
    #[arg(long, value_name = "block|later", value_parser = retry, help_heading = "Handling")]
    retry: Option<OrDefault<Retry>>,
    /// Attempts per message, for workers without --attempts; `default` is the worker's own default.
    #[arg(long, value_name = "N", value_parser = attempts, help_heading = "Handling")]
    attempts: Option<OrDefault<NonZeroU32>>,
    /// Back-off before the second attempt, which doubles with each further one, for workers without --backoff.
    #[arg(long, value_name = "DURATION", value_parser = time, help_heading = "Handling")]
    backoff: Option<OrDefault<Duration>>,
    /// Longest back-off, for workers without --backoff-max.
    #[arg(long, value_name = "DURATION", value_parser = time, help_heading = "Handling")]
    backoff_max: Option<OrDefault<Duration>>,
    /// Maximum time per message, for workers without --time-limit.
    #[arg(long, value_name = "DURATION", value_parser = limit, help_heading = "Handling")]
    time_limit: Option<OrDefault<Duration>>,
}

impl HandlingArgs {
    /// What the flags change.
    pub fn change(&self) -> HandlingChange {
        HandlingChange {
            order: self.order,
            retry: self.retry,
            attempts: self.attempts,
            backoff: self.backoff,
            backoff_max: self.backoff_max,
            time_limit: self.time_limit,
        }
    }

    /// Whether no flag is given.
    pub fn is_silent(&self) -> bool {
        self.change() == HandlingChange::default()
    }
}

/// The word that takes a queue's own value away.
fn or_default<T>(text: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<OrDefault<T>, String> {
    match text {
        "default" => Ok(OrDefault::Default),
        text => parse(text).map(OrDefault::Value),
    }
}

fn order(text: &str) -> Result<Order, String> {
    match text {
        "partition" => Ok(Order::Partition),
        "key" => Ok(Order::Key),
        "none" => Ok(Order::None),
        _ => Err("write partition, key or none".to_owned()),
    }
}

fn retry(text: &str) -> Result<OrDefault<Retry>, String> {
    or_default(text, |text| match text {
        "block" => Ok(Retry::Block),
        "later" => Ok(Retry::Later),
        _ => Err("write block, later or default".to_owned()),
    })
}

fn attempts(text: &str) -> Result<OrDefault<NonZeroU32>, String> {
    or_default(text, |text| text.parse().map_err(|_| "write a whole number from 1 on, or default".to_owned()))
}

fn time(text: &str) -> Result<OrDefault<Duration>, String> {
    or_default(text, durations::parse_fine)
}

fn limit(text: &str) -> Result<OrDefault<Duration>, String> {
    or_default(text, |text| match durations::parse_fine(text)? {
        Duration::ZERO => Err("no message can be handled in no time".to_owned()),
        limit => Ok(limit),
    })
}

/// Checks that the back-offs fit together.
pub fn check(handling: &Handling) -> Result<(), CliError> {
    match (handling.backoff_ms, handling.backoff_max_ms) {
        (Some(first), Some(longest)) if first > longest => {
            let show = |ms| durations::show_fine(Duration::from_millis(ms));
            Err(CliError::Usage {
                what: format!(
                    "the back-off of {} is longer than the longest one, {}",
                    show(first),
                    show(longest)
                ),
                help: "choose a longer --backoff-max, or a shorter --backoff".to_owned(),
            })
        }
        _ => Ok(()),
    }
}

/// How messages are handled, as one sentence. What the queue leaves to its workers is not in it.
pub fn sentence(handling: &Handling) -> String {
    let order = match handling.order {
        Order::Partition => "messages are handled in the order of their partition",
        Order::Key => "messages are handled in the order of their key",
        Order::None => "messages are handled in no order",
    };
    let retry = match handling.retry() {
        Retry::Block => "a failed one blocks those behind it",
        Retry::Later => "a failed one lets others go on",
    };
    let time = |name: &str, ms: Option<u64>| {
        ms.map(|ms| format!("{name} {}", durations::show_fine(Duration::from_millis(ms))))
    };
    let defaults = [
        handling.attempts.map(|attempts| format!("attempts {attempts}")),
        time("back-off", handling.backoff_ms),
        time("at most", handling.backoff_max_ms),
        time("time limit", handling.time_limit_ms),
    ];
    let defaults: Vec<String> = defaults.into_iter().flatten().collect();
    match defaults.is_empty() {
        true => format!("{order}; {retry}"),
        false => format!("{order}; {retry}; {}", defaults.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_says_what_the_queue_says() {
        let usual = sentence(&Handling::default());
        assert_eq!(
            usual,
            "messages are handled in the order of their partition; a failed one blocks those behind it"
        );
        let own = Handling {
            order: Order::None,
            attempts: NonZeroU32::new(3),
            backoff_ms: Some(100),
            backoff_max_ms: Some(60_000),
            time_limit_ms: Some(1_500),
            ..Handling::default()
        };
        let own = sentence(&own);
        assert!(
            own.ends_with("others go on; attempts 3, back-off 100ms, at most 1m, time limit 1500ms"),
            "{own}"
        );
    }

    #[test]
    fn nonsense_is_refused_and_default_is_a_word() {
        assert_eq!(attempts("default"), Ok(OrDefault::Default));
        assert!(attempts("0").is_err() && attempts("many").is_err());
        assert_eq!(limit("100ms"), Ok(OrDefault::Value(Duration::from_millis(100))));
        assert!(limit("0").is_err() && time("soon").is_err());
        assert!(order("queue").is_err() && retry("never").is_err());
    }
}
