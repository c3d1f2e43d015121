//! What one side encodes, the other decodes as the same value, to the last byte.

use bolero::check;
use menagerie_wire::{
    ConnectRequest, ConnectResponse, ErrorCode, Event, EventKind, Reader, ReplyHeader, Request,
    RequestHeader, Response, frame, framed,
};

use crate::source::Source;

#[test]
fn requests_survive_the_wire() {
    check!().for_each(|input| {
        let mut source = Source(input);
        let xid = source.int();
        let request = source.request();
        let mut bytes = Vec::new();
        request.encode(xid, &mut bytes);
        let mut r = Reader::new(&bytes);
        assert_eq!(RequestHeader::decode(&mut r), Ok(RequestHeader { xid, op: request.op().code() }));
        assert_eq!(Request::decode(request.op(), &mut r).as_ref(), Ok(&request));
        // The bodies of these two are ignored, so nothing is decoded.
        if !matches!(request, Request::Reconfig | Request::Sasl) {
            assert_eq!(r.rest(), [], "{request:?}");
        }
    });
}

#[test]
fn responses_survive_the_wire() {
    check!().for_each(|input| {
        let mut source = Source(input);
        let header = ReplyHeader { xid: source.int(), zxid: source.long(), err: ErrorCode(source.int()) };
        let (op, response) = source.response();
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        response.encode(&mut bytes);
        let mut r = Reader::new(&bytes);
        assert_eq!(ReplyHeader::decode(&mut r), Ok(header));
        assert_eq!(Response::decode(op, &mut r).as_ref(), Ok(&response));
        assert_eq!(r.rest(), [], "{op:?}");
    });
}

#[test]
fn handshakes_survive_the_wire() {
    check!().for_each(|input| {
        let mut source = Source(input);
        let request = ConnectRequest {
            protocol_version: source.int(),
            last_zxid_seen: source.long(),
            timeout_ms: source.int(),
            session_id: source.long(),
            password: source.buffer(),
            read_only: source.bool().then(|| source.bool()),
        };
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        assert_eq!(ConnectRequest::decode(&bytes).as_ref(), Ok(&request));

        let response = ConnectResponse {
            timeout_ms: request.timeout_ms,
            session_id: request.session_id,
            password: request.password,
            read_only: request.read_only,
        };
        let mut bytes = Vec::new();
        response.encode(&mut bytes);
        assert_eq!(ConnectResponse::decode(&bytes).as_ref(), Ok(&response));
    });
}

#[test]
fn events_survive_the_wire() {
    const KINDS: [EventKind; 4] =
        [EventKind::Created, EventKind::Deleted, EventKind::DataChanged, EventKind::ChildrenChanged];
    check!().for_each(|input| {
        let mut source = Source(input);
        let event = Event { kind: KINDS[usize::from(source.byte() % 4)], path: source.string() };
        let mut bytes = Vec::new();
        event.encode(&mut bytes);
        let mut r = Reader::new(&bytes);
        assert_eq!(Event::decode(&mut r), Ok(event));
        assert_eq!(r.rest(), []);
    });
}

#[test]
fn frames_come_apart_as_they_were_put_together() {
    check!().for_each(|input| {
        let mut source = Source(input);
        let bodies = source.list(Source::buffer);
        let mut stream = Vec::new();
        for body in &bodies {
            framed(&mut stream, |out| out.extend_from_slice(body));
        }
        let mut rest = &stream[..];
        for body in bodies {
            let (found, taken) = frame::split(rest, 32).unwrap().unwrap();
            assert_eq!(found, body);
            // For every cut of a frame, the decoder waits for the rest and does not guess.
            for n in 0..taken {
                assert_eq!(frame::split(&rest[..n], 32), Ok(None));
            }
            rest = &rest[taken..];
        }
        assert_eq!(rest, []);
    });
}
