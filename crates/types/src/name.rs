//! Names that come from users.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Longer names make paths that nobody can read, lists that do not fit a frame, and large messages of protocols that
/// carry them everywhere.
pub const NAME_BYTES_MAX: usize = 200;

/// A name that somebody gave to something of ours: a pool, a host, a kind of component. It is short, printable, and has
/// no `/`; what else a path cannot carry is quoted where it enters one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// Why a text is no name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    /// There is nothing.
    #[error("a name must not be empty")]
    Empty,
    /// There is too much.
    #[error("a name must not be longer than {NAME_BYTES_MAX} bytes, and this one has {0}")]
    Long(usize),
    /// It would be another place in the tree.
    #[error("a name must not be `.` or `..`")]
    Dots,
    /// It contains something that names do not.
    #[error("a name must not contain {0:?}")]
    Character(char),
}

impl Name {
    /// Takes a text that may be one.
    pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
        let text = text.into();
        if matches!(text.as_str(), "." | "..") {
            return Err(NameError::Dots);
        }
        check(&text)?;
        Ok(Self(text))
    }

    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What all names have in common, also those that are no components of a path, and may be dots: they are not empty, not
/// too long, and have no `/`, blank or control character.
pub fn check(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(NameError::Long(text.len()));
    }
    match text.chars().find(|c| *c == '/' || c.is_control() || c.is_whitespace()) {
        Some(c) => Err(NameError::Character(c)),
        None => Ok(()),
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

impl TryFrom<String> for Name {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        Self::new(text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_refused_with_the_reason() {
        for (text, why) in [
            ("", NameError::Empty),
            ("..", NameError::Dots),
            ("a/b", NameError::Character('/')),
            ("a b", NameError::Character(' ')),
            ("a\0", NameError::Character('\0')),
        ] {
            assert_eq!(Name::new(text), Err(why), "{text:?}");
        }
        assert_eq!(Name::new("x".repeat(201)), Err(NameError::Long(201)));
        assert!(Name::new("web-1.example.org").is_ok());
    }
}
