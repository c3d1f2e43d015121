//! Payloads of znodes, encoded and decoded.

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// Data that does not decode as the expected payload.
#[derive(Debug, Error)]
#[error("cannot read this as {expected}")]
#[allow(missing_docs, reason = "the fields of errors name themselves")]
pub struct PayloadError {
    pub expected: &'static str,
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// A payload of znodes.
pub trait Payload: Sized {
    /// The stored bytes.
    fn encode(&self) -> Vec<u8>;
    /// Decodes the stored bytes.
    fn decode(data: &[u8]) -> Result<Self, PayloadError>;
}

/// Checks that data decodes as the payload of a znode.
pub type Check = fn(&[u8]) -> Result<(), PayloadError>;

/// The check of a znode that holds a `T`.
pub fn check<T: Payload>(data: &[u8]) -> Result<(), PayloadError> {
    T::decode(data).map(drop)
}

/// A payload that people can read with any ZooKeeper shell: JSON. A type whose shape has changed says so in a version
/// field of its own.
pub trait Json: Serialize + DeserializeOwned {
    /// Its name in errors.
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

/// A payload for readers that tolerate damage: one damaged znode must not hide the others. Decoding it never fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MaybeDamaged<T> {
    /// A valid payload.
    Sound(T),
    /// Data that does not decode.
    Damaged {
        /// The stored bytes.
        data: Vec<u8>,
        /// The reason.
        why: String,
    },
}

impl<T> MaybeDamaged<T> {
    /// The payload; `None` if it is damaged.
    pub fn sound(self) -> Option<T> {
        match self {
            Self::Sound(value) => Some(value),
            Self::Damaged { .. } => None,
        }
    }
}

impl<T: Payload> Payload for MaybeDamaged<T> {
    fn encode(&self) -> Vec<u8> {
        match self {
            Self::Sound(value) => value.encode(),
            Self::Damaged { data, .. } => data.clone(),
        }
    }

    fn decode(data: &[u8]) -> Result<Self, PayloadError> {
        Ok(match T::decode(data) {
            Ok(value) => Self::Sound(value),
            Err(error) => Self::Damaged { data: data.to_vec(), why: error.source.to_string() },
        })
    }
}

/// Opaque bytes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_payload_is_kept_as_it_is_stored() {
        let sound = MaybeDamaged::<u64>::decode(b"7").unwrap();
        assert_eq!(sound, MaybeDamaged::Sound(7));
        let damaged = MaybeDamaged::<u64>::decode(b"seven").unwrap();
        assert_eq!(damaged.encode(), b"seven");
        assert_eq!((sound.sound(), damaged.sound()), (Some(7), None));
    }
}
