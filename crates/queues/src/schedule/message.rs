//! The message of a schedule.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use menagerie_journal::NewMessage;
use menagerie_znodes::Name;
use menagerie_znodes::queues::{Body, Schedule};

use super::cron::ScheduleError;
use crate::admin::Destination;
use crate::meta::{Origin, Via};

/// The stored form of a body: text if it is some.
pub fn body(bytes: &[u8]) -> Body {
    match std::str::from_utf8(bytes) {
        Ok(text) => Body::Text(text.to_owned()),
        Err(_) => Body::Base64(STANDARD.encode(bytes)),
    }
}

/// Who puts the messages of this schedule.
pub fn origin(name: &Name) -> Origin {
    Origin::new(&format!("schedule {name}"), Via::Schedule)
}

/// The message of a schedule, and where it goes.
pub fn message(schedule: &Schedule) -> Result<(Destination, NewMessage), ScheduleError> {
    let body = match &schedule.body {
        Body::Text(text) => text.clone().into_bytes(),
        Body::Base64(text) => {
            STANDARD.decode(text).map_err(|error| ScheduleError::Body { why: error.to_string() })?
        }
    };
    let destination = match (&schedule.key, schedule.partition) {
        (Some(key), _) => Destination::Key(key.clone().into_bytes()),
        (None, Some(partition)) => Destination::Partition(partition),
        (None, None) => Destination::Any,
    };
    let ttl = schedule.ttl_ms.map(Duration::from_millis);
    Ok((destination, NewMessage { ttl, ..NewMessage::new(body) }))
}

/// The dedup id of a time. The record of the schedule is what makes it put once; this is a second net, for two minutes.
/// The prefix keeps it apart from the ids of others; with the longest name it still fits.
pub fn dedup(name: &Name, schedule: &Schedule, time: i64) -> Bytes {
    format!("schedule/{name}/{}/{time}", schedule.added_ms).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(bytes: &[u8]) -> Schedule {
        Schedule {
            queue: "mail".parse().unwrap(),
            cron: "@daily".to_owned(),
            tz: "UTC".to_owned(),
            catch_up: false,
            body: body(bytes),
            key: None,
            partition: Some(2),
            ttl_ms: Some(1_500),
            by: "me".to_owned(),
            added_ms: 7,
        }
    }

    #[test]
    fn any_body_is_put_as_it_was_given() {
        for bytes in [&b""[..], b"text", b"\xff\x00"] {
            let (to, message) = message(&schedule(bytes)).unwrap();
            assert_eq!((&message.body[..], to), (bytes, Destination::Partition(2)));
            assert_eq!(message.ttl, Some(Duration::from_millis(1_500)));
        }
        let damaged = Schedule { body: Body::Base64("*".to_owned()), ..schedule(b"") };
        assert!(message(&damaged).is_err());
    }

    #[test]
    fn each_time_of_each_schedule_has_an_id_of_its_own() {
        let (one, other) = (Name::new("a").unwrap(), Name::new("b").unwrap());
        let (mine, later) = (schedule(b""), Schedule { added_ms: 8, ..schedule(b"") });
        let ids =
            [dedup(&one, &mine, 1), dedup(&one, &mine, 2), dedup(&other, &mine, 1), dedup(&one, &later, 1)];
        let different: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(different.len(), ids.len());
        let long = Name::new("x".repeat(200)).unwrap();
        let longest = Schedule { added_ms: u64::MAX, ..mine };
        assert!(dedup(&long, &longest, i64::MAX).len() <= menagerie_journal::commit::KEY_BYTES_MAX);
    }
}
