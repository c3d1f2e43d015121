//! What znodes hold, as bytes and back.

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// Data that does not mean what it should.
#[derive(Debug, Error)]
#[error("cannot read this as {expected}")]
pub struct PayloadError {
    /// What was expected.
    pub expected: &'static str,
    /// What is wrong.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// What a znode can hold.
pub trait Payload: Sized {
    /// As it is stored.
    fn encode(&self) -> Vec<u8>;
    /// As it was meant.
    fn decode(data: &[u8]) -> Result<Self, PayloadError>;
}

/// Tells what is wrong with the data of a znode, if it does not mean what it should.
pub type Check = fn(&[u8]) -> Result<(), PayloadError>;

/// The check of a znode that holds a `T`.
pub fn check<T: Payload>(data: &[u8]) -> Result<(), PayloadError> {
    T::decode(data).map(drop)
}

/// A payload that people can read with any ZooKeeper shell: JSON. A type whose shape has changed says so in a version
/// field of its own.
pub trait Json: Serialize + DeserializeOwned {
    /// What it is called in errors.
    const WHAT: &'static str;
}

impl<T: Json> Payload for T {
    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("our payloads have string keys and nothing that can fail")
    }

    fn decode(data: &[u8]) -> Result<Self, PayloadError> {
        serde_json::from_slice(data)
            .map_err(|source| PayloadError { expected: T::WHAT, source: source.into() })
    }
}

/// Bytes that mean nothing to us.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Raw(pub Vec<u8>);

impl Payload for Raw {
    fn encode(&self) -> Vec<u8> {
        self.0.clone()
    }

    fn decode(data: &[u8]) -> Result<Self, PayloadError> {
        Ok(Self(data.to_vec()))
    }
}

/// Plain text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text(pub String);

impl Payload for Text {
    fn encode(&self) -> Vec<u8> {
        self.0.as_bytes().to_vec()
    }

    fn decode(data: &[u8]) -> Result<Self, PayloadError> {
        let text = std::str::from_utf8(data)
            .map_err(|source| PayloadError { expected: "text", source: source.into() })?;
        Ok(Self(text.to_owned()))
    }
}

impl Payload for () {
    fn encode(&self) -> Vec<u8> {
        Vec::new()
    }

    fn decode(_: &[u8]) -> Result<Self, PayloadError> {
        Ok(())
    }
}

macro_rules! decimal {
    ($($type:ty),*) => {$(
        impl Payload for $type {
            fn encode(&self) -> Vec<u8> {
                self.to_string().into_bytes()
            }

            fn decode(data: &[u8]) -> Result<Self, PayloadError> {
                let expected = "a decimal number";
                let text = std::str::from_utf8(data)
                    .map_err(|source| PayloadError { expected, source: source.into() })?;
                text.trim().parse().map_err(|source: std::num::ParseIntError| PayloadError {
                    expected,
                    source: source.into(),
                })
            }
        }
    )*};
}
decimal!(u64, i64);
