//! Messages as they are shown. A body that is not text is shown as base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use menagerie_journal::{Message, MessageId, Ticks};
use menagerie_znodes::queues::PartitionName;
use schemars::JsonSchema;
use serde::Serialize;

use crate::admin::browse::QueuedMessage;
use crate::admin::delayed::DelayedMessage;
use crate::message_uuid::MessageUuid;
use crate::meta::Meta;
use crate::story::{FoundMessage, State};

/// A message in a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MessageView {
    /// Its id, for life.
    pub id: MessageUuid,
    /// The partition where it stands now.
    pub partition: PartitionName,
    /// Its position there, in seconds.
    pub position: String,
    /// When it was put, in seconds.
    pub timestamp: String,
    /// Its body.
    #[serde(flatten)]
    pub body: Body,
}

/// The body of a message: one of both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "MessageBody")]
pub struct Body {
    /// If it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// If it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
}

/// A message that is not due yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DelayedMessageView {
    /// Its id; of a message that an older version put, the one that it has until it is due.
    pub id: String,
    /// The partition it will appear in.
    pub partition: PartitionName,
    /// Always `null`: it has none before it is due.
    pub position: Option<String>,
    /// When it is due, in seconds.
    pub due: String,
    /// When it was put, in seconds.
    pub timestamp: String,
    /// Bytes of its body.
    pub bytes: usize,
    /// Its body.
    #[serde(flatten)]
    pub body: Body,
    /// When it is due.
    #[serde(skip)]
    pub due_at: Ticks,
}

/// A message that was found by its content or state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FoundMessageView {
    /// Its id; of a delayed message that an older version put, the one that it has until it is due.
    pub id: String,
    /// The partition that it is, was, or will be in.
    pub partition: PartitionName,
    /// Its last position there, in seconds; `null` if it was never due.
    pub position: Option<String>,
    /// What has become of it.
    pub state: State,
    /// Its key.
    pub key: Option<String>,
    /// When it was put, in seconds.
    pub timestamp: String,
    /// Why its last attempt failed.
    pub error: Option<String>,
    /// Of the whole body; only its begin is shown.
    pub bytes: Option<usize>,
    /// The begin of its body; nothing if that is gone.
    #[serde(flatten)]
    pub body: Option<Body>,
    /// When it was put.
    #[serde(skip)]
    pub put: Ticks,
}

impl Body {
    /// The body of a message.
    pub fn of(message: &Message) -> Self {
        Self::of_bytes(&message.body)
    }

    /// A body of these bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let body = String::from_utf8(bytes.to_vec()).ok();
        Self { body_base64: body.is_none().then(|| STANDARD.encode(bytes)), body }
    }

    /// The body on one line, escaped for terminals.
    pub fn line(&self) -> String {
        match (&self.body, &self.body_base64) {
            (Some(text), _) => text.escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'"),
            (None, Some(base64)) => format!("base64:{base64}"),
            (None, None) => String::new(),
        }
    }
}

impl MessageView {
    /// How this one is shown.
    pub fn of(found: &QueuedMessage) -> Self {
        Self {
            id: found.id(),
            partition: found.partition.clone(),
            position: found.message.id.seconds(),
            timestamp: MessageId(Meta::of(&found.message).put_time(&found.message)).seconds(),
            body: Body::of(&found.message),
        }
    }
}

impl DelayedMessageView {
    /// How this one is shown.
    pub fn of(delayed: &DelayedMessage) -> Self {
        Self {
            id: delayed.name().to_string(),
            partition: delayed.partition.clone(),
            position: None,
            due: MessageId(delayed.place.due).seconds(),
            timestamp: MessageId(delayed.place.put).seconds(),
            bytes: delayed.message.body.len(),
            body: Body::of(&delayed.message),
            due_at: delayed.place.due,
        }
    }
}

impl FoundMessageView {
    /// How this one is shown.
    pub fn of(found: FoundMessage) -> Self {
        Self {
            id: found.id,
            partition: found.partition,
            position: found.position.map(MessageId::seconds),
            state: found.state,
            key: found.key,
            timestamp: MessageId(found.put).seconds(),
            error: found.error,
            bytes: found.bytes,
            body: found.body.map(|body| Body::of_bytes(&body)),
            put: found.put,
        }
    }
}
