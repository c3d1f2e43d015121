//! Messages as they are posted: one as the body itself, or several as JSON.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use crate::form::{Findings, Reasons, TTL_SECONDS_DEFAULT, TTL_SECONDS_MAX, whole};
use crate::items::{Field, Item, Items};

/// So many in one request: what a journal makes of them must fit into one frame.
pub const MESSAGES_MAX: usize = 10_000;

const UNKNOWN: &str = "Unknown field: a message has body or body_base64, partition, ttl";

/// A message to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    /// What.
    pub body: Bytes,
    /// Where to; any, if it does not say.
    pub partition: Option<u16>,
    /// How long it lives.
    pub ttl: Duration,
}

/// The media type of several messages in one request, whatever parameters follow it.
pub fn is_json(content_type: Option<&str>) -> bool {
    let media = content_type.and_then(|text| text.split(';').next()).unwrap_or_default();
    media.trim().eq_ignore_ascii_case("application/json")
}

/// One message: the body as it is, the rest in headers.
pub fn single(
    body: Bytes,
    partition: Option<&str>,
    ttl: Option<&str>,
    partitions: u16,
) -> Result<Posted, Reasons> {
    let mut findings = Findings::default();
    if body.is_empty() {
        findings.take::<()>("body", Err("Required".to_owned()));
    }
    let partition = partition.and_then(|text| findings.take("partition", partition_number(text, partitions)));
    let ttl = self::ttl(&mut findings, "ttl", ttl);
    findings.give(Some(Posted { body, partition, ttl }))
}

/// The body and life of a message that is put under an id that it has.
pub fn replacement(body: Bytes, ttl: Option<&str>) -> Result<Posted, Reasons> {
    single(body, None, ttl, 1)
}

/// Several messages: all of them or none.
pub fn several(json: &[u8], partitions: u16) -> Result<Vec<Posted>, Reasons> {
    let unreadable = || {
        let reason = "Unable to properly deserialize JSON body.".to_owned();
        Reasons::from([("InvalidParameter".to_owned(), reason)])
    };
    let messages: Items<MESSAGES_MAX> = serde_json::from_slice(json).map_err(|_| unreadable())?;
    let mut findings = Findings::default();
    if messages.count > MESSAGES_MAX {
        findings.take::<()>("messages", Err(format!("{} are more than {MESSAGES_MAX}", messages.count)));
        return findings.give(None);
    }
    if let Some(name) = messages.unknown {
        findings.take::<()>(&name, Err("Unknown field: beside messages there is nothing to say".to_owned()));
    }
    let each = messages.items.into_iter().enumerate();
    let posted: Vec<_> = each.map(|(index, one)| message(&mut findings, index, one, partitions)).collect();
    findings.give(posted.into_iter().collect())
}

fn message(findings: &mut Findings, index: usize, one: Field, partitions: u16) -> Option<Posted> {
    let field = |name: &str| format!("{index}.{name}");
    let item = match one {
        Field::Object(item) => *item,
        Field::Nothing | Field::Text(_) | Field::Other(_) => Item::default(),
    };
    // Whoever says more means something by it: a delay, say, that would not be kept to.
    if let Some(name) = &item.unknown {
        findings.take::<()>(&field(name), Err(UNKNOWN.to_owned()));
    }
    let body = findings.take(&field("body"), body(item.body, item.body_base64));
    let partition = item
        .partition
        .said()
        .and_then(|text| findings.take(&field("partition"), partition_number(text, partitions)));
    let ttl = ttl(findings, &field("ttl"), item.ttl.said());
    Some(Posted { body: body?, partition, ttl })
}

fn body(plain: Field, base64: Field) -> Result<Bytes, String> {
    let bytes = match (plain, base64) {
        (Field::Text(text), Field::Nothing) => Bytes::from(text),
        (Field::Nothing, Field::Text(text)) => {
            STANDARD.decode(text).map(Bytes::from).map_err(|error| format!("body_base64: {error}"))?
        }
        (Field::Nothing, Field::Nothing) => return Err("Required".to_owned()),
        (other, Field::Nothing) | (Field::Nothing, other) => {
            return Err(format!("{} is not a string", other.said().unwrap_or_default()));
        }
        (_, _) => return Err("body and body_base64 exclude each other".to_owned()),
    };
    if bytes.is_empty() { Err("Required".to_owned()) } else { Ok(bytes) }
}

fn partition_number(text: &str, partitions: u16) -> Result<u16, String> {
    let number = whole(text, 1, partitions.into())?;
    u16::try_from(number).map_err(|error| error.to_string())
}

fn ttl(findings: &mut Findings, field: &str, text: Option<&str>) -> Duration {
    let seconds = text.and_then(|text| findings.take(field, whole(text, 1, TTL_SECONDS_MAX)));
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
        let posted = single(Bytes::from_static(b"\xff\x00"), Some("2"), Some("60"), 3).unwrap();
        assert_eq!((posted.partition, posted.ttl), (Some(2), Duration::from_secs(60)));
        assert_eq!(
            single(Bytes::from_static(b"x"), None, None, 1).unwrap().ttl,
            Duration::from_secs(259_200)
        );
        assert_eq!(reason(single(Bytes::new(), None, None, 1)), ("body".into(), "Required".into()));
        assert_eq!(
            reason(single(Bytes::from_static(b"x"), Some("4"), None, 1)),
            ("partition".into(), "4 is greater than maximum value 1".into())
        );
        assert_eq!(
            reason(single(Bytes::from_static(b"x"), None, Some("fred"), 1)),
            ("ttl".into(), "\"fred\" is not a number".into())
        );
    }

    #[test]
    fn several_are_json_and_all_or_none() {
        let posted =
            several(br#"{"messages":[{"body":"a","partition":2},{"body_base64":"/w==","ttl":"7"}]}"#, 2)
                .unwrap();
        assert_eq!(posted[0].partition, Some(2));
        assert_eq!((&posted[1].body[..], posted[1].ttl), (&[0xff][..], Duration::from_secs(7)));
        assert_eq!(several(br#"{"messages":[]}"#, 1), Ok(Vec::new()));
        let wrong = several(br#"{"messages":[{"body":"a"},{"body":5,"ttl":0},7]}"#, 1).unwrap_err();
        assert_eq!(wrong.keys().map(String::as_str).collect::<Vec<_>>(), ["1.body", "1.ttl", "2.body"]);
    }

    #[test]
    fn what_is_no_json_is_named_so() {
        for text in [&b"{"[..], b"[]", b"{\"messages\":1}", b"\xff"] {
            assert_eq!(reason(several(text, 1)).0, "InvalidParameter");
        }
    }

    #[test]
    fn json_may_name_its_characters() {
        assert!(is_json(Some("application/json; charset=utf-8")) && is_json(Some("Application/JSON")));
        assert!(!is_json(Some("text/plain")) && !is_json(None));
    }
}
