//! Splits a stream of bytes into units that are forwarded or lost as a whole.

use menagerie_wire::frame;

/// Larger than any frame, and less than any four-letter word read as a length.
const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How a stream is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// As ZooKeeper's protocol.
    Frames,
    /// As opaque bytes.
    Bytes,
}

/// What is forwarded at once. Units hold the bytes as received, lengths included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unit {
    /// The first frame of a direction: connect request or response.
    Opening(Vec<u8>),
    /// Any other frame.
    Frame(Vec<u8>),
    /// Opaque bytes.
    Bytes(Vec<u8>),
    /// Nothing follows in this direction.
    End,
}

/// Splits one direction of a connection.
#[derive(Debug)]
pub(super) struct Splitter {
    reading: Reading,
    opened: bool,
    /// The beginning of an incomplete frame.
    rest: Vec<u8>,
}

impl Splitter {
    pub(super) fn new(reading: Reading) -> Self {
        Self { reading, opened: false, rest: Vec::new() }
    }

    /// The units completed by these bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Unit> {
        self.rest.extend_from_slice(bytes);
        let mut units = Vec::new();
        while self.reading == Reading::Frames {
            match frame::split(&self.rest, FRAME_BYTES_MAX) {
                Ok(None) => return units,
                Ok(Some((_, taken))) => {
                    let frame = self.rest.drain(..taken).collect();
                    units.push(if self.opened { Unit::Frame(frame) } else { Unit::Opening(frame) });
                    self.opened = true;
                }
                // A four-letter word or its answer, or a peer that sends garbage on purpose.
                Err(_) => self.reading = Reading::Bytes,
            }
        }
        units.push(Unit::Bytes(std::mem::take(&mut self.rest)));
        units
    }

    /// The last units, when the connection has ended.
    pub(super) fn end(&mut self) -> Vec<Unit> {
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() { vec![Unit::End] } else { vec![Unit::Bytes(rest), Unit::End] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_whole_however_their_bytes_come() {
        let bytes = [0, 0, 0, 1, 7, 0, 0, 0, 2, 8, 9];
        let whole = Splitter::new(Reading::Frames).push(&bytes);
        assert_eq!(whole, [Unit::Opening(bytes[..5].to_vec()), Unit::Frame(bytes[5..].to_vec())]);
        let mut splitter = Splitter::new(Reading::Frames);
        let single: Vec<Unit> = bytes.iter().flat_map(|byte| splitter.push(&[*byte])).collect();
        assert_eq!(single, whole);
    }

    #[test]
    fn a_four_letter_word_passes_at_once() {
        assert_eq!(Splitter::new(Reading::Frames).push(b"srvr"), [Unit::Bytes(b"srvr".to_vec())]);
    }

    #[test]
    fn what_ends_within_a_frame_is_not_lost() {
        let mut splitter = Splitter::new(Reading::Frames);
        assert_eq!(splitter.push(&[0, 0]), []);
        assert_eq!(splitter.end(), [Unit::Bytes(vec![0, 0]), Unit::End]);
    }
}
