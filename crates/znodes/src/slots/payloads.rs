//! Payloads of the znodes of slots.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::payload::{Json, Payload, PayloadError};

/// The state of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Most holders at a time.
    pub max: u32,
    /// Number of holders after the last admission.
    pub count: u32,
    /// If set, nobody is admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frozen: Option<Frozen>,
}

impl Json for Pool {
    const WHAT: &'static str = "a pool of slots";
}

/// An emergency stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SlotsFrozen")]
pub struct Frozen {
    /// Who froze the pool.
    pub by: String,
    /// The reason, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Running commands get SIGTERM, too.
    #[serde(default)]
    pub tell: bool,
}

/// A process; its start time tells it from others with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Unique only among processes that exist at the same time.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub started: u64,
}

/// The holder of a slot. One that a script of the seed wrote has only a name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SlotHolder")]
pub struct Holder {
    /// The holder's name: the host's by default.
    pub holder: String,
    /// The host that it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// That host's machine id: two hosts may have one name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<String>,
    /// That host's boot id: if it has changed, none of its earlier processes runs any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The pid namespace that the numbers below belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<u64>,
    /// The process that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    /// The guard of what it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<Process>,
    /// The user who started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// The reason, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Since when, by the host's clock, in ms; ages are counted by the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// Its ticket; a script of the seed has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
    /// It ends with its session.
    #[serde(default)]
    pub ephemeral: bool,
}

impl Payload for Holder {
    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it has string keys and nothing that can fail")
    }

    /// JSON if it looks like it; any other text is the holder's name.
    fn decode(data: &[u8]) -> Result<Self, PayloadError> {
        let expected = "the holder of a slot";
        let text =
            std::str::from_utf8(data).map_err(|source| PayloadError { expected, source: source.into() })?;
        if text.trim_start().starts_with('{') {
            return serde_json::from_str(text)
                .map_err(|source| PayloadError { expected, source: source.into() });
        }
        let holder = text.trim().to_owned();
        if holder.is_empty() {
            return Err(PayloadError { expected, source: "it says nobody's name".into() });
        }
        Ok(Self { holder, ..Self::default() })
    }
}

/// A waiter for a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SlotWaiter")]
pub struct Waiter {
    /// The name of the future holder.
    pub holder: String,
    /// The host that it runs on.
    pub host: String,
    /// Its pid on that host.
    pub pid: u32,
    /// The user who started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// The reason, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// It has no session and must poll again within 10 minutes.
    #[serde(default)]
    pub polling: bool,
}

impl Json for Waiter {
    const WHAT: &'static str = "a waiter for a slot";
}

/// The kind of an event in a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "SlotEventKind")]
pub enum What {
    /// The pool was created.
    Created,
    /// Somebody was admitted.
    Acquired,
    /// A later run of the holder took its slot over.
    Resumed,
    /// The holder released it.
    Released,
    /// Somebody else released it by force.
    Forced,
    /// The maximum was changed.
    SetMax,
    /// Emergency stop.
    Frozen,
    /// The end of an emergency stop.
    Thawed,
}

/// An event of a pool's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SlotEvent")]
pub struct Event {
    /// The kind of event.
    pub what: What,
    /// The slot concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u32>,
    /// Its holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Who did it.
    pub by: String,
    /// Why, or the new maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Json for Event {
    const WHAT: &'static str = "an entry of a pool's history";
}

/// Why a host no longer queues up by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disarmed {
    /// What happened.
    pub reason: String,
}

impl Json for Disarmed {
    const WHAT: &'static str = "a disarmed watchdog";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_script_wrote_is_the_holders_name() {
        let holder = Holder::decode(b"web-17.example.org\n").unwrap();
        assert_eq!((holder.holder.as_str(), holder.ticket), ("web-17.example.org", None));
    }

    #[test]
    fn holder_survives_being_stored() {
        let holder = Holder { holder: "a".to_owned(), ticket: Some("t".to_owned()), ..Holder::default() };
        assert_eq!(Holder::decode(&holder.encode()).unwrap(), holder);
    }
}
