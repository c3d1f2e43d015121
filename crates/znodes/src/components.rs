//! The registry: every process of ours registers itself by its kind.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Name;
use crate::payload::{Payload, PayloadError, check};
use crate::spec::{Kind, ZnodeSpec};
use crate::znode::{Dir, Znode};

const ROOT: ZnodeSpec = ZnodeSpec {
    pattern: "/components",
    kind: Kind::Persistent,
    payload: "nothing",
    check: check::<()>,
    written_by: "the first component of all",
    guarded_by: "nothing: it is only a folder",
    deleted_by: "nobody",
    seed: "003: zuul/components",
};

const KIND: ZnodeSpec = ZnodeSpec {
    pattern: "/components/<kind>",
    kind: Kind::Persistent,
    payload: "nothing",
    check: check::<()>,
    written_by: "the first component of its kind",
    guarded_by: "nothing: it is only a folder",
    deleted_by: "nobody",
    seed: "003: zuul/components/executor and its like",
};

const MEMBER: ZnodeSpec = ZnodeSpec {
    pattern: "/components/<kind>/<host>",
    kind: Kind::EphemeralSequence,
    payload: "JSON: host, state, version, pid, id, details",
    check: check::<Component>,
    written_by: "the process that it stands for, on every change and again in every new session",
    guarded_by: "being written by one process only",
    deleted_by: "the process when it leaves, or the end of its session",
    seed: "003: zuul/components/<kind>/<hostname><seq>",
};

/// The specs of all znodes of the registry.
pub const SPECS: &[ZnodeSpec] = &[ROOT, KIND, MEMBER];

/// All kinds.
pub fn root() -> Znode<Dir> {
    ROOT.at(&[])
}

/// All components of a kind.
pub fn kind(kind: &Name) -> Znode<Dir> {
    KIND.at(&[kind])
}

/// A component of this kind on this host; the server appends a number, because there may be several.
pub fn member(kind: &Name, host: &Name) -> Znode<Component> {
    MEMBER.at(&[kind, host])
}

/// What a component is doing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, Default, JsonSchema)]
#[serde(from = "String", into = "String")]
#[schemars(inline)]
pub enum ComponentState {
    /// It has registered and is not ready for work yet.
    #[default]
    Initializing,
    /// It is at work.
    Running,
    /// It finishes what it has begun, and takes no new work.
    Paused,
    /// It is about to leave.
    Stopped,
    /// A state of a newer version, or one that a person wrote.
    Other(String),
}

impl fmt::Display for ComponentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Initializing => "initializing",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Other(text) => text,
        })
    }
}

impl From<String> for ComponentState {
    fn from(text: String) -> Self {
        match text.as_str() {
            "initializing" => Self::Initializing,
            "running" => Self::Running,
            "paused" => Self::Paused,
            "stopped" => Self::Stopped,
            _ => Self::Other(text),
        }
    }
}

impl From<ComponentState> for String {
    fn from(state: ComponentState) -> Self {
        state.to_string()
    }
}

/// What a component publishes about itself.
///
/// Decoding it never fails. Components of several versions register side by side while a fleet is upgraded, so unknown
/// fields are ignored; and a person may have written one by hand. One malformed entry must not hide all others from
/// `menagerie status`, nor from an election among them.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Component {
    /// The machine that it runs on.
    pub host: String,
    /// What it is doing.
    pub state: ComponentState,
    /// The version of its program.
    pub version: String,
    /// Its pid.
    pub pid: u32,
    /// Tells it from all others, also from itself before a restart. Membership fills it in.
    pub id: String,
    /// Details that depend on its kind.
    pub details: Map<String, Value>,
}

impl Component {
    /// A component that has just begun.
    pub fn new(host: &Name, version: impl Into<String>) -> Self {
        Self { host: host.to_string(), version: version.into(), pid: std::process::id(), ..Self::default() }
    }
}

impl Payload for Component {
    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it has string keys and nothing that can fail")
    }

    fn decode(data: &[u8]) -> Result<Self, PayloadError> {
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(data) else {
            // Kept as it is, among the details.
            let text = String::from_utf8_lossy(data).into_owned();
            let details = Map::from_iter([("unreadable".to_owned(), Value::String(text))]);
            return Ok(Self { state: ComponentState::Other(String::new()), details, ..Self::default() });
        };
        let mut text = |name: &str| match fields.remove(name) {
            Some(Value::String(text)) => text,
            Some(other) => other.to_string(),
            None => String::new(),
        };
        // Zuul calls it hostname.
        let host = Some(text("host")).filter(|host| !host.is_empty()).unwrap_or_else(|| text("hostname"));
        let (state, version, id) = (text("state").into(), text("version"), text("id"));
        let pid = text("pid").parse().unwrap_or_default();
        let details = match fields.remove("details") {
            Some(Value::Object(details)) => details,
            Some(other) => Map::from_iter([("details".to_owned(), other)]),
            None => Map::new(),
        };
        Ok(Self { host, state, version, pid, id, details })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(text: &str) -> Component {
        Component::decode(text.as_bytes()).unwrap()
    }

    #[test]
    fn component_is_read_as_it_was_written() {
        let mut component = Component::new(&Name::new("web-1").unwrap(), "1.2");
        component.state = ComponentState::Running;
        component.details.insert("queues".to_owned(), 3.into());
        assert_eq!(Component::decode(&component.encode()).unwrap(), component);
    }

    #[test]
    fn newer_peers_and_people_are_understood_as_far_as_can_be() {
        let newer =
            decode(r#"{"host":"a","state":"draining","version":"9","pid":7,"zone":"x","details":{}}"#);
        assert_eq!((newer.host.as_str(), newer.pid), ("a", 7));
        assert_eq!(newer.state, ComponentState::Other("draining".to_owned()));
        let person = decode(r#"{"hostname":"b","pid":"12","state":"running","details":"for a test"}"#);
        assert_eq!((person.host.as_str(), person.pid, person.state), ("b", 12, ComponentState::Running));
        assert_eq!(person.details["details"], "for a test");
        assert_eq!(decode("hello").details["unreadable"], "hello");
        assert_eq!(decode("").state, ComponentState::Other(String::new()));
    }

    #[test]
    fn paths_are_those_of_the_seed() {
        let (scheduler, host) = (Name::new("scheduler").unwrap(), Name::new("web-1").unwrap());
        assert_eq!(kind(&scheduler).path(), "/components/scheduler");
        assert_eq!(member(&scheduler, &host).path(), "/components/scheduler/web-1");
    }

    proptest! {
        #[test]
        fn nothing_is_refused(data in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Component::decode(&data).is_ok());
        }
    }
}
