//! Replies, with exactly the JSON keys that clients know.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use menagerie_journal::{Message, MessageId};
use menagerie_znodes::queues::{Consistency, QueueName, Settings, Visibility};
use serde::{Serialize, Serializer};

use menagerie_queues::MessageUuid;

use crate::receive::board::Delivery;

/// A reply to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub code: u16,
    /// JSON, as a rule.
    pub body: Vec<u8>,
    /// Media type of the body.
    pub media: &'static str,
    /// Headers beside those every reply has.
    pub headers: Vec<(&'static str, String)>,
    /// Messages posted or read, for the metrics.
    pub messages: usize,
}

/// Header of a reply that was cut at its size limit: more messages follow after the last one.
pub const TRUNCATED: &str = "x-truncated";

const JSON: &str = "application/json";

#[derive(Serialize)]
struct Ok<T> {
    status: &'static str,
    #[serde(flatten)]
    fields: T,
}

#[derive(Serialize)]
struct Nothing {}

#[derive(Serialize)]
struct Created<'a> {
    queue_name: &'a str,
    partitions: u16,
    r#type: Visibility,
    consistency: Consistency,
    principles: Option<&'a str>,
}

#[derive(Serialize)]
struct Updated<'a> {
    queue_name: &'a str,
    partitions: u16,
    created: f64,
    principles: &'a [String],
    r#type: Visibility,
}

#[derive(Serialize)]
struct Queues {
    queues: Vec<Listed>,
}

/// One queue of a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Listed {
    queue_name: String,
    #[serde(flatten)]
    details: Option<Details>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Details {
    application: String,
    consistency: Consistency,
    created: f64,
    partitions: u16,
    r#type: Visibility,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    principles: Vec<String>,
}

/// Not wrapped in [`Ok`]: serde's `flatten` would dominate the cost of large replies.
#[derive(Serialize)]
struct Messages<T> {
    status: &'static str,
    messages: Vec<T>,
}

#[derive(Serialize)]
struct PostedFields {
    key: String,
    timestamp: String,
    partition: u16,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    delayed: bool,
}

#[derive(Serialize)]
struct Read<'a> {
    message_id: String,
    timestamp: String,
    partition: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "base64")]
    body_base64: Option<&'a [u8]>,
}

#[derive(Serialize)]
struct Received<'a> {
    receipt: String,
    attempt: u32,
    message_id: String,
    timestamp: String,
    partition: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "base64")]
    body_base64: Option<&'a [u8]>,
}

pub(crate) fn base64<S: Serializer>(bytes: &Option<&[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes.unwrap_or_default()))
}

impl Reply {
    pub(crate) fn json(code: u16, value: &impl Serialize) -> Self {
        let body = serde_json::to_vec(value).expect("texts, numbers and lists can be written");
        Self { code, body, media: JSON, headers: Vec::new(), messages: 0 }
    }

    pub(crate) fn ok(code: u16, fields: impl Serialize) -> Self {
        Self::json(code, &Ok { status: "ok", fields })
    }

    /// A plain text.
    pub fn text(text: &str) -> Self {
        Self { body: text.into(), media: "text/plain; charset=utf-8", ..Self::done() }
    }

    /// JSON that is already serialized.
    pub fn document(json: &str) -> Self {
        Self { body: json.into(), ..Self::done() }
    }

    /// Success without further fields.
    pub fn done() -> Self {
        Self::ok(200, Nothing {})
    }

    /// A queue was created or existed already. Returns the principles as the client wrote them.
    pub fn created(queue: &QueueName, settings: &Settings, principles: Option<&str>) -> Self {
        let fields = Created {
            queue_name: queue.name(),
            partitions: settings.partitions,
            r#type: settings.visibility,
            consistency: settings.consistency,
            principles,
        };
        Self::ok(201, fields)
    }

    /// The settings of a queue after a change.
    pub fn updated(queue: &QueueName, settings: &Settings) -> Self {
        let fields = Updated {
            queue_name: queue.name(),
            partitions: settings.partitions,
            created: created_seconds(settings),
            principles: &settings.principles,
            r#type: settings.visibility,
        };
        Self::ok(200, fields)
    }

    /// A list of queues.
    pub fn queues(queues: Vec<Listed>) -> Self {
        Self::ok(200, Queues { queues })
    }

    /// Each message posted.
    pub fn posted(messages: &[Posted]) -> Self {
        let posted = messages.iter().map(posted).collect();
        let reply = Self::json(201, &Messages { status: "ok", messages: posted });
        Self { messages: messages.len(), ..reply }
    }

    /// Messages of a queue that were read; `is_truncated` if more match than fit into one reply.
    pub fn messages(queue: &QueueName, messages: &[(u16, Message)], is_truncated: bool) -> Self {
        let read = messages.iter().map(|(number, message)| read(queue, *number, message)).collect();
        let mut reply = Self::json(200, &Messages { status: "ok", messages: read });
        reply.messages = messages.len();
        if is_truncated {
            reply.headers.push((TRUNCATED, "true".to_owned()));
        }
        reply
    }
}

impl Reply {
    /// Messages that a client has received.
    pub(crate) fn received(queue: &QueueName, deliveries: &[Delivery]) -> Self {
        let messages = deliveries.iter().map(|delivery| received(queue, delivery)).collect();
        let reply = Self::json(200, &Messages { status: "ok", messages });
        Self { messages: deliveries.len(), ..reply }
    }
}

impl Listed {
    /// A queue, with its settings and message count if the client asked for them.
    pub fn new(queue: &QueueName, settings: Option<&Settings>, count: Option<u64>) -> Self {
        let details = settings.map(|settings| Details {
            application: queue.application().to_owned(),
            consistency: settings.consistency,
            created: created_seconds(settings),
            partitions: settings.partitions,
            r#type: settings.visibility,
            principles: settings.principles.clone(),
        });
        Self { queue_name: queue.name().to_owned(), details, count }
    }
}

/// A message that was posted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    /// The partition it is in.
    pub partition: u16,
    /// Its id, for life.
    pub id: MessageUuid,
    /// Its position; when it is due while it is delayed.
    pub time: MessageId,
    /// It is not due yet.
    pub is_delayed: bool,
}

fn posted(posted: &Posted) -> PostedFields {
    let Posted { partition, id, time, is_delayed } = *posted;
    PostedFields { key: id.hex(), timestamp: time.seconds(), partition, delayed: is_delayed }
}

fn received<'a>(queue: &QueueName, delivery: &'a Delivery) -> Received<'a> {
    let (receipt, attempt) = (delivery.receipt.encode(), delivery.attempt);
    let (partition, message) = (delivery.receipt.partition, &delivery.message);
    let (message_id, timestamp) = (id(queue, partition, message), message.id.seconds());
    let (body, body_base64) = body(message);
    Received { receipt, attempt, message_id, timestamp, partition, body, body_base64 }
}

fn read<'a>(queue: &QueueName, partition: u16, message: &'a Message) -> Read<'a> {
    let (body, body_base64) = body(message);
    let (message_id, timestamp) = (id(queue, partition, message), message.id.seconds());
    Read { message_id, timestamp, partition, body, body_base64 }
}

/// The id of a message of this partition.
fn id(queue: &QueueName, partition: u16, message: &Message) -> String {
    MessageUuid::of(&queue.partition(partition), message).hex()
}

/// `body` and `body_base64`: a body that is not UTF-8 goes into the latter.
pub(crate) fn body(message: &Message) -> (Option<&str>, Option<&[u8]>) {
    let text = std::str::from_utf8(&message.body).ok();
    (text, text.is_none().then_some(&message.body))
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit a double for 280,000 years")]
fn created_seconds(settings: &Settings) -> f64 {
    settings.created_ms as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use menagerie_journal::Ticks;
    use serde_json::{Value, json};

    use super::*;

    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }

    fn value(reply: &Reply) -> Value {
        serde_json::from_slice(&reply.body).unwrap()
    }

    fn settings() -> Settings {
        Settings {
            partitions: 2,
            journal: "j".into(),
            folder: None,
            visibility: Visibility::User,
            consistency: Consistency::Strong,
            principles: Vec::new(),
            keep: menagerie_znodes::queues::Keep::default(),
            handling: menagerie_znodes::queues::Handling::default(),
            created_ms: 1_500,
        }
    }

    #[test]
    fn replies_have_exactly_the_keys_of_queuey() {
        let queue: QueueName = "notes:mail".parse().unwrap();
        let created = Reply::created(&queue, &settings(), None);
        assert_eq!(created.code, 201);
        let created = value(&created);
        assert_eq!(
            keys(&created),
            ["consistency", "partitions", "principles", "queue_name", "status", "type"]
        );
        assert_eq!(created["principles"], Value::Null);
        let updated = value(&Reply::updated(&queue, &settings()));
        assert_eq!(keys(&updated), ["created", "partitions", "principles", "queue_name", "status", "type"]);
        assert_eq!((&updated["created"], &updated["principles"]), (&json!(1.5), &json!([])));
        let listed = |listed| serde_json::to_value::<Listed>(listed).unwrap();
        assert_eq!(keys(&listed(Listed::new(&queue, None, None))), ["queue_name"]);
        let all = listed(Listed::new(&queue, Some(&settings()), Some(3)));
        assert_eq!(
            keys(&all),
            ["application", "consistency", "count", "created", "partitions", "queue_name", "type"]
        );
        assert_eq!(value(&Reply::done()), json!({"status": "ok"}));
    }

    #[test]
    fn a_message_is_named_message_id_when_read_and_key_when_posted() {
        let (id, queue): (_, QueueName) =
            (MessageId(Ticks(0x1eb_1234_5678_9abc)), "notes:mail".parse().unwrap());
        let uuid = MessageUuid::derived(&queue.partition(1), id);
        let posted = value(&Reply::posted(&[Posted { partition: 1, id: uuid, time: id, is_delayed: false }]));
        assert_eq!(keys(&posted["messages"][0]), ["key", "partition", "timestamp"]);
        let of = |body: &'static [u8], meta: &'static str| Message {
            id,
            meta: Bytes::from_static(meta.as_bytes()),
            body: Bytes::from_static(body),
            expires: None,
        };
        let foreign = r#"{"id":"56789abc123411eb80b400c04fd430c8"}"#;
        let read = Reply::messages(
            &queue,
            &[(1, of(b"hello", r#"{"via":"http"}"#)), (2, of(b"\xff", foreign)), (3, of(b"old", ""))],
            false,
        );
        assert_eq!((read.messages, read.headers.len()), (3, 0));
        let read = value(&read);
        assert_eq!(keys(&read["messages"][0]), ["body", "message_id", "partition", "timestamp"]);
        assert_eq!(read["messages"][1]["body_base64"], "/w==");
        assert_eq!(read["messages"][0]["message_id"], posted["messages"][0]["key"]);
        assert_eq!(read["messages"][1]["message_id"], "56789abc123411eb80b400c04fd430c8");
        assert_eq!(read["messages"][2]["message_id"], id.to_string().replace('-', ""));
    }
}
