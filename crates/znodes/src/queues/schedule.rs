//! Schedules: messages that are put periodically.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::QueueName;
use crate::Name;
use crate::payload::{Json, check};
use crate::spec::{Kind, ZnodeSpec};
use crate::znode::{Dir, Znode};

const NO_SEED: &str = "none: nothing was put periodically";

pub(super) const SCHEDULES: ZnodeSpec = super::folder("/queue-schedules", NO_SEED);
pub(super) const SCHEDULE: ZnodeSpec = ZnodeSpec {
    pattern: "/queue-schedules/<schedule>",
    kind: Kind::Persistent,
    payload: "JSON: the queue, the cron line and its time zone, whether missed times are caught up with, the message, by whom and when it was added",
    check: check::<Schedule>,
    written_by: "`queue schedule add`",
    guarded_by: "its name: an existing one is not overwritten",
    deleted_by: "`queue schedule remove`",
    seed: NO_SEED,
};
pub(super) const SCHEDULE_ELECTION: ZnodeSpec = ZnodeSpec {
    pattern: "/queue-schedule-election",
    kind: Kind::Persistent,
    payload: "nothing: its children contend as kazoo's election does, each with the name of its process",
    check: check::<()>,
    written_by: "the first worker or HTTP server",
    guarded_by: "being an election; the journal knows its fence",
    deleted_by: "nobody",
    seed: NO_SEED,
};

/// A message that is put periodically. How far it was put is in the queue's journal, where one commit puts it and says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Schedule {
    /// The queue that it is put into.
    pub queue: QueueName,
    /// The times, as a cron line.
    pub cron: String,
    /// The time zone of these times, by its IANA name.
    pub tz: String,
    /// Whether times that were missed are put later.
    #[serde(default)]
    pub catch_up: bool,
    /// The message.
    #[serde(default)]
    pub body: Body,
    /// The key that chooses its partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its partition, if not chosen by a key or at random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<u16>,
    /// How long each message waits before it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// Who added it.
    pub by: String,
    /// When it was added, in ms since 1970: no time up to then is put.
    pub added_ms: u64,
}

impl Json for Schedule {
    const WHAT: &'static str = "a schedule";
}

/// The body of a message, readable if it is text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ScheduledBody")]
pub enum Body {
    /// Text.
    Text(String),
    /// Anything else, in Base64.
    Base64(String),
}

impl Default for Body {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

/// All schedules.
pub fn schedules() -> Znode<()> {
    SCHEDULES.at(&[])
}

/// One schedule.
pub fn schedule(name: &Name) -> Znode<Schedule> {
    SCHEDULE.at(&[name])
}

/// The election of the process that puts periodic messages.
pub fn schedule_election() -> Znode<Dir> {
    SCHEDULE_ELECTION.at(&[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Payload as _;

    #[test]
    fn a_schedule_can_be_written_by_hand() {
        let text = br#"{"queue":"mail","cron":"@daily","tz":"UTC","by":"me","added_ms":1}"#;
        let read = Schedule::decode(text).unwrap();
        assert_eq!((read.catch_up, read.body.clone(), read.ttl_ms), (false, Body::default(), None));
        assert_eq!(Schedule::decode(&read.encode()).unwrap(), read);
        assert!(Schedule::decode(br#"{"queue":"mail"}"#).is_err());
    }
}
