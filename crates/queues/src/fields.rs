//! The fields of a message that is put as a JSON object, whether on a line of `queue put --jsonl` or over HTTP: their
//! names, limits, and what they mean together.

use std::time::Duration;

use menagerie_journal::Ticks;
use menagerie_journal::commit::KEY_BYTES_MAX;
use menagerie_types::duration;
use menagerie_znodes::queues::Order;

use crate::admin::Destination;
use crate::moment::moment;

/// The names of all fields, for error messages.
pub const NAMES: &str = "body or body_base64, key or partition, delay or at, ttl, dedup, priority";

/// Longest key that chooses a partition: it is stored with its message.
pub const PARTITION_KEY_BYTES_MAX: usize = 1024;

/// Priorities go from minus this to plus this; higher ones come first.
pub const PRIORITY_MAX: i8 = 100;

/// Parses a deduplication id. The prefix keeps it apart from idempotency keys of HTTP clients and from retries.
pub fn dedup_id(text: &str) -> Result<String, String> {
    let id = format!("put/{text}");
    match text.is_empty() || id.len() > KEY_BYTES_MAX {
        true => Err(format!("a dedup id has 1 to {} bytes", KEY_BYTES_MAX - (id.len() - text.len()))),
        false => Ok(id),
    }
}

/// Parses a message's time to live.
pub fn lifetime(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        Duration::ZERO => Err("a message that lives for no time is never handled".to_owned()),
        lifetime => Ok(lifetime),
    }
}

/// When a message is due that has a delay or a time; `None` if it has neither.
pub fn due(delay: Option<&str>, at: Option<&str>) -> Result<Option<Ticks>, String> {
    match (delay, at) {
        (Some(_), Some(_)) => Err("it has both delay and at".to_owned()),
        (Some(delay), None) => Ok(Some(Ticks::now().plus(duration::parse_fine(delay)?))),
        (None, Some(at)) => moment(at).map(Some),
        (None, None) => Ok(None),
    }
}

/// Checks a key that chooses a partition.
pub fn key(text: &str) -> Result<&str, String> {
    match text.len() {
        0..=PARTITION_KEY_BYTES_MAX => Ok(text),
        bytes => Err(format!("a key has at most {PARTITION_KEY_BYTES_MAX} bytes, and this one has {bytes}")),
    }
}

/// Where a message goes that has a key or a partition; `None` if it has neither.
pub fn destination(key: Option<&str>, partition: Option<u16>) -> Result<Option<Destination>, String> {
    match (key, partition) {
        (Some(_), Some(_)) => Err("it has both key and partition".to_owned()),
        (Some(key), None) => Ok(Some(Destination::Key(self::key(key)?.as_bytes().to_vec()))),
        (None, Some(partition)) => Ok(Some(Destination::Partition(partition))),
        (None, None) => Ok(None),
    }
}

/// Parses a priority.
pub fn parse_priority(text: &str) -> Result<i8, String> {
    let priority = text.parse().ok().filter(|priority| (-PRIORITY_MAX..=PRIORITY_MAX).contains(priority));
    priority.ok_or_else(|| format!("{text:?} is not a priority from -{PRIORITY_MAX} to {PRIORITY_MAX}"))
}

/// Parses the priority of a message in a queue of this order.
pub fn priority(text: &str, order: Order) -> Result<i8, String> {
    check_priority(parse_priority(text)?, order)
}

/// Refuses a priority where messages have an order, and it would be ignored.
pub fn check_priority(priority: i8, order: Order) -> Result<i8, String> {
    match order {
        Order::None => Ok(priority),
        Order::Partition | Order::Key => {
            Err("the queue keeps its messages in order: only queues of `--order none` have priorities"
                .to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_exclude_each_other_are_refused_together() {
        assert!(due(Some("1"), Some("2026-11-15T12:00:00Z")).unwrap_err().contains("both delay and at"));
        assert!(destination(Some("a"), Some(1)).unwrap_err().contains("both key and partition"));
        assert_eq!((due(None, None), destination(None, None)), (Ok(None), Ok(None)));
        assert!(due(Some("100ms"), None).unwrap().is_some());
        assert_eq!(destination(Some(""), None), Ok(Some(Destination::Key(Vec::new()))));
        assert!(destination(Some(&"k".repeat(1025)), None).unwrap_err().contains("1024 bytes"));
    }

    #[test]
    fn only_queues_without_order_have_priorities() {
        assert_eq!((priority("-100", Order::None), priority("100", Order::None)), (Ok(-100), Ok(100)));
        for wrong in ["101", "-101", "1000", "1.5", "", "high"] {
            assert!(priority(wrong, Order::None).unwrap_err().contains("-100 to 100"), "{wrong}");
        }
        assert!(priority("1", Order::Key).unwrap_err().contains("--order none"));
        assert!(priority("0", Order::Partition).is_err(), "0 would be ignored, too");
    }
}
