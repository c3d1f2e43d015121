//! Posted messages: one as the raw body, or several as JSON.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use menagerie_journal::Ticks;
use menagerie_queues::fields;
use menagerie_queues::moment::moment_with_offset;
use menagerie_znodes::queues::Settings;

use crate::form::{Problems, Reasons, TTL_SECONDS_DEFAULT, TTL_SECONDS_MAX, integer};
use crate::items::{Field, Item, Items};

/// Most messages in one request: the journal's commit must fit into one frame.
pub const MESSAGES_MAX: usize = 10_000;

/// A validated message, not yet appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostedMessage {
    /// Never empty.
    pub body: Bytes,
    /// Chooses the partition; messages of one key stay in order.
    pub key: Option<String>,
    /// Any partition if `None`, and there is no key.
    pub partition: Option<u16>,
    /// Not delivered before.
    pub due: Option<Ticks>,
    /// Time to live, from when it is due.
    pub ttl: Duration,
    /// Of messages with the same id, only the first counts.
    pub dedup: Option<String>,
    /// Higher ones come first, in queues without order.
    pub priority: i8,
}

impl PostedMessage {
    fn new(body: Bytes, ttl: Duration) -> Self {
        Self { body, key: None, partition: None, due: None, ttl, dedup: None, priority: 0 }
    }
}

/// Whether this is the media type of several messages in one request, whatever its parameters.
pub fn is_json(content_type: Option<&str>) -> bool {
    let media = content_type.and_then(|text| text.split(';').next()).unwrap_or_default();
    media.trim().eq_ignore_ascii_case("application/json")
}

/// Parses one message: its body as it is, the rest from headers.
pub fn parse_single(
    body: Bytes,
    partition: Option<&str>,
    ttl: Option<&str>,
    partitions: u16,
) -> Result<PostedMessage, Reasons> {
    let mut problems = Problems::default();
    if body.is_empty() {
        problems.check::<()>("body", Err("Required".to_owned()));
    }
    let partition =
        partition.and_then(|text| problems.check("partition", partition_number(text, partitions)));
    let ttl = self::ttl(&mut problems, "ttl", ttl);
    problems.finish(Some(PostedMessage { partition, ..PostedMessage::new(body, ttl) }))
}

/// Parses the body and time to live of a message that replaces another.
pub fn parse_replacement(body: Bytes, ttl: Option<&str>) -> Result<PostedMessage, Reasons> {
    parse_single(body, None, ttl, 1)
}

/// Parses several messages for a queue with these settings, all or none.
pub fn parse_list(json: &[u8], settings: &Settings) -> Result<Vec<PostedMessage>, Reasons> {
    let unreadable = || {
        let reason = "Unable to properly deserialize JSON body.".to_owned();
        Reasons::from([("InvalidParameter".to_owned(), reason)])
    };
    let messages: Items<MESSAGES_MAX> = serde_json::from_slice(json).map_err(|_| unreadable())?;
    let mut problems = Problems::default();
    if messages.count > MESSAGES_MAX {
        problems.check::<()>("messages", Err(format!("{} are more than {MESSAGES_MAX}", messages.count)));
        return problems.finish(None);
    }
    if let Some(name) = messages.unknown {
        problems.check::<()>(&name, Err("Unknown field: beside messages there is nothing to say".to_owned()));
    }
    let each = messages.items.into_iter().enumerate();
    let posted: Vec<_> = each.map(|(index, one)| message(&mut problems, index, one, settings)).collect();
    problems.finish(posted.into_iter().collect())
}

fn message(problems: &mut Problems, index: usize, one: Field, settings: &Settings) -> Option<PostedMessage> {
    let field = |name: &str| format!("{index}.{name}");
    let item = match one {
        Field::Object(item) => *item,
        Field::Nothing | Field::Text(_) | Field::Other(_) => Item::default(),
    };
    // Refuse rather than ignore: a client that sends a field counts on it.
    if let Some(name) = &item.unknown {
        let why = format!("Unknown field: a message has {}", fields::NAMES);
        problems.check::<()>(&field(name), Err(why));
    }
    let body = problems.check(&field("body"), body(item.body, item.body_base64));
    let key = problems.check(&field("key"), text(&item.key)).flatten();
    let partition = item
        .partition
        .as_text()
        .and_then(|text| problems.check(&field("partition"), partition_number(text, settings.partitions)));
    problems.check(&field("key"), fields::destination(key, partition));
    let due_field = if item.delay == Field::Nothing { "at" } else { "delay" };
    let due = problems.check(&field(due_field), due(item.delay.as_text(), item.at.as_text())).flatten();
    let ttl = ttl(problems, &field("ttl"), item.ttl.as_text());
    let dedup = problems.check(&field("dedup"), dedup(&item.dedup)).flatten();
    let priority = item.priority.as_text().map(|text| fields::priority(text, settings.handling.order));
    let priority = priority.and_then(|priority| problems.check(&field("priority"), priority));
    Some(PostedMessage {
        key: key.map(str::to_owned),
        partition,
        due,
        dedup,
        priority: priority.unwrap_or_default(),
        ..PostedMessage::new(body?, ttl)
    })
}

/// When a message is due. A client does not know the server's time zone, so a time must say its offset.
fn due(delay: Option<&str>, at: Option<&str>) -> Result<Option<Ticks>, String> {
    match (delay, at) {
        (None, Some(at)) => moment_with_offset(at).map(Some),
        (delay, at) => fields::due(delay, at),
    }
}

/// A field that must be a string.
fn text(field: &Field) -> Result<Option<&str>, String> {
    match field {
        Field::Nothing => Ok(None),
        Field::Text(text) => Ok(Some(text)),
        Field::Other(_) | Field::Object(_) => {
            Err(format!("{} is not a string", field.as_text().unwrap_or_default()))
        }
    }
}

fn dedup(field: &Field) -> Result<Option<String>, String> {
    text(field)?.map(fields::dedup_id).transpose()
}

fn body(plain: Field, base64: Field) -> Result<Bytes, String> {
    let bytes = match (plain, base64) {
        (Field::Text(text), Field::Nothing) => Bytes::from(text),
        (Field::Nothing, Field::Text(text)) => {
            STANDARD.decode(text).map(Bytes::from).map_err(|error| format!("body_base64: {error}"))?
        }
        (Field::Nothing, Field::Nothing) => return Err("Required".to_owned()),
        (other, Field::Nothing) | (Field::Nothing, other) => {
            return Err(format!("{} is not a string", other.as_text().unwrap_or_default()));
        }
        (_, _) => return Err("body and body_base64 exclude each other".to_owned()),
    };
    if bytes.is_empty() { Err("Required".to_owned()) } else { Ok(bytes) }
}

fn partition_number(text: &str, partitions: u16) -> Result<u16, String> {
    let number = integer(text, 1, partitions.into())?;
    u16::try_from(number).map_err(|error| error.to_string())
}

fn ttl(problems: &mut Problems, field: &str, text: Option<&str>) -> Duration {
    let seconds = text.and_then(|text| problems.check(field, ttl_seconds(text)));
    Duration::from_secs(seconds.unwrap_or(TTL_SECONDS_DEFAULT))
}

/// Seconds, or a duration with a unit. What is neither is refused as Queuey refuses it.
fn ttl_seconds(text: &str) -> Result<u64, String> {
    let has_unit = text.starts_with(|c: char| c.is_ascii_digit()) && text.ends_with(['s', 'm', 'h', 'd']);
    match fields::lifetime(text) {
        Ok(lifetime) if has_unit => integer(&lifetime.as_secs().to_string(), 1, TTL_SECONDS_MAX),
        Ok(_) | Err(_) => integer(text, 1, TTL_SECONDS_MAX),
    }
}

#[cfg(test)]
mod tests {
    use menagerie_znodes::queues::Order;

    use super::*;

    fn reason(result: Result<impl std::fmt::Debug, Reasons>) -> (String, String) {
        result.unwrap_err().into_iter().next().unwrap()
    }

    #[test]
    fn one_message_is_its_body() {
        let posted = parse_single(Bytes::from_static(b"\xff\x00"), Some("2"), Some("60"), 3).unwrap();
        assert_eq!((posted.partition, posted.ttl), (Some(2), Duration::from_secs(60)));
        assert_eq!(
            parse_single(Bytes::from_static(b"x"), None, None, 1).unwrap().ttl,
            Duration::from_secs(259_200)
        );
        assert_eq!(reason(parse_single(Bytes::new(), None, None, 1)), ("body".into(), "Required".into()));
        assert_eq!(
            reason(parse_single(Bytes::from_static(b"x"), Some("4"), None, 1)),
            ("partition".into(), "4 is greater than maximum value 1".into())
        );
        assert_eq!(
            reason(parse_single(Bytes::from_static(b"x"), None, Some("fred"), 1)),
            ("ttl".into(), "\"fred\" is not a number".into())
        );
    }

    fn settings(partitions: u16, order: Order) -> Settings {
        let mut settings = menagerie_queues::admin::default_settings(partitions, "j");
        settings.handling.order = order;
        settings
    }

    fn list(json: &str, partitions: u16) -> Result<Vec<PostedMessage>, Reasons> {
        parse_list(json.as_bytes(), &settings(partitions, Order::Partition))
    }

    #[test]
    fn a_list_is_json_and_all_or_none() {
        let posted =
            list(r#"{"messages":[{"body":"a","partition":2},{"body_base64":"/w==","ttl":"7"}]}"#, 2).unwrap();
        assert_eq!(posted[0].partition, Some(2));
        assert_eq!((&posted[1].body[..], posted[1].ttl), (&[0xff][..], Duration::from_secs(7)));
        assert_eq!(list(r#"{"messages":[]}"#, 1), Ok(Vec::new()));
        let wrong = list(r#"{"messages":[{"body":"a"},{"body":5,"ttl":0},7]}"#, 1).unwrap_err();
        assert_eq!(wrong.keys().map(String::as_str).collect::<Vec<_>>(), ["1.body", "1.ttl", "2.body"]);
    }

    #[test]
    fn a_message_says_where_when_and_how_long() {
        let one = |fields: &str| list(&format!(r#"{{"messages":[{{"body":"a",{fields}}}]}}"#), 2);
        let message = |fields: &str| one(fields).unwrap().remove(0);
        assert_eq!(message(r#""key":"k""#).key.as_deref(), Some("k"));
        for delay in [r#""delay":60"#, r#""delay":"60""#, r#""delay":"1m""#, r#""at":"2999-01-01T00:00:00Z""#]
        {
            assert!(message(delay).due.is_some_and(|due| due > Ticks::now()), "{delay}");
        }
        assert_eq!(message(r#""ttl":"2h""#).ttl, Duration::from_secs(7200));
        assert_eq!(message(r#""dedup":"d""#).dedup.as_deref(), Some("put/d"), "as on the command line");
        for (fields, field, why) in [
            (r#""key":"k","partition":1"#, "0.key", "both key and partition"),
            (r#""key":7"#, "0.key", "not a string"),
            (r#""delay":"soon""#, "0.delay", "not a duration"),
            (r#""delay":-1"#, "0.delay", "not a duration"),
            (r#""delay":1,"at":"1794744000""#, "0.delay", "both delay and at"),
            (r#""at":"noon""#, "0.at", "no time"),
            (r#""at":"2026-11-15T12:00:00""#, "0.at", "no offset: write 2026-11-15T12:00:00Z"),
            (r#""ttl":"9999d""#, "0.ttl", "greater than maximum value 33554432"),
            (r#""ttl":"soon""#, "0.ttl", "is not a number"),
            (r#""dedup":"""#, "0.dedup", "1 to 251 bytes"),
            (r#""dedup":5"#, "0.dedup", "not a string"),
            (r#""priority":1"#, "0.priority", "--order none"),
            (r#""colour":"blue""#, "0.colour", "dedup, priority"),
        ] {
            let (at, reason) = reason(one(fields));
            assert!(at == field && reason.contains(why), "{fields}: {at}: {reason}");
        }
        let unordered = settings(1, Order::None);
        let posted = |json: &str| parse_list(json.as_bytes(), &unordered);
        assert_eq!(posted(r#"{"messages":[{"body":"a","priority":-7}]}"#).unwrap()[0].priority, -7);
        assert!(posted(r#"{"messages":[{"body":"a","priority":101}]}"#).is_err());
    }

    #[test]
    fn invalid_json_is_reported_as_such() {
        for text in ["{", "[]", "{\"messages\":1}", "\u{0}"] {
            assert_eq!(reason(list(text, 1)).0, "InvalidParameter");
        }
    }

    #[test]
    fn the_media_type_may_have_a_charset() {
        assert!(is_json(Some("application/json; charset=utf-8")) && is_json(Some("Application/JSON")));
        assert!(!is_json(Some("text/plain")) && !is_json(None));
    }
}
