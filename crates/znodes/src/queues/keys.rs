//! API keys of applications.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::payload::Json;
use crate::quote::{Component, Quoted};

/// Digits of its hash that identify a key.
pub const KEY_ID_CHARS: usize = 12;

/// The name of a key: the beginning of its hash, which reveals nothing about the key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId(String);

/// The text is no id of a key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a key is named by {KEY_ID_CHARS} hexadecimal digits, as `menagerie queue key list` shows them")]
pub struct KeyIdError;

impl KeyId {
    /// The id of the key with this hash, in hexadecimal digits.
    pub fn of_hash(sha256: &str) -> Result<Self, KeyIdError> {
        sha256.get(..KEY_ID_CHARS).ok_or(KeyIdError)?.parse()
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for KeyId {
    type Err = KeyIdError;

    fn from_str(text: &str) -> Result<Self, KeyIdError> {
        let digits = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if digits && text.len() == KEY_ID_CHARS { Ok(Self(text.to_owned())) } else { Err(KeyIdError) }
    }
}

impl TryFrom<String> for KeyId {
    type Error = KeyIdError;

    fn try_from(text: String) -> Result<Self, KeyIdError> {
        text.parse()
    }
}

impl From<KeyId> for String {
    fn from(id: KeyId) -> Self {
        id.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Component for KeyId {
    fn write(&self, path: &mut String) {
        Quoted(&self.0).write(path);
    }
}

/// What a key allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// List queues, read messages.
    Read,
    /// Post, replace and delete messages.
    Write,
    /// Create, change and delete queues.
    Admin,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    /// Those of a new key, unless more are asked for.
    pub const DEFAULT: [Self; 2] = [Self::Read, Self::Write];

    /// Its stored form.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|scope| scope.word() == text);
        found.ok_or_else(|| format!("{text:?} is not one of read, write, admin"))
    }
}

/// A key of an application, without the key itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationKey {
    /// The application that it belongs to.
    pub application: String,
    /// Its SHA-256, in hexadecimal digits. Keys are drawn at random and long, so it needs no salt.
    pub sha256: String,
    /// What it allows.
    pub scopes: Vec<Scope>,
    /// When it was added, in ms since 1970.
    pub created_ms: u64,
    /// A note of its owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Json for ApplicationKey {
    const WHAT: &'static str = "a key of an application";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_named_by_its_hash() {
        assert_eq!(KeyId::of_hash("0123456789abcdef").unwrap().as_str(), "0123456789ab");
        for text in ["", "0123456789a", "0123456789AB", "0123456789ag", "../456789abcd"] {
            assert!(text.parse::<KeyId>().is_err(), "{text}");
        }
    }
}
