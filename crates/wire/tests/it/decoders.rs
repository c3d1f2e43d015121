//! Arbitrary bytes: a decoder may refuse them, but neither panics nor produces more than is there.

use bolero::check;
use menagerie_wire::request::{Create, SetWatches};
use menagerie_wire::{
    Acl, ConnectRequest, ConnectResponse, Decode, Event, Id, MultiOp, MultiResult, OpCode, Reader,
    ReplyHeader, Request, RequestHeader, Response, frame, multi,
};

use crate::source::Source;

/// Bytes of the header of each operation and each result of a multi.
const MULTI_HEADER_BYTES: usize = 9;

/// The fewest bytes that the elements of a decoded value can have been read from. If that is more than there were, the
/// decoder made elements out of nothing, and an attacker could make it allocate without limit.
trait Footprint {
    fn bytes_min(&self) -> usize;
}

fn vector<T>(elements: &[T], bytes_min: usize) -> usize {
    elements.len() * bytes_min
}

impl Footprint for Create<'_> {
    fn bytes_min(&self) -> usize {
        self.path.len() + self.data.map_or(0, <[u8]>::len) + vector(&self.acl, Acl::BYTES_MIN)
    }
}

impl Footprint for MultiOp<'_> {
    fn bytes_min(&self) -> usize {
        MULTI_HEADER_BYTES
            + match self {
                Self::Create { create, .. } => create.bytes_min(),
                Self::SetData { path, data, .. } => path.len() + data.map_or(0, <[u8]>::len),
                Self::Delete { path, .. }
                | Self::Check { path, .. }
                | Self::GetData { path, .. }
                | Self::GetChildren { path, .. } => path.len(),
            }
    }
}

impl Footprint for SetWatches<'_> {
    fn bytes_min(&self) -> usize {
        let lists = [&self.data, &self.exist, &self.child, &self.persistent, &self.recursive];
        lists.into_iter().map(|list| vector(list, <&str>::BYTES_MIN)).sum()
    }
}

impl Footprint for Request<'_> {
    fn bytes_min(&self) -> usize {
        match self {
            Self::Create { create, .. } => create.bytes_min(),
            Self::SetAcl { acl, .. } => vector(acl, Acl::BYTES_MIN),
            Self::Multi(ops) | Self::MultiRead(ops) => ops.iter().map(Footprint::bytes_min).sum(),
            Self::SetWatches(watches) | Self::SetWatches2(watches) => watches.bytes_min(),
            // All others only borrow, and own no list.
            _ => 0,
        }
    }
}

impl Footprint for MultiResult<'_> {
    fn bytes_min(&self) -> usize {
        let names = if let Self::Children(names) = self { vector(names, <&str>::BYTES_MIN) } else { 0 };
        MULTI_HEADER_BYTES + names
    }
}

impl Footprint for Response<'_> {
    fn bytes_min(&self) -> usize {
        match self {
            Self::Acl { acl, .. } => vector(acl, Acl::BYTES_MIN),
            Self::Names(names) | Self::Children2 { names, .. } => vector(names, <&str>::BYTES_MIN),
            Self::Multi(results) => results.iter().map(Footprint::bytes_min).sum(),
            Self::Identities(ids) => vector(ids, Id::BYTES_MIN),
            _ => 0,
        }
    }
}

#[track_caller]
fn is_bounded(value: &impl Footprint, input: &[u8]) {
    assert!(value.bytes_min() <= input.len(), "{} bytes out of {}", value.bytes_min(), input.len());
}

#[test]
fn requests_of_every_operation_take_any_bytes() {
    check!().for_each(|input| {
        for op in OpCode::ALL {
            if let Ok(request) = Request::decode(op, &mut Reader::new(input)) {
                assert_eq!(request.op(), op);
                is_bounded(&request, input);
            }
        }
    });
}

#[test]
fn responses_to_every_operation_take_any_bytes() {
    check!().for_each(|input| {
        for op in OpCode::ALL {
            if let Ok(response) = Response::decode(op, &mut Reader::new(input)) {
                is_bounded(&response, input);
            }
        }
        if let Ok(results) = multi::decode_results(&mut Reader::new(input)) {
            is_bounded(&Response::Multi(results), input);
        }
    });
}

#[test]
fn lists_of_any_announced_length_take_any_bytes() {
    // Random bytes rarely announce a length that could be true; these do.
    check!().with_type::<(i16, Vec<u8>)>().for_each(|(length, elements)| {
        let mut input = i32::from(*length).to_be_bytes().to_vec();
        input.extend_from_slice(elements);
        for op in [OpCode::GetAcl, OpCode::GetChildren, OpCode::GetChildren2, OpCode::WhoAmI] {
            if let Ok(response) = Response::decode(op, &mut Reader::new(&input)) {
                is_bounded(&response, &input);
            }
        }
        let mut watches = vec![0; 8];
        watches.extend_from_slice(&input);
        for op in [OpCode::SetWatches, OpCode::SetWatches2] {
            if let Ok(request) = Request::decode(op, &mut Reader::new(&watches)) {
                is_bounded(&request, &watches);
            }
        }
    });
}

#[test]
fn damaged_requests_and_responses_take_what_is_left() {
    // Random bytes are refused early; these get far before something is wrong.
    check!().for_each(|input| {
        let mut source = Source(input);
        let (position, flip, cut) = (source.int(), source.byte(), source.bool());
        let request = source.request();
        let (op, response) = source.response();
        let mut bytes = Vec::new();
        request.encode(0, &mut bytes);
        bytes.drain(..8);
        damage(&mut bytes, position, flip, cut);
        if let Ok(decoded) = Request::decode(request.op(), &mut Reader::new(&bytes)) {
            is_bounded(&decoded, &bytes);
        }
        bytes.clear();
        response.encode(&mut bytes);
        damage(&mut bytes, position, flip, cut);
        if let Ok(decoded) = Response::decode(op, &mut Reader::new(&bytes)) {
            is_bounded(&decoded, &bytes);
        }
    });
}

/// Flips bits of one byte, and cuts off what follows it or not.
fn damage(bytes: &mut Vec<u8>, position: i32, flip: u8, cut: bool) {
    let position = usize::try_from(position.unsigned_abs()).expect("32 bits fit");
    let Some(position) = position.checked_rem(bytes.len()) else { return };
    bytes[position] ^= flip;
    if cut {
        bytes.truncate(position + 1);
    }
}

#[test]
fn headers_handshakes_and_events_take_any_bytes() {
    check!().for_each(|input| {
        let header = RequestHeader::decode(&mut Reader::new(input));
        assert_eq!(header.is_ok(), input.len() >= 8);
        let header = ReplyHeader::decode(&mut Reader::new(input));
        assert_eq!(header.is_ok(), input.len() >= 16);
        let event = Event::decode(&mut Reader::new(input));
        assert!(event.is_err() || input.len() >= 12, "{event:?}");
        let request = ConnectRequest::decode(input);
        assert!(request.is_err() || input.len() >= 28, "{request:?}");
        let response = ConnectResponse::decode(input);
        assert!(response.is_err() || input.len() >= 20, "{response:?}");
    });
}

#[test]
fn any_stream_of_bytes_is_split_or_refused() {
    check!().with_type::<(u8, Vec<u8>)>().for_each(|(max, stream)| {
        let mut rest = &stream[..];
        while let Ok(Some((body, taken))) = frame::split(rest, usize::from(*max)) {
            assert!(body.len() <= usize::from(*max));
            assert_eq!(taken, 4 + body.len());
            rest = &rest[taken..];
        }
        if let Some(first) = stream.first_chunk::<4>() {
            // A word is never also the length of an acceptable frame.
            let is_frame = frame::split(stream, menagerie_wire::FRAME_BYTES_MAX).is_ok();
            assert!(!is_frame || frame::four_letter_word(*first).is_none());
        }
    });
}
