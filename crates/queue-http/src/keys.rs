//! Keys: drawn, hashed and compared. A key itself is held no longer than it takes to hash it.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use menagerie_znodes::queues::{ApplicationKey, KeyId, Scope};

/// Who brings a key of his own brings at least so many characters: it must not be guessed.
pub const KEY_CHARS_MIN: usize = 16;
const KEY_BYTES: usize = 32;

/// The SHA-256 of a key, in hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Hash(String);

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({}…)", self.id())
    }
}

impl Hash {
    /// Of a key.
    pub fn of(key: &str) -> Self {
        Self(hex(digest(&SHA256, key.as_bytes()).as_ref()))
    }

    /// What the key is called.
    pub fn id(&self) -> KeyId {
        KeyId::of_hash(&self.0).expect("a hash has more digits than a name")
    }

    /// The digits.
    pub fn digits(&self) -> &str {
        &self.0
    }

    /// Whether these digits are the same; compared in a time that does not tell how much of them is.
    pub fn is(&self, digits: &str) -> bool {
        verify_slices_are_equal(self.0.as_bytes(), digits.as_bytes()).is_ok()
    }
}

/// A new key.
pub fn draw() -> Result<String, getrandom::Error> {
    let mut bytes = [0; KEY_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(hex(&bytes))
}

/// What is kept of a key.
pub fn kept(
    application: &str,
    hash: &Hash,
    scopes: Vec<Scope>,
    created_ms: u64,
    note: Option<String>,
) -> ApplicationKey {
    ApplicationKey { application: application.to_owned(), sha256: hash.0.clone(), scopes, created_ms, note }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_by_its_hash() {
        let hash = Hash::of("abc");
        assert_eq!(hash.digits(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(hash.id().as_str(), "ba7816bf8f01");
        assert!(hash.is(hash.digits()) && !Hash::of("abd").is(hash.digits()) && !hash.is("ba78"));
        assert_eq!(format!("{hash:?}"), "Hash(ba7816bf8f01…)");
    }

    #[test]
    fn keys_are_drawn_long_and_never_twice() {
        let (one, other) = (draw().unwrap(), draw().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.len(), 64);
    }
}
