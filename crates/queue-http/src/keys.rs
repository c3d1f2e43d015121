//! Generating, hashing and comparing keys. We keep hashes only, never a key.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use menagerie_znodes::queues::{ApplicationKey, KeyId, Scope};

/// Shortest key that an operator may choose, so that it cannot be guessed.
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
    /// Hashes a key.
    pub fn of(key: &str) -> Self {
        Self(hex(digest(&SHA256, key.as_bytes()).as_ref()))
    }

    /// The key's public id, a prefix of its hash.
    pub fn id(&self) -> KeyId {
        KeyId::of_hash(&self.0).expect("a hash has more digits than a name")
    }

    /// The hash in hexadecimal.
    pub fn digits(&self) -> &str {
        &self.0
    }

    /// Compares with another hash in constant time.
    pub fn is(&self, digits: &str) -> bool {
        verify_slices_are_equal(self.0.as_bytes(), digits.as_bytes()).is_ok()
    }
}

/// Generates a random key.
pub fn generate() -> Result<String, getrandom::Error> {
    let mut bytes = [0; KEY_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(hex(&bytes))
}

/// The record of a key as ZooKeeper stores it.
pub fn stored(
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
    fn generated_keys_are_long_and_never_repeat() {
        let (one, other) = (generate().unwrap(), generate().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.len(), 64);
    }
}
