//! The identity of a journal: random ids identify folders and starts. Names, hosts and paths would not do: copies share
//! them.

use std::fmt;
use std::io;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Unpredictable bytes.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}

/// 128 random bits, written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RandomId([u8; RandomId::BYTES]);

impl RandomId {
    pub(crate) const BYTES: usize = 16;

    /// Draws a new id.
    pub(crate) fn draw() -> io::Result<Self> {
        Ok(Self(random()?))
    }

    pub(crate) fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

impl fmt::Display for RandomId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RandomId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is no [`RandomId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not 32 hexadecimal digits")]
pub struct RandomIdError(String);

impl FromStr for RandomId {
    type Err = RandomIdError;

    fn from_str(text: &str) -> Result<Self, RandomIdError> {
        let is_hex = text.len() == 2 * Self::BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        number.map(|number| Self(number.to_be_bytes())).ok_or_else(|| RandomIdError(text.to_owned()))
    }
}

impl TryFrom<String> for RandomId {
    type Error = RandomIdError;

    fn try_from(text: String) -> Result<Self, RandomIdError> {
        text.parse()
    }
}

impl From<RandomId> for String {
    fn from(id: RandomId) -> Self {
        id.to_string()
    }
}

/// Identifies a journal process: its folder, and which start of that folder it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Drawn when the folder was created; a byte-for-byte copy of the folder has the same.
    pub folder: RandomId,
    /// Drawn when the process opened the folder: no two processes share it.
    pub start: RandomId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_were_written() {
        let id = RandomId::draw().unwrap();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(serde_json::from_str::<RandomId>(&serde_json::to_string(&id).unwrap()).unwrap(), id);
        assert_ne!(RandomId::draw().unwrap(), id);
        for text in ["", "1", &"0".repeat(31), &"g".repeat(32), &format!("+{}", "0".repeat(31))] {
            assert!(text.parse::<RandomId>().is_err(), "{text}");
        }
    }
}
