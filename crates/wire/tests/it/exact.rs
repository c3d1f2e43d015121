//! The exact bytes measured on Apache ZooKeeper 3.8.0, so that both directions cannot be wrong together.

use menagerie_wire::request::{Create, xid};
use menagerie_wire::{
    Acl, ConnectRequest, ConnectResponse, ErrorCode, Event, EventKind, MultiOp, MultiResult, OpCode, Request,
    Response, Stat,
};

/// Hexadecimal digits, with any blanks between them.
fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).expect("digits are ASCII"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("only digits")).collect()
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

#[test]
fn connect_response_has_36_bytes_for_old_clients_and_37_for_others() {
    let response = |read_only| ConnectResponse {
        timeout_ms: 30_000,
        session_id: 0x0100_00e9_8b70_0003,
        password: &[7; 16],
        read_only,
    };
    let old = encoded(|out| response(None).encode(out));
    assert_eq!(old, hex("00000000 00007530 010000e98b700003 00000010 07070707070707070707070707070707"));
    assert_eq!(old.len(), 36);
    let new = encoded(|out| response(Some(false)).encode(out));
    assert_eq!((new.len(), &new[..36], new[36]), (37, &old[..], 0));
}

#[test]
fn refusal_is_a_session_of_zeros() {
    let refusal = encoded(|out| ConnectResponse::refusal(None).encode(out));
    assert_eq!(refusal, hex("00000000 00000000 0000000000000000 00000010 00000000000000000000000000000000"));
}

#[test]
fn connect_request_may_end_before_its_last_byte() {
    let old =
        hex("00000000 0000000000000005 00007530 0000000000000000 00000010 00000000000000000000000000000000");
    let request = ConnectRequest::decode(&old).unwrap();
    assert_eq!((request.last_zxid_seen, request.timeout_ms, request.read_only), (5, 30_000, None));
    let new = [&old[..], &[1]].concat();
    assert_eq!(ConnectRequest::decode(&new).unwrap().read_only, Some(true));
}

#[test]
fn stat_has_68_bytes_in_the_order_of_its_fields() {
    let stat = Stat {
        czxid: 1,
        mzxid: 2,
        ctime: 3,
        mtime: 4,
        version: 5,
        cversion: 6,
        aversion: 7,
        ephemeral_owner: 8,
        data_length: 9,
        num_children: 10,
        pzxid: 11,
    };
    let bytes = encoded(|out| stat.encode(out));
    let expected =
        "0000000000000001 0000000000000002 0000000000000003 0000000000000004 00000005 00000006 00000007
                    0000000000000008 00000009 0000000a 000000000000000b";
    assert_eq!(bytes, hex(expected));
    assert_eq!(bytes.len(), 68);
}

#[test]
fn empty_multi_is_its_end_marker() {
    let marker = hex("ffffffff 01 ffffffff");
    assert_eq!(encoded(|out| Response::Multi(Vec::new()).encode(out)), marker);
    assert_eq!(
        encoded(|out| Request::Multi(Vec::new()).encode(3, out)),
        [hex("00000003 0000000e"), marker].concat()
    );
}

#[test]
fn failed_multi_repeats_each_code_behind_its_header() {
    let codes = [ErrorCode::Ok, ErrorCode::NoNode, ErrorCode::RuntimeInconsistency];
    let response = Response::Multi(codes.map(MultiResult::Error).to_vec());
    let expected =
        "ffffffff 00 00000000 00000000  ffffffff 00 ffffff9b ffffff9b  ffffffff 00 fffffffe fffffffe
                    ffffffff 01 ffffffff";
    assert_eq!(encoded(|out| response.encode(out)), hex(expected));
}

#[test]
fn operations_in_a_multi_stand_behind_their_code() {
    let request = Request::Multi(vec![MultiOp::Check { path: "/w", version: 1 }]);
    let expected = "00000001 0000000e  0000000d 00 ffffffff 00000002 2f77 00000001  ffffffff 01 ffffffff";
    assert_eq!(encoded(|out| request.encode(1, out)), hex(expected));
}

#[test]
fn add_watch_is_answered_with_four_bytes() {
    assert_eq!(encoded(|out| Response::Code(ErrorCode::Ok).encode(out)), hex("00000000"));
}

#[test]
fn null_data_has_length_minus_one() {
    let stat = Stat::default();
    let null = encoded(|out| Response::Data { data: None, stat }.encode(out));
    let empty = encoded(|out| Response::Data { data: Some(b""), stat }.encode(out));
    assert_eq!((&null[..4], &empty[..4]), (&hex("ffffffff")[..], &hex("00000000")[..]));
}

#[test]
fn create_ends_with_its_flags_and_a_ttl_only_where_the_operation_has_one() {
    let create = |ttl| Create { path: "/a", data: Some(b"x"), acl: vec![Acl::open()], flags: 5, ttl };
    let head =
        "00000002 2f61 00000001 78 00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65 00000005";
    let create2 = Request::Create { op: OpCode::Create2, create: create(None) };
    assert_eq!(encoded(|out| create2.encode(9, out)), hex(&format!("00000009 0000000f {head}")));
    let create_ttl = Request::Create { op: OpCode::CreateTtl, create: create(Some(1000)) };
    assert_eq!(
        encoded(|out| create_ttl.encode(9, out)),
        hex(&format!("00000009 00000015 {head} 00000000000003e8"))
    );
}

#[test]
fn credentials_are_sent_under_their_own_number() {
    let auth = Request::Auth { scheme: "digest", credentials: b"u:p" };
    let expected = "fffffffc 00000064 00000000 00000006 646967657374 00000003 753a70";
    assert_eq!(encoded(|out| auth.encode(xid::AUTH, out)), hex(expected));
}

#[test]
fn events_carry_kind_state_and_path() {
    let event = Event { kind: EventKind::ChildrenChanged, path: "/w" };
    assert_eq!(encoded(|out| event.encode(out)), hex("00000004 00000003 00000002 2f77"));
}
