//! Frames: a 4-byte big-endian length, then that many bytes.

use thiserror::Error;

/// A length that no well-behaved peer sends; the connection must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("frame length {length} is outside 0..={max}")]
#[allow(missing_docs, reason = "the fields of errors name themselves")]
pub struct FrameError {
    pub length: i32,
    /// The largest that is accepted.
    pub max: usize,
}

/// The first whole frame in `bytes`: its body, and the bytes that it takes with its length. `None`: wait for more.
pub fn split(bytes: &[u8], max: usize) -> Result<Option<(&[u8], usize)>, FrameError> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = i32::from_be_bytes(*prefix);
    match usize::try_from(length) {
        Ok(len) if len <= max => Ok(rest.get(..len).map(|body| (body, 4 + len))),
        _ => Err(FrameError { length, max }),
    }
}

/// Appends one frame whose body `body` writes. Returns the bytes appended.
pub fn framed(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = u32::try_from(out.len() - start - 4).expect("a frame is far below four gigabytes");
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    out.len() - start
}

/// Whether the first four bytes of a connection are a four-letter word (`ruok`, `srvr`, …) and not a length:
/// letters make a length beyond a gigabyte, which is never a valid one.
pub fn four_letter_word(first: [u8; 4]) -> Option<[u8; 4]> {
    first.iter().all(u8::is_ascii_lowercase).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_framed_is_split() {
        let mut out = Vec::new();
        framed(&mut out, |out| out.extend_from_slice(b"abc"));
        assert_eq!(split(&out, 3), Ok(Some((&b"abc"[..], 7))));
        assert_eq!(split(&out[..6], 3), Ok(None));
        assert_eq!(split(&out, 2), Err(FrameError { length: 3, max: 2 }));
    }

    #[test]
    fn lengths_below_zero_are_refused() {
        assert_eq!(split(&[0xff; 8], 10), Err(FrameError { length: -1, max: 10 }));
    }
}
