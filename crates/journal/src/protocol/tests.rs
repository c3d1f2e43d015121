//! Arbitrary bytes: a decoder may refuse them, but neither panics nor produces more than is there.

use std::time::Duration;

use bolero::check;
use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::frame::{self, FrameError, Frames, time_of};
use super::{handshake, values};
use crate::Fence;
use crate::codec::{Sink as _, Source};
use crate::commit::{Append, COMMIT_EDITS_MAX, COMMIT_PARTS_MAX, Commit, Edit, Move, NewMessage, StateWrite};
use crate::core::{message, record};
use crate::id::{DelayedId, MessageId, Ticks};
use crate::topic::{Consumer, PartitionId, Topic};

const MAX: u32 = 100;

/// The frames in bytes that arrive in two parts, and whether they ended with an error.
fn frames(first: &[u8], second: &[u8]) -> (Vec<(u64, u8, Bytes)>, bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut frames = Frames::new(first.chain(second), MAX);
        let mut found = Vec::new();
        loop {
            match frames.next().await {
                Ok(Some(frame)) => found.push((frame.number, frame.kind, frame.body)),
                Ok(None) => return (found, false),
                Err(FrameError::Length { .. } | FrameError::Cut | FrameError::Late) => return (found, true),
                Err(FrameError::Io(error)) => panic!("{error}"),
            }
        }
    })
}

#[test]
fn frames_take_any_bytes_however_they_come() {
    check!().with_type::<(Vec<u8>, usize)>().for_each(|(input, at)| {
        let (first, second) = input.split_at(at % (input.len() + 1));
        let found = frames(first, second);
        assert_eq!(found, frames(input, &[]));
        let bytes: usize = found.0.iter().map(|(_, _, body)| frame::HEAD_BYTES + body.len()).sum();
        assert!(bytes <= input.len() && found.0.iter().all(|(_, _, body)| body.len() <= MAX as usize));
    });
}

#[tokio::test]
async fn who_begins_a_frame_and_says_no_more_is_not_waited_for() {
    let patience = Duration::from_millis(200);
    let (ours, mut theirs) = tokio::io::duplex(100);
    let mut frames = Frames::new(ours, MAX);
    frames.patience = Some(patience);
    let begun = tokio::time::timeout(patience * 3, frames.next()).await;
    assert!(begun.is_err(), "who says nothing may be silent: {begun:?}");
    theirs.write_all(&[40, 0, 0, 0, 1]).await.unwrap();
    assert!(matches!(frames.next().await, Err(FrameError::Late)));
}

#[tokio::test]
async fn who_sends_a_byte_now_and_then_is_not_waited_for_either() {
    let (ours, mut theirs) = tokio::io::duplex(100);
    let mut frames = Frames::new(ours, MAX);
    frames.patience = Some(Duration::from_millis(500));
    let trickle = async {
        for byte in 90u32.to_le_bytes().into_iter().chain([0; 90]) {
            theirs.write_all(&[byte]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let (next, ()) = tokio::join!(frames.next(), trickle);
    assert!(matches!(next, Err(FrameError::Late)), "{next:?}");
}

#[test]
fn a_slow_link_has_time_for_the_longest_message() {
    let (message, bytes_per_second) = (16 << 20, 16 << 10);
    assert!(time_of(message) >= Duration::from_secs(u64::from(message) / bytes_per_second));
    assert_eq!(time_of(100), Duration::ZERO, "who has little to say needs no more than patience");
}

#[test]
fn frames_come_out_as_they_went_in() {
    check!().with_type::<(u64, u8, Vec<u8>, usize)>().for_each(|(number, kind, body, at)| {
        let body = &body[..body.len().min(MAX as usize - frame::HEAD_BYTES + 4)];
        let mut one = frame::begin(*number, *kind);
        one.put(body);
        frame::finish(&mut one, 0);
        let twice = one.repeat(2);
        let (first, second) = twice.split_at(at % (twice.len() + 1));
        let expected = (*number, *kind, Bytes::copy_from_slice(body));
        assert_eq!(frames(first, second), (vec![expected.clone(), expected], false));
    });
}

fn decode<T, E>(input: &[u8], decode: impl FnOnce(&mut Source) -> Result<T, E>) -> Option<T> {
    decode(&mut Source::new(Bytes::copy_from_slice(input))).ok()
}

/// The fewest bytes that a commit can have been read from.
fn bytes_min(commit: &Commit) -> usize {
    commit.appends.len() * 10 + commit.moves.len() * 26 + commit.states.len() * 27 + commit.edits.len() * 10
}

#[test]
fn requests_and_replies_take_any_bytes() {
    check!().for_each(|input| {
        if let Some(commit) = decode(input, values::commit) {
            assert!(bytes_min(&commit) <= input.len());
        }
        if let Some(committed) = decode(input, values::committed) {
            assert!(committed.appends.len() + committed.edits.len() <= input.len());
        }
        if let Some(opened) = decode(input, values::opened) {
            assert!(opened.state.len() * 5 <= input.len());
        }
        decode(input, values::read);
        if let Some(ids) = decode(input, |source| values::delayed_ids(source, input.len() / 8)) {
            assert!(ids.len() * 16 <= input.len());
        }
        decode(input, handshake::hello);
        let _ = handshake::Challenge::decode(Bytes::copy_from_slice(input));
        decode(input, values::partition);
        decode(input, values::topic);
        decode(input, values::fence);
        decode(input, values::created);
        decode(input, record::consumer);
        decode(input, record::topic);
        decode(input, |source| values::json::<crate::JournalError>(&source.rest()));
        if let Ok(record) = record::Record::decode(Bytes::copy_from_slice(input)) {
            assert!(record.changes.len() <= input.len());
        }
        let heads: usize = message::heads(input).map(|head| head.len).sum();
        assert!(heads <= input.len());
        let mut messages = Vec::new();
        let whole = message::decode_all(Bytes::copy_from_slice(input), &mut messages).is_ok();
        assert!(messages.len() * message::HEAD_BYTES <= input.len() && (!whole || heads == input.len()));
    });
}

/// A commit made from fuzzed bytes: of everything as many as there are bytes of that kind.
fn commit_of(input: &[u8]) -> Commit {
    let mut commit = Commit::default();
    for (at, byte) in input.iter().enumerate().take(40) {
        let text = Bytes::copy_from_slice(&input[at..input.len().min(at + usize::from(*byte % 9))]);
        let partition = PartitionId::new(Topic::new(format!("t{}", byte % 3)).unwrap(), u32::from(*byte));
        let consumer = Consumer::new(format!("c{}", byte % 5)).unwrap();
        let (fence, id) = (Fence::new(u32::from(*byte).into(), 7), MessageId(Ticks(u64::from(*byte) << 40)));
        let message = NewMessage {
            meta: text.clone(),
            body: text.repeat(usize::from(*byte)).into(),
            ttl: (byte % 2 == 0).then(|| Duration::from_millis(u64::from(*byte) + 1)),
            due: (byte % 7 == 0).then(|| Ticks(u64::from(*byte) + 1)),
            dedup: (byte % 11 == 0).then(|| Bytes::from_static(b"id")),
        };
        match byte % 6 {
            0 => {
                let from = (byte % 12 == 0).then(|| id.previous());
                commit.moves.push(Move { partition, consumer, fence, from, position: id });
            }
            1 => {
                let value = (byte % 2 == 0).then(|| text.clone());
                commit.states.push(StateWrite { partition, consumer, fence, key: text, value });
            }
            2 => commit.edits.push(Edit::Remove { partition, id }),
            3 => commit.edits.push(Edit::Replace { partition, id, message }),
            4 => commit
                .edits
                .push(Edit::Cancel { partition, id: DelayedId { due: id.0, put: Ticks(at as u64) } }),
            _ => commit.appends.push(Append { partition, message }),
        }
    }
    commit
}

#[test]
fn commits_come_out_as_they_went_in_and_damaged_ones_are_refused_or_bounded() {
    check!().with_type::<(Vec<u8>, usize, u8)>().for_each(|(input, at, flip)| {
        let commit = commit_of(input);
        let mut encoded = Vec::new();
        values::put_commit(&commit, &mut encoded);
        assert_eq!(decode(&encoded, values::commit).as_ref(), Some(&commit));
        let at = at % encoded.len();
        assert_eq!(decode(&encoded[..at], values::commit), None, "cut at {at}");
        encoded[at] ^= flip;
        if let Some(other) = decode(&encoded, values::commit) {
            assert!(bytes_min(&other) <= encoded.len());
        }
    });
}

#[test]
fn a_commit_of_too_many_parts_is_refused_before_they_are_read() {
    // Each of them would be read as long as the first partition has no name.
    let mut appends = Vec::new();
    appends.put_u32(COMMIT_PARTS_MAX as u32 + 1);
    appends.resize(4 + 10 * (COMMIT_PARTS_MAX + 1), 0);
    let mut edits = vec![0; 12];
    edits.put_u32(COMMIT_EDITS_MAX as u32 + 1);
    edits.resize(edits.len() + 10 * (COMMIT_EDITS_MAX + 1), 0);
    for many in [appends, edits] {
        let refused = values::commit(&mut Source::new(many.into()));
        assert!(matches!(refused, Err(values::Refused::TooLarge(_))), "{refused:?}");
    }
}
