//! How the messages of a queue are handled: in which order, and what happens after a failure.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// In which order the messages of a partition are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "HandlingOrder")]
pub enum Order {
    /// All of them in order, one at a time.
    #[default]
    Partition,
    /// Those of one key in order; different keys side by side. Messages without a key have no order.
    Key,
    /// None: side by side, by priority.
    None,
}

/// What the messages behind a failed one do until its next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "HandlingRetry")]
pub enum Retry {
    /// They wait.
    Block,
    /// They go on; with [`Order::Key`] those of its key wait.
    Later,
}

/// How a queue's messages are handled. A worker's own options override what is only a default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Handling {
    /// In which order.
    #[serde(default)]
    pub order: Order,
    /// What happens behind a failed message; `None`: the order's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Attempts in total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<NonZeroU32>,
    /// Back-off after the first attempt; doubles after each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_ms: Option<u64>,
    /// Longest back-off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_max_ms: Option<u64>,
    /// Longest run of a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_ms: Option<u64>,
}

impl Handling {
    /// What happens behind a failed message. Where order matters, waiting is the safe choice; where it does not, nothing
    /// is gained by it.
    pub fn retry(&self) -> Retry {
        self.retry.unwrap_or(match self.order {
            Order::Partition | Order::Key => Retry::Block,
            Order::None => Retry::Later,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Payload as _;
    use crate::queues::Settings;

    #[test]
    fn old_settings_mean_order_by_partition() {
        let old = Settings::decode(br#"{"partitions":1,"journal":"main","created_ms":0}"#).unwrap();
        assert_eq!(old.handling, Handling::default());
        assert_eq!(old.handling.retry(), Retry::Block);
    }

    #[test]
    fn failed_messages_block_others_only_where_order_matters() {
        let retry = |order| Handling { order, ..Handling::default() }.retry();
        assert_eq!(
            [Order::Partition, Order::Key, Order::None].map(retry),
            [Retry::Block, Retry::Block, Retry::Later]
        );
    }

    #[test]
    fn settings_keep_it_as_words() {
        let handling = Handling { order: Order::Key, retry: Some(Retry::Later), ..Handling::default() };
        assert_eq!(serde_json::to_string(&handling).unwrap(), r#"{"order":"key","retry":"later"}"#);
    }
}
