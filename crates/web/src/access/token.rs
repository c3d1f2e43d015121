//! Tokens: drawing, hashing, storing, revoking. ZooKeeper has their hashes alone.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use menagerie_kernel::session::now_ms;
use menagerie_kernel::{CallError, Session, retry};
use menagerie_types::Name;
use menagerie_znodes::Payload as _;
use menagerie_znodes::web::{self, Rights, Token};
use schemars::JsonSchema;
use serde::Serialize;

/// How tokens begin, so that programs that look for leaked secrets can recognise them.
const PREFIX: &str = "mng_";
const TOKEN_BYTES: usize = 32;
/// Digits of its hash that identify a token.
const ID_CHARS: usize = 12;

/// The SHA-256 of a token, in hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Hash(String);

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({}…)", self.id())
    }
}

impl Hash {
    /// Hashes a token.
    pub fn of(token: &str) -> Self {
        Self(hex(digest(&SHA256, token.as_bytes()).as_ref()))
    }

    /// The token's public id: the beginning of its hash, which reveals nothing about it.
    pub fn id(&self) -> Name {
        Name::new(&self.0[..ID_CHARS]).expect("hexadecimal digits are a name")
    }

    /// Compares with another hash in constant time.
    pub fn is(&self, digits: &str) -> bool {
        verify_slices_are_equal(self.0.as_bytes(), digits.as_bytes()).is_ok()
    }
}

/// A token without its secret, for tables and JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TokenView {
    /// Its id.
    pub id: String,
    /// Who uses it, or what for.
    pub name: String,
    /// What it allows.
    pub scopes: Vec<String>,
    /// Who created it.
    pub by: String,
    /// When, in milliseconds since 1970.
    pub created_ms: u64,
}

/// Draws a token and stores its hash. Returns the token, which nobody can read again, and its id.
pub async fn create(
    session: &Session,
    name: &Name,
    rights: Rights,
    by: &str,
) -> Result<(String, Name), CallError> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    let token = format!("{PREFIX}{}", hex(&bytes));
    let hash = Hash::of(&token);
    let (id, sha256) = (hash.id(), hash.0);
    let stored = Token { name: name.clone(), sha256, rights, by: by.to_owned(), created_ms: now_ms() };
    // The name is never used again, so a repeated attempt cannot hit another token.
    retry::ensure(&session.term(), web::token(&id).path(), &stored.encode()).await?;
    Ok((token, id))
}

/// All tokens by name. Damaged ones are left out: nobody can use them.
pub async fn list(session: &Session) -> Result<Vec<TokenView>, CallError> {
    let term = session.term();
    term.sync("/").await?;
    let names = match term.children(web::tokens().path()).await {
        Err(CallError::NoZnode { .. }) => Vec::new(),
        names => names?,
    };
    let ids: Vec<Name> = names.into_iter().filter_map(|name| Name::new(name).ok()).collect();
    let znodes: Vec<_> = ids.iter().map(|id| web::token(id).maybe_damaged()).collect();
    let found = ids.into_iter().zip(term.read_many(&znodes).await?);
    let mut views: Vec<TokenView> = found
        .filter_map(|(id, found)| {
            let Token { name, rights, by, created_ms, .. } = found?.value.sound()?;
            let (id, name) = (id.to_string(), name.to_string());
            Some(TokenView { id, name, scopes: rights.into(), by, created_ms })
        })
        .collect();
    views.sort_by(|one, other| (&one.name, one.created_ms).cmp(&(&other.name, other.created_ms)));
    Ok(views)
}

/// Revokes a token on all servers. `false` if there is none with this id.
pub async fn revoke(session: &Session, id: &Name) -> Result<bool, CallError> {
    match retry::remove(&session.term(), web::token(id).path()).await {
        Err(CallError::NoZnode { .. }) => Ok(false),
        outcome => outcome,
    }
}

/// What is stored of this token, read from ZooKeeper; `None` if it is not valid.
pub async fn look_up(session: &Session, hash: &Hash) -> Result<Option<Token>, CallError> {
    let term = session.term();
    term.sync("/").await?;
    let found = term.read(&web::token(&hash.id()).maybe_damaged()).await?;
    Ok(found.and_then(|found| found.value.sound()).filter(|token| hash.is(&token.sha256)))
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
    fn a_token_is_known_by_its_hash() {
        let hash = Hash::of("abc");
        assert_eq!(hash.id().as_str(), "ba7816bf8f01");
        assert!(hash.is(&hash.0) && !Hash::of("abd").is(&hash.0) && !hash.is("ba78"));
        assert_eq!(format!("{hash:?}"), "Hash(ba7816bf8f01…)");
    }
}
