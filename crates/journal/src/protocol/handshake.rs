//! The handshake: client and server prove to each other that they know the token, without sending it.
//!
//! ```text
//! client → server   hello: a nonce
//! server → client   challenge: who it is, a nonce, its proof
//! client → server   its proof
//! server → client   done
//! ```
//! A proof is the HMAC-SHA256, with the token as key, of everything both sides have seen, and of which side proves. The
//! server proves first: an impostor that lures a client with a registered address learns nothing. Over TLS the proofs
//! cover the connection's keys, so they are worthless on any other connection.

use std::io;

use aws_lc_rs::hmac;
use bytes::Bytes;

use super::{MAGIC, PROTOCOL_VERSION};
use crate::codec::{Malformed, Sink as _, Source};
use crate::identity::{Identity, RandomId, random};
use crate::token::Token;

const NONCE_BYTES: usize = 32;
const PROOF_BYTES: usize = 32;
/// Domain separation: these proofs differ from anything else computed with the same key.
const DOMAIN: &[u8] = b"menagerie journal handshake";
/// The label of TLS channel bindings, RFC 9266.
const EXPORTER_LABEL: &[u8] = b"EXPORTER-Channel-Binding";

/// A number that is used once.
pub(crate) type Nonce = [u8; NONCE_BYTES];
pub(crate) type Proof = [u8; PROOF_BYTES];

/// Draws a nonce.
pub(crate) fn nonce() -> io::Result<Nonce> {
    random()
}

/// What a proof is bound to besides its handshake: the keys of the TLS connection; empty without TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Binding(Vec<u8>);

impl Binding {
    /// The binding of a TLS connection, from either end.
    pub(crate) fn of<Data>(connection: &rustls::ConnectionCommon<Data>) -> Result<Self, rustls::Error> {
        let exported = connection.export_keying_material([0_u8; 32], EXPORTER_LABEL, Some(&[]))?;
        Ok(Self(exported.to_vec()))
    }
}

/// The side that proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// Everything both sides have seen when they prove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transcript {
    pub(crate) client: Nonce,
    pub(crate) server: Nonce,
    pub(crate) identity: Identity,
    pub(crate) binding: Binding,
}

impl Transcript {
    fn bytes(&self, side: Side) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.put_short(DOMAIN);
        out.put_u32(PROTOCOL_VERSION);
        out.put_u8(match side {
            Side::Client => b'C',
            Side::Server => b'S',
        });
        out.put(&self.client);
        out.put(&self.server);
        put_identity(self.identity, &mut out);
        out.put_short(&self.binding.0);
        out
    }

    /// The proof of `side` that it knows the token.
    pub(crate) fn proof(&self, side: Side, token: &Token) -> Proof {
        let tag = hmac::sign(&key(token), &self.bytes(side));
        tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    /// Whether the proof of `side` is right. Constant-time.
    pub(crate) fn is_proven(&self, side: Side, token: &Token, proof: &[u8]) -> bool {
        hmac::verify(&key(token), &self.bytes(side), proof).is_ok()
    }
}

fn key(token: &Token) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes())
}

fn put_identity(identity: Identity, out: &mut Vec<u8>) {
    out.put(identity.folder.as_bytes());
    out.put(identity.start.as_bytes());
}

fn take<const N: usize>(source: &mut Source) -> Result<[u8; N], Malformed> {
    Ok(source.take(N)?.as_ref().try_into().expect("so many were taken"))
}

/// The client's first message.
pub(crate) fn put_hello(nonce: &Nonce, out: &mut Vec<u8>) {
    out.put(MAGIC);
    out.put_u32(PROTOCOL_VERSION);
    out.put(nonce);
}

/// A parsed hello. Of another version, only the version is understood.
pub(crate) enum Hello {
    Nonce(Nonce),
    Version(u32),
}

pub(crate) fn hello(source: &mut Source) -> Result<Hello, Malformed> {
    if source.take(MAGIC.len())?.as_ref() != MAGIC {
        return Err(Malformed("it does not speak our protocol"));
    }
    match source.u32()? {
        PROTOCOL_VERSION => Ok(Hello::Nonce(take(source)?)),
        other => Ok(Hello::Version(other)),
    }
}

/// The server's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Challenge {
    pub(crate) version: u32,
    pub(crate) identity: Identity,
    pub(crate) nonce: Nonce,
    pub(crate) proof: Proof,
}

impl Challenge {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.version);
        put_identity(self.identity, out);
        out.put(&self.nonce);
        out.put(&self.proof);
    }

    pub(crate) fn decode(body: Bytes) -> Result<Self, Malformed> {
        let source = &mut Source::new(body);
        let version = source.u32()?;
        if version != PROTOCOL_VERSION {
            return Err(Malformed("it answers in another version than it was asked in"));
        }
        let mut id = || take(source).map(RandomId::from_bytes);
        let identity = Identity { folder: id()?, start: id()? };
        Ok(Self { version, identity, nonce: take(source)?, proof: take(source)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript() -> Transcript {
        let id = |byte| RandomId::from_bytes([byte; 16]);
        let identity = Identity { folder: id(1), start: id(2) };
        Transcript { client: [3; 32], server: [4; 32], identity, binding: Binding::default() }
    }

    /// Computed by another program (Python's hmac) over the bytes that docs/journal-format.md describes.
    #[test]
    fn proofs_are_what_the_documentation_says() {
        let hex: String = transcript()
            .proof(Side::Server, &Token::new("secret"))
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hex, "e74913cffa04ad2ef60ad5a9ce8c6f16eb9f03d2b88334f0143ee81e31c64fa3");
    }

    #[test]
    fn a_proof_holds_for_one_side_one_token_and_one_handshake() {
        let (token, told) = (Token::new("secret"), transcript());
        let proof = told.proof(Side::Server, &token);
        assert!(told.is_proven(Side::Server, &token, &proof));
        assert!(!told.is_proven(Side::Client, &token, &proof), "it cannot be sent back");
        assert!(!told.is_proven(Side::Server, &Token::new("guessed"), &proof));
        assert!(!told.is_proven(Side::Server, &token, &proof[..31]));
        let id = RandomId::from_bytes([9; 16]);
        for other in [
            Transcript { client: [9; 32], ..transcript() },
            Transcript { server: [9; 32], ..transcript() },
            Transcript { identity: Identity { folder: id, ..told.identity }, ..transcript() },
            Transcript { identity: Identity { start: id, ..told.identity }, ..transcript() },
            Transcript { binding: Binding(vec![9; 32]), ..transcript() },
        ] {
            assert!(!other.is_proven(Side::Server, &token, &proof), "{other:?}");
        }
    }

    #[test]
    fn challenges_come_out_as_they_went_in() {
        let told = transcript();
        let proof = told.proof(Side::Server, &Token::new("secret"));
        let challenge =
            Challenge { version: PROTOCOL_VERSION, identity: told.identity, nonce: told.server, proof };
        let mut bytes = Vec::new();
        challenge.put(&mut bytes);
        assert_eq!(Challenge::decode(bytes.clone().into()), Ok(challenge));
        assert!(Challenge::decode(bytes[..bytes.len() - 1].to_vec().into()).is_err());
        bytes[0] = 2;
        assert!(Challenge::decode(bytes.into()).is_err(), "another version");
    }
}
