//! Names that come from users.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Longer names make unreadable paths, lists that exceed a frame, and large messages in every protocol that carries
/// them.
pub const NAME_BYTES_MAX: usize = 200;

/// A name that a user gave to something: a pool, a host, a kind of component. It is short, printable, and has no `/`;
/// other characters that a path cannot carry are quoted there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("pattern" = r"^[^/\s\u0000-\u001f\u007f-\u009f]+$"))]
pub struct Name(String);

/// Why a text is no name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    /// The name is empty.
    #[error("a name must not be empty")]
    Empty,
    /// The name is too long.
    #[error("a name must not be longer than {NAME_BYTES_MAX} bytes, and this one has {0}")]
    Long(usize),
    /// It would be another path in the tree.
    #[error("a name must not be `.` or `..`")]
    Dots,
    /// It contains a character that is not allowed.
    #[error("a name must not contain {0:?}")]
    Character(char),
}

impl Name {
    /// Validates a name.
    pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
        let text = text.into();
        if matches!(text.as_str(), "." | "..") {
            return Err(NameError::Dots);
        }
        check(&text)?;
        Ok(Self(text))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Checks what all names have in common, also those that never become part of a path, and may be dots: they are not
/// empty, not too long, and have no `/`, blank or control character.
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
