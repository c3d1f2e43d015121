//! Bytes that no client should send, and clients that send none: only the offender is disconnected.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use menagerie_testkit::{
    DEADLINE, Incoming, Keeper, RawClient, Server, allow_files, eventually, eventually_within,
    four_letter_word,
};
use menagerie_wire::{ConnectRequest, ConnectResponse, Request, framed};

use crate::ask::{create, done, read_znode};
use crate::dice::{Dice, seed};
use crate::process::{peak_rss_mb, rss_mb};

/// Idle connections that a keeper must bear.
const CROWD: usize = 5_000;

/// Files that one process needs for them: the sockets, and those of concurrent tests.
const CROWD_FILES: u64 = CROWD as u64 * 2 + 1_000;

/// Whether the server has closed this connection. Skips anything sent before.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket has options");
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(_) => return true,
        }
    }
}

fn send_raw(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the keeper accepts connections");
    // The server may hang up before it has read everything.
    let _ = stream.write_all(bytes);
    stream
}

/// Connects a crowd and sends the same from each connection.
fn crowd(address: SocketAddr, bytes: &[u8]) -> Vec<TcpStream> {
    allow_files(CROWD_FILES);
    (0..CROWD).map(|_| send_raw(address, bytes)).collect()
}

fn handshake() -> Vec<u8> {
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout_ms: 40_000,
        session_id: 0,
        password: &[0; 16],
        read_only: Some(false),
    };
    let mut bytes = Vec::new();
    framed(&mut bytes, |out| request.encode(out));
    bytes
}

fn connections(server: &Server) -> usize {
    let answer = four_letter_word(server.address(), "mntr");
    let count = answer.lines().find_map(|line| line.strip_prefix("zk_num_alive_connections\t"));
    let count: usize = count.expect("mntr tells the number of connections").parse().expect("a number");
    count - 1 // The one that asked.
}

/// Invalid frame lengths, alone and with many bytes behind them.
fn bad_frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for length in [0, -1, i32::MIN, i32::MAX, 1 << 20] {
        let prefix = length.to_be_bytes().to_vec();
        let with_more = [prefix.clone(), vec![0xab; 1 << 20]].concat();
        frames.extend([prefix, with_more]);
    }
    frames
}

#[test]
fn offender_is_closed_and_nobody_else() {
    let server = Keeper::new().start();
    let mut witness = RawClient::open(server.address());
    done(&mut witness, &create("/witness", b"before"));
    for frame in bad_frames() {
        let first = &frame[..frame.len().min(8)];
        let mut stranger = send_raw(server.address(), &frame);
        eventually(&format!("a stranger who begins with {first:?} is closed"), || {
            is_closed(&mut stranger).then_some(())
        });
        let mut client = RawClient::open(server.address());
        client.send_bytes(&frame);
        let closed = client.reply(DEADLINE);
        assert_eq!(closed, Some(Incoming::Closed), "a client that goes on with {first:?} is closed");
        assert!(read_znode(&mut witness, "/witness").is_some(), "others are still served");
    }
    assert_eq!(connections(&server), 1, "only the witness is left");
    assert!(peak_rss_mb(server.pid()) < 100, "a length alone costs no memory");
}

#[test]
fn strangers_cannot_make_us_hold_a_frame_each() {
    let server = Keeper::new().start();
    let long = [1_000_000_u32.to_be_bytes().to_vec(), vec![0; 900_000]].concat();
    let mut strangers: Vec<_> = (0..200).map(|_| send_raw(server.address(), &long)).collect();
    eventually("who begins with what is no handshake is closed", || {
        strangers.iter_mut().all(is_closed).then_some(())
    });
    let peak = peak_rss_mb(server.pid());
    assert!(peak < 100, "what strangers sent took {peak} MB");
}

#[test]
fn garbage_is_survived() {
    let server = Keeper::new().start();
    let mut witness = RawClient::open(server.address());
    let mut dice = Dice::new(seed());
    for round in 0..200 {
        let mut bytes = dice.bytes();
        bytes.iter_mut().for_each(|byte| *byte = dice.below(256) as u8);
        if round % 2 == 0 {
            send_raw(server.address(), &bytes);
        } else {
            // In a valid frame of a valid session, so that it reaches the decoders.
            let mut client = RawClient::open(server.address());
            let mut frame = Vec::new();
            framed(&mut frame, |out| {
                out.extend_from_slice(&1_i32.to_be_bytes());
                out.extend_from_slice(&i32::try_from(dice.below(110)).expect("small").to_be_bytes());
                out.extend_from_slice(&bytes);
            });
            client.send_bytes(&frame);
            client.send(&Request::Ping);
            // Answered, refused or closed: anything but silence.
            assert_ne!(client.reply(DEADLINE), None, "no reply to {frame:?}");
        }
        witness.ping();
    }
}

#[test]
fn five_thousand_idle_sessions_are_borne() {
    let server = Keeper::new().args(["--log-level", "warn"]).start();
    let mut witness = RawClient::open(server.address());
    let before_mb = rss_mb(server.pid());
    let mut crowd = crowd(server.address(), &handshake());
    for stream in &mut crowd {
        let mut frame = [0; 4 + 37];
        stream.set_read_timeout(Some(DEADLINE)).expect("a socket has options");
        stream.read_exact(&mut frame).expect("every one gets a session");
        let response = ConnectResponse::decode(&frame[4..]).expect("the answer to a connect request");
        assert_ne!(response.session_id, 0);
    }
    assert_eq!(connections(&server), CROWD + 1);
    let grown_mb = rss_mb(server.pid()) - before_mb;
    assert!(grown_mb < 50, "{CROWD} idle connections cost {grown_mb} MB");
    done(&mut witness, &create("/still-served", b""));
    let mut ping = Vec::new();
    framed(&mut ping, |out| Request::Ping.encode(-2, out));
    for stream in &mut crowd {
        stream.write_all(&ping).expect("none was closed");
    }
    for stream in &mut crowd {
        stream.read_exact(&mut [0; 20]).expect("each one's ping is answered");
    }
}

#[test]
fn a_fleet_that_comes_back_at_once_finds_room_in_the_queue() {
    allow_files(CROWD_FILES);
    let server = Keeper::new().start();
    let most: usize = fs::read_to_string("/proc/sys/net/core/somaxconn")
        .expect("Linux tells its limits")
        .trim()
        .parse()
        .expect("a number");
    // A keeper that accepts nothing: the kernel answers for it while its queue has room. Then it stays silent, and
    // clients retry after a second, and later ever less often.
    server.pause();
    let patience = Duration::from_millis(900);
    let waiting: Vec<_> = (0..most.min(2_000))
        .map(|_| TcpStream::connect_timeout(&server.address(), patience).expect("the queue has room"))
        .collect();
    server.resume();
    eventually("they are all taken in", || (connections(&server) >= waiting.len()).then_some(()));
}

#[test]
fn whoever_does_not_say_hello_in_time_is_closed() {
    let server = Keeper::new().start();
    let mut witness = RawClient::open(server.address());
    let hello = handshake();
    let mut halves: Vec<_> =
        (1..hello.len()).map(|length| send_raw(server.address(), &hello[..length])).collect();
    let mut silent = crowd(server.address(), b"");
    done(&mut witness, &create("/still-served", b""));
    assert!(rss_mb(server.pid()) < 100);
    // The keeper gives them ten seconds, then the deadline.
    eventually_within(DEADLINE + Duration::from_secs(10), "all but the witness are closed", || {
        (connections(&server) == 1).then_some(())
    });
    assert!(halves.iter_mut().chain(&mut silent).all(is_closed), "the others know");
    assert!(read_znode(&mut witness, "/still-served").is_some());
}
