//! The token that client and server share: a file that only its owner can read. It is never sent.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::identity::random;
use crate::store::StoreError;
use crate::store::folder::replace;

/// The name of the file in the data folder.
pub const TOKEN_FILE: &str = "token";
const TOKEN_BYTES: usize = 32;

/// A secret. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// A token from its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The token in a file; the first, if there are several.
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(Self::read_all(path)?.swap_remove(0))
    }

    /// All tokens in a file, one on each line: a client may know several journals.
    pub fn read_all(path: &Path) -> io::Result<Vec<Self>> {
        let text = fs::read_to_string(path)?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let tokens: Vec<Self> = lines.map(|line| Self(line.to_owned())).collect();
        if tokens.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "there is no token in it"));
        }
        Ok(tokens)
    }

    /// The token of a data folder; draws one if there is none.
    pub(crate) fn of(folder: &Path) -> Result<(Self, PathBuf), StoreError> {
        let path = folder.join(TOKEN_FILE);
        let short = "it is too short for a token; remove it to get a new one";
        match Self::read(&path) {
            Ok(token) if token.0.len() >= TOKEN_BYTES => return Ok((token, path)),
            Ok(_) => return Err(StoreError::damaged(&path, 0, short)),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound => {}
                io::ErrorKind::InvalidData => return Err(StoreError::damaged(&path, 0, short)),
                _ => return Err(StoreError::io("read", &path)(error)),
            },
        }
        let drawn: [u8; TOKEN_BYTES] = random().map_err(StoreError::io("draw a token for", &path))?;
        let text: String = drawn.iter().map(|byte| format!("{byte:02x}")).collect();
        replace(&path, format!("{text}\n").as_bytes())?;
        Ok((Self(text), path))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use menagerie_datadir::DataError;

    use super::*;

    #[test]
    fn a_folder_keeps_its_token_and_clients_may_know_several() {
        let folder = tempfile::tempdir().unwrap();
        let (drawn, file) = Token::of(folder.path()).unwrap();
        assert!(Token::of(folder.path()).unwrap().0 == drawn && Token::read(&file).unwrap() == drawn);
        let several = folder.path().join("several");
        fs::write(&several, format!("\n  first \n\n{}", fs::read_to_string(&file).unwrap())).unwrap();
        assert!(Token::read_all(&several).unwrap() == [Token::new("first"), drawn]);
        for short in ["", "\n\n", "guessed\n"] {
            fs::write(&file, short).unwrap();
            assert!(
                matches!(Token::of(folder.path()), Err(StoreError::Data(DataError::Damaged { .. }))),
                "{short:?}"
            );
        }
        assert!(Token::read_all(&folder.path().join("missing")).is_err());
    }
}
