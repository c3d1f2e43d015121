//! The token by which clients are let in: a file that only its owner can read.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::store::StoreError;
use crate::store::folder::replace;

/// The name of the file in the data folder.
pub const TOKEN_FILE: &str = "token";
const TOKEN_BYTES: usize = 32;

/// A secret. Not shown, not even by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// A token that somebody was given.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The token in a file.
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(Self(fs::read_to_string(path)?.trim().to_owned()))
    }

    /// The token of a data folder, drawn when there is none.
    pub(crate) fn of(folder: &Path) -> Result<(Self, PathBuf), StoreError> {
        let path = folder.join(TOKEN_FILE);
        match Self::read(&path) {
            Ok(token) if token.0.len() >= TOKEN_BYTES => return Ok((token, path)),
            Ok(_) => {
                return Err(StoreError::damaged(
                    &path,
                    0,
                    "it is too short for a token; remove it to get a new one",
                ));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(StoreError::io("read", &path)(error)),
        }
        let mut drawn = [0; TOKEN_BYTES];
        getrandom::fill(&mut drawn).map_err(|error| {
            StoreError::io("draw a token for", &path)(io::Error::other(error.to_string()))
        })?;
        let text: String = drawn.iter().map(|byte| format!("{byte:02x}")).collect();
        replace(&path, format!("{text}\n").as_bytes())?;
        Ok((Self(text), path))
    }

    /// Compares in a time that does not tell how much is right.
    pub(crate) fn is(&self, shown: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let differing = own.iter().zip(shown).fold(0, |sum, (a, b)| sum | (a ^ b));
        own.len() == shown.len() && differing == 0
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}
