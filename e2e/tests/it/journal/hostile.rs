//! Clients that read nothing, and many clients: only the offender suffers.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use aws_lc_rs::hmac;
use menagerie_journal::{Append, Commit, Journal, MessageId, NewMessage, Read, TopicConfig};
use menagerie_testkit::{DEADLINE, allow_files};

use super::{Served, runtime, spot, topic};
use crate::process::peak_rss_mb;

const CROWD: usize = 2_000;

/// A frame of the journal's protocol, built by hand.
fn frame(number: u64, kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = (9 + body.len() as u32).to_le_bytes().to_vec();
    out.extend(number.to_le_bytes());
    out.push(kind);
    out.extend(body);
    out
}

/// An authenticated connection, by the handshake in docs/journal-format.md.
fn connect(address: SocketAddr, token: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(DEADLINE)).expect("a socket has options");
    let (version, nonce) = (5u32.to_le_bytes(), [7; 32]);
    stream.write_all(&frame(0, 0, &[b"MJNL", version.as_slice(), &nonce].concat())).expect("it takes it");
    let mut challenge = [0; 13 + 4 + 32 + 32 + 32];
    stream.read_exact(&mut challenge).expect("it answers");
    assert_eq!(challenge[12], 0, "it is greeted");
    let (ids, rest) = challenge[17..].split_at(32);
    let (server, proof) = rest.split_at(32);
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes());
    let domain = b"menagerie journal handshake";
    let transcript = |side: &[u8; 1]| {
        [&[domain.len() as u8], domain.as_slice(), &version, side, &nonce, server, ids, &[0]].concat()
    };
    hmac::verify(&key, &transcript(b"S"), proof).expect("it knows the token");
    let proof = hmac::sign(&key, &transcript(b"C"));
    stream.write_all(&frame(0, 12, proof.as_ref())).expect("it takes it");
    let mut reply = [0; 13];
    stream.read_exact(&mut reply).expect("it answers");
    assert_eq!(reply[12], 0, "it is let in");
    stream
}

/// A read of everything in partition 1.
fn read(number: u64, wait: Duration) -> Vec<u8> {
    let mut body = vec![topic().as_str().len() as u8];
    body.extend(topic().as_str().as_bytes());
    body.extend(1u32.to_le_bytes());
    body.extend(0u64.to_le_bytes());
    body.extend(u64::MAX.to_le_bytes());
    // Ascending, without expired ones.
    body.extend([0, 0]);
    body.extend(u32::MAX.to_le_bytes());
    body.extend(u32::MAX.to_le_bytes());
    body.extend((wait.as_millis() as u64).to_le_bytes());
    // Without delayed ones.
    body.push(0);
    frame(number, 4, &body)
}

#[test]
fn a_reader_that_takes_nothing_holds_up_nobody_and_costs_little_memory() {
    const MESSAGE: usize = 1 << 20;
    let served = Served::start();
    let client = served.client();
    let runtime = runtime();
    runtime.block_on(async {
        client.create_topic(&topic(), TopicConfig::partitions(2)).await.expect("a topic");
        for n in 0..48u8 {
            let message = NewMessage::new(vec![n; MESSAGE]);
            client.commit(Commit::append(spot(1), message)).await.expect("appended");
        }
    });
    let token = fs::read_to_string(served.token_file()).expect("the token is there");
    let token = token.trim();
    // Together they ask for gigabytes, and read nothing of it.
    let slow: Vec<TcpStream> = (0..4)
        .map(|_| {
            let mut stream = connect(served.process.address(), token);
            let wishes: Vec<u8> = (1..=200).flat_map(|number| read(number, Duration::ZERO)).collect();
            stream.write_all(&wishes).expect("it takes them");
            stream
        })
        .collect();
    runtime.block_on(async {
        for n in 0..200 {
            client.commit(Commit::append(spot(2), NewMessage::new(format!("{n}")))).await.expect("appended");
            let all = Read::after(spot(2), MessageId::ZERO);
            assert_eq!(client.read(all).await.expect("read").messages.len(), n + 1);
        }
    });
    let peak = peak_rss_mb(served.process.id());
    // Without a bound it would be 4 × 200 × 48 MB. The bound is 16 MiB each, beside what the journal needs.
    assert!(peak < 600, "{peak} MB");
    drop(slow);
}

#[test]
fn two_thousand_connections_are_borne() {
    allow_files(CROWD as u64 * 2 + 1_000);
    let served = Served::start();
    let client = served.client();
    let runtime = runtime();
    runtime.block_on(client.create_topic(&topic(), TopicConfig::default())).expect("a topic");
    let token = fs::read_to_string(served.token_file()).expect("the token is there");
    let token = token.trim();
    let crowd: Vec<TcpStream> = (0..CROWD)
        .map(|n| match n % 4 {
            // Some send nothing, some garbage, and some begin a frame that never ends; most wait for messages.
            0 => TcpStream::connect(served.process.address()).expect("it listens"),
            1 => {
                let mut stream = TcpStream::connect(served.process.address()).expect("it listens");
                let nonsense: &[u8] = if n % 8 == 1 { &[0xff; 64] } else { &[200, 0, 0, 0, 1] };
                // It may have hung up already.
                let _ = stream.write_all(nonsense);
                stream
            }
            _ => {
                let mut stream = connect(served.process.address(), token);
                stream.write_all(&read(1, Duration::from_secs(600))).expect("it takes it");
                stream
            }
        })
        .collect();
    let commit = Commit {
        appends: vec![Append { partition: spot(1), message: NewMessage::new("news") }],
        ..Commit::default()
    };
    runtime.block_on(client.commit(commit)).expect("it goes on");
    for (mut stream, _) in crowd.into_iter().zip(0..).filter(|(_, n)| n % 4 > 1) {
        let mut reply = [0; 13];
        stream.read_exact(&mut reply).expect("each is told");
        assert_eq!((reply[4], reply[12]), (1, 0));
    }
}
