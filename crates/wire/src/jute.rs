//! Jute, ZooKeeper's record encoding: big-endian integers; strings, buffers and vectors after an `i32` length, where -1
//! stands for null.

use thiserror::Error;

/// Why bytes cannot be decoded as the expected record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the fields of errors name themselves")]
pub enum DecodeError {
    /// The record ends before the value does.
    #[error("record ends {missing} bytes too early")]
    Short {
        /// Number of missing bytes.
        missing: usize,
    },
    /// A length below -1, or null where the protocol has no null.
    #[error("impossible length {0}")]
    Length(i32),
    /// A string that is not UTF-8.
    #[error("string is not UTF-8")]
    Utf8,
    /// A discriminant that the protocol does not know.
    #[error("unknown {what} {value}")]
    Unknown { what: &'static str, value: i32 },
}

/// Decodes values from the front of a record.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Skips `n` bytes.
    pub fn skip(&mut self, n: usize) -> Result<(), DecodeError> {
        self.take(n).map(drop)
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        match self.rest.split_at_checked(n) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(DecodeError::Short { missing: n - self.rest.len() }),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    /// A 4-byte integer.
    pub fn int(&mut self) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// An 8-byte integer.
    pub fn long(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// One byte; anything but 0 is true, as in Java's `DataInput`.
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.array::<1>()?[0] != 0)
    }

    /// A buffer, or null.
    pub fn buffer(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        match self.int()? {
            -1 => Ok(None),
            len => match usize::try_from(len) {
                Ok(len) => self.take(len).map(Some),
                Err(_) => Err(DecodeError::Length(len)),
            },
        }
    }

    /// A string; null is refused, because no record of the protocol gives it a meaning.
    pub fn string(&mut self) -> Result<&'a str, DecodeError> {
        self.string_or_null()?.ok_or(DecodeError::Length(-1))
    }

    /// A string, or null.
    pub fn string_or_null(&mut self) -> Result<Option<&'a str>, DecodeError> {
        match self.buffer()? {
            None => Ok(None),
            Some(bytes) => std::str::from_utf8(bytes).map(Some).map_err(|_| DecodeError::Utf8),
        }
    }

    /// A vector of records; null reads as empty. Nothing is allocated for elements that the remaining bytes cannot hold.
    pub fn vector<T: Decode<'a>>(&mut self) -> Result<Vec<T>, DecodeError> {
        let len = match self.int()? {
            -1 => 0,
            len => usize::try_from(len).map_err(|_| DecodeError::Length(len))?,
        };
        let needed = len.saturating_mul(T::BYTES_MIN);
        if needed > self.rest.len() {
            return Err(DecodeError::Short { missing: needed - self.rest.len() });
        }
        let mut out = Vec::with_capacity(len);
        for _ in 0..len {
            out.push(T::decode(self)?);
        }
        Ok(out)
    }
}

/// A value that can be decoded from a record.
pub trait Decode<'a>: Sized {
    /// The fewest bytes such a value can take; bounds what a vector may allocate.
    const BYTES_MIN: usize;
    /// Reads one value.
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError>;
}

impl<'a> Decode<'a> for &'a str {
    const BYTES_MIN: usize = 4;
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.string()
    }
}

/// Appends jute values to a byte buffer.
pub trait Write {
    /// A 4-byte integer.
    fn put_int(&mut self, value: i32);
    /// An 8-byte integer.
    fn put_long(&mut self, value: i64);
    /// One byte, 0 or 1.
    fn put_bool(&mut self, value: bool);
    /// A buffer, or null.
    fn put_buffer(&mut self, value: Option<&[u8]>);
    /// A string.
    fn put_string(&mut self, value: &str);
    /// A vector, each element by `element`.
    fn put_vector<T>(&mut self, values: &[T], element: impl FnMut(&mut Self, &T));
}

impl Write for Vec<u8> {
    fn put_int(&mut self, value: i32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_long(&mut self, value: i64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_bool(&mut self, value: bool) {
        self.push(u8::from(value));
    }

    fn put_buffer(&mut self, value: Option<&[u8]>) {
        match value {
            None => self.put_int(-1),
            Some(bytes) => {
                self.put_int(length(bytes.len()));
                self.extend_from_slice(bytes);
            }
        }
    }

    fn put_string(&mut self, value: &str) {
        self.put_buffer(Some(value.as_bytes()));
    }

    fn put_vector<T>(&mut self, values: &[T], mut element: impl FnMut(&mut Self, &T)) {
        self.put_int(length(values.len()));
        for value in values {
            element(self, value);
        }
    }
}

/// A length as the protocol writes it. Nothing in memory is long enough to overflow it.
fn length(len: usize) -> i32 {
    i32::try_from(len).expect("no value of two gigabytes fits into a frame")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_and_empty_buffers_differ() {
        let mut out = Vec::new();
        out.put_buffer(None);
        out.put_buffer(Some(b""));
        let mut reader = Reader::new(&out);
        assert_eq!(reader.buffer(), Ok(None));
        assert_eq!(reader.buffer(), Ok(Some(&b""[..])));
    }

    #[test]
    fn vector_longer_than_its_record_is_refused_before_it_is_allocated() {
        let bytes = i32::MAX.to_be_bytes();
        let result = Reader::new(&bytes).vector::<&str>();
        assert!(matches!(result, Err(DecodeError::Short { .. })), "{result:?}");
    }

    #[test]
    fn negative_length_is_refused() {
        assert_eq!(Reader::new(&(-2i32).to_be_bytes()).buffer(), Err(DecodeError::Length(-2)));
    }
}
