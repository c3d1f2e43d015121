//! The encoding of a message: the same in the log, in blocks and on the wire, so that messages are copied and never
//! re-encoded.
//!
//! | bytes | |
//! |---|---|
//! | 8 | id, big endian |
//! | 8 | end of its life in ticks; 0: none |
//! | 4 | length of the meta data |
//! | 4 | length of the body |
//! | n | meta data, then the body |

use bytes::Bytes;

use crate::codec::{Malformed, Sink, Source};
use crate::id::{MessageId, Ticks};
use crate::read::Message;

/// Bytes in front of metadata and body.
pub(crate) const HEAD_BYTES: usize = 24;

/// Encoded length of a message.
pub(crate) fn encoded_len(message: &Message) -> usize {
    HEAD_BYTES + message.meta.len() + message.body.len()
}

/// Appends a message.
pub(crate) fn encode(message: &Message, out: &mut Vec<u8>) {
    out.put(&message.id.0.0.to_be_bytes());
    out.put_u64(message.expires.map_or(0, |ticks| ticks.0));
    out.put_u32(message.meta.len() as u32);
    out.put_u32(message.body.len() as u32);
    out.put(&message.meta);
    out.put(&message.body);
}

/// Decodes the first message.
pub(crate) fn decode(source: &mut Source) -> Result<Message, Malformed> {
    let id =
        u64::from_be_bytes(source.take(8)?.as_ref().try_into().map_err(|_| Malformed("an id has 8 bytes"))?);
    let expires = source.u64()?;
    let (meta, body) = (source.u32()? as usize, source.u32()? as usize);
    Ok(Message {
        id: MessageId(Ticks(id)),
        expires: (expires != 0).then_some(Ticks(expires)),
        meta: source.take(meta)?,
        body: source.take(body)?,
    })
}

/// The part of a message that is needed to select it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) id: u64,
    pub(crate) expires: u64,
    /// Where the message begins, and how long it is.
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

/// The heads of consecutive messages. Ends early if they are malformed.
pub(crate) fn heads(bytes: &[u8]) -> impl Iterator<Item = Head> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        let head: &[u8; HEAD_BYTES] = bytes.get(offset..)?.first_chunk()?;
        let word = |at: usize| head[at..at + 8].try_into().expect("eight bytes of the head");
        let half =
            |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes of the head"));
        let len = HEAD_BYTES + half(16) as usize + half(20) as usize;
        let found =
            Head { id: u64::from_be_bytes(word(0)), expires: u64::from_le_bytes(word(8)), offset, len };
        offset += len;
        (offset <= bytes.len()).then_some(found)
    })
}

/// Decodes all messages of these bytes.
pub(crate) fn decode_all(bytes: Bytes, out: &mut Vec<Message>) -> Result<(), Malformed> {
    let mut source = Source::new(bytes);
    while !source.is_empty() {
        out.push(decode(&mut source)?);
    }
    Ok(())
}
