//! What is stored with a message beside its body: its id if that does not follow from its position, who put it and how.

use bytes::Bytes;
use menagerie_journal::{Message, Ticks};
use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::message_uuid::MessageUuid;

/// Most bytes of who put a message.
pub const BY_BYTES_MAX: usize = 255;

/// Metadata of a message in a queue: JSON, and only what is not the default.
///
/// The record of a failed message has the fields of the same names, so this reads it, too.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    /// Its id, unless that follows from its position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<MessageUuid>,
    /// When it was put, unless its position says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub put: Option<Ticks>,
    /// Who put it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Over what. Every message since ids are for life has it; those without are of an older version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<Via>,
    /// Its key, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Higher goes first, in queues without order.
    #[serde(skip_serializing_if = "is_zero")]
    pub priority: i8,
    /// How often an operator has retried it after it was given up.
    #[serde(skip_serializing_if = "is_none")]
    pub retries: u32,
    /// Its dedup id, as base64 if that is no text. The journal says only when the message was put that a duplicate
    /// repeats, and nothing at all if that was delayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedup: Option<String>,
}

/// Over what a message was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// `menagerie queue put`.
    Cli,
    /// The HTTP interface.
    Http,
    /// A program that uses this library.
    Library,
    /// A schedule.
    Schedule,
    /// Something that a newer version knows.
    #[serde(other)]
    Other,
}

/// Who puts messages, and over what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    by: Option<String>,
    via: Via,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(priority: &i8) -> bool {
    *priority == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_none(retries: &u32) -> bool {
    *retries == 0
}

/// Fields of [`Naming`] as they are written.
const ID: &[u8] = b"\"id\":";
const VIA: &[u8] = b"\"via\":";

/// What of the metadata says which id the message has: read for each message, so without the rest.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Naming {
    /// The id that is stored with it.
    pub id: Option<MessageUuid>,
    /// Set if it was put since ids are for life.
    pub via: Option<IgnoredAny>,
}

impl Naming {
    /// How a message is named; as by an older version if it carries something else.
    pub fn of(message: &Message) -> Self {
        // Nearly all messages have none, and a quote within a text is never written without a backslash before it.
        if !message.meta.windows(ID.len()).any(|bytes| bytes == ID) {
            let via = message.meta.windows(VIA.len()).any(|bytes| bytes == VIA);
            return Self { id: None, via: via.then_some(IgnoredAny) };
        }
        serde_json::from_slice(&message.meta).unwrap_or_default()
    }
}

impl Meta {
    /// Metadata of a message; the default if it carries something else.
    pub fn of(message: &Message) -> Self {
        if message.meta.is_empty() {
            return Self::default();
        }
        serde_json::from_slice(&message.meta).unwrap_or_default()
    }

    /// When the message was put.
    pub fn put_time(&self, message: &Message) -> Ticks {
        self.put.unwrap_or(message.id.0)
    }

    /// As it is stored: nothing if it is the default.
    pub fn encode(&self) -> Bytes {
        if *self == Self::default() {
            return Bytes::new();
        }
        serde_json::to_vec(self).expect("texts and numbers can be written").into()
    }
}

impl Via {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cli => "cli",
            Self::Http => "http",
            Self::Library => "library",
            Self::Schedule => "schedule",
            Self::Other => "other",
        }
    }
}

impl std::fmt::Display for Via {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Origin {
    /// Messages of `by`, as in `user@host`, over `via`. A put does not fail because of a strange name: what cannot be
    /// shown on a terminal becomes `?`, and what is too long is cut.
    pub fn new(by: &str, via: Via) -> Self {
        let mut name = String::new();
        for shown in by.trim().chars().map(|c| if c.is_control() { '?' } else { c }) {
            if name.len() + shown.len_utf8() > BY_BYTES_MAX {
                break;
            }
            name.push(shown);
        }
        Self { by: (!name.is_empty()).then_some(name), via }
    }

    /// Messages of a program, which does not say who it is.
    pub fn library() -> Self {
        Self { by: None, via: Via::Library }
    }

    /// Metadata of a message from here.
    pub fn meta(&self) -> Meta {
        Meta { by: self.by.clone(), via: Some(self.via), ..Meta::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(meta: &[u8]) -> Meta {
        let meta = Bytes::copy_from_slice(meta);
        Meta::of(&Message { id: Default::default(), meta, body: Bytes::new(), expires: None })
    }

    #[test]
    fn only_what_says_something_is_stored() {
        assert_eq!(Meta::default().encode(), "");
        let meta = Origin::new("ann@host", Via::Cli).meta();
        assert_eq!(meta.encode(), r#"{"by":"ann@host","via":"cli"}"#);
        let all = Meta {
            id: Some("6ba7b810-9dad-11d1-80b4-00c04fd430c8".parse().unwrap()),
            put: Some(Ticks(7)),
            key: Some("ü".to_owned()),
            priority: -3,
            retries: 2,
            dedup: Some("d".to_owned()),
            ..meta
        };
        assert_eq!(of(&all.encode()), all);
    }

    #[test]
    fn anything_else_is_read_as_nothing() {
        for other in
            [&b""[..], b"\xff\x00", b"null", b"7", b"[]", b"{\"id\":3}", b"{\"priority\":1000}", b"{\"key\":"]
        {
            assert_eq!(of(other), Meta::default(), "{other:?}");
        }
        assert_eq!(of(br#"{"via":"pigeon","more":[1]}"#).via, Some(Via::Other));
    }

    #[test]
    fn names_are_shown_and_bounded() {
        let by = |by: &str| Origin::new(by, Via::Http).meta().by;
        assert_eq!(by(" ann@host\n").as_deref(), Some("ann@host"));
        assert_eq!(by("a\x1b[1mb").as_deref(), Some("a?[1mb"));
        assert_eq!(by("\t"), None);
        assert_eq!(by(&"ü".repeat(1000)).map(|by| by.len()), Some(254));
    }
}
