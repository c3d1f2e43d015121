//! Posted messages: one as the raw body, or several as JSON.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use crate::form::{Problems, Reasons, TTL_SECONDS_DEFAULT, TTL_SECONDS_MAX, integer};
use crate::items::{Field, Item, Items};

/// Most messages in one request: the journal's commit must fit into one frame.
pub const MESSAGES_MAX: usize = 10_000;

const UNKNOWN: &str = "Unknown field: a message has body or body_base64, partition, ttl";

/// A validated message, not yet appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostedMessage {
    /// Never empty.
    pub body: Bytes,
    /// Any partition if `None`.
    pub partition: Option<u16>,
    /// Time to live.
    pub ttl: Duration,
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
    problems.finish(Some(PostedMessage { body, partition, ttl }))
}

/// Parses the body and time to live of a message that replaces another.
pub fn parse_replacement(body: Bytes, ttl: Option<&str>) -> Result<PostedMessage, Reasons> {
    parse_single(body, None, ttl, 1)
}

/// Parses several messages, all or none.
pub fn parse_list(json: &[u8], partitions: u16) -> Result<Vec<PostedMessage>, Reasons> {
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
    let posted: Vec<_> = each.map(|(index, one)| message(&mut problems, index, one, partitions)).collect();
    problems.finish(posted.into_iter().collect())
}

fn message(problems: &mut Problems, index: usize, one: Field, partitions: u16) -> Option<PostedMessage> {
    let field = |name: &str| format!("{index}.{name}");
    let item = match one {
        Field::Object(item) => *item,
        Field::Nothing | Field::Text(_) | Field::Other(_) => Item::default(),
    };
    // Refuse rather than ignore: a client that sends, say, a delay counts on it.
    if let Some(name) = &item.unknown {
        problems.check::<()>(&field(name), Err(UNKNOWN.to_owned()));
    }
    let body = problems.check(&field("body"), body(item.body, item.body_base64));
    let partition = item
        .partition
        .as_text()
        .and_then(|text| problems.check(&field("partition"), partition_number(text, partitions)));
    let ttl = ttl(problems, &field("ttl"), item.ttl.as_text());
    Some(PostedMessage { body: body?, partition, ttl })
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
    let seconds = text.and_then(|text| problems.check(field, integer(text, 1, TTL_SECONDS_MAX)));
    Duration::from_secs(seconds.unwrap_or(TTL_SECONDS_DEFAULT))
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_list_is_json_and_all_or_none() {
        let posted =
            parse_list(br#"{"messages":[{"body":"a","partition":2},{"body_base64":"/w==","ttl":"7"}]}"#, 2)
                .unwrap();
        assert_eq!(posted[0].partition, Some(2));
        assert_eq!((&posted[1].body[..], posted[1].ttl), (&[0xff][..], Duration::from_secs(7)));
        assert_eq!(parse_list(br#"{"messages":[]}"#, 1), Ok(Vec::new()));
        let wrong = parse_list(br#"{"messages":[{"body":"a"},{"body":5,"ttl":0},7]}"#, 1).unwrap_err();
        assert_eq!(wrong.keys().map(String::as_str).collect::<Vec<_>>(), ["1.body", "1.ttl", "2.body"]);
    }

    #[test]
    fn invalid_json_is_reported_as_such() {
        for text in [&b"{"[..], b"[]", b"{\"messages\":1}", b"\xff"] {
            assert_eq!(reason(parse_list(text, 1)).0, "InvalidParameter");
        }
    }

    #[test]
    fn the_media_type_may_have_a_charset() {
        assert!(is_json(Some("application/json; charset=utf-8")) && is_json(Some("Application/JSON")));
        assert!(!is_json(Some("text/plain")) && !is_json(None));
    }
}
