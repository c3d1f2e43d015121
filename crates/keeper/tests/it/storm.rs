//! Many writers and many watchers at once: each watcher gets its events in the order of zxids.

use std::thread;

use menagerie_testkit::{DEADLINE, Incoming, Keeper, RawClient};
use menagerie_wire::{ErrorCode, Request};

use crate::verbs::{Verbs, creation};

const WRITERS: usize = 4;
const WATCHERS: usize = 3;
const ROUNDS: usize = 100;
/// Writes of one round that somebody watches.
const WRITES: usize = 3;

/// What a watcher received, with its zxid.
#[derive(Debug)]
enum Heard {
    Event(i64),
    Reply(i64),
}

/// Creates, sets and deletes in a pipeline, and returns the zxids.
fn write(mut client: RawClient, number: usize) -> Vec<i64> {
    let path = format!("/storm/{number}");
    let mut zxids = Vec::new();
    for _ in 0..ROUNDS {
        let requests: [_; WRITES] = [
            creation(&path, b"", 0),
            Request::SetData { path: &path, data: None, version: 0 },
            Request::Delete { path: &path, version: 1 },
        ];
        for request in &requests {
            client.send(request);
        }
        for request in &requests {
            let Some(Incoming::Reply(reply)) = client.reply(DEADLINE) else {
                panic!("no reply: {request:?}")
            };
            assert_eq!(reply.header.err, ErrorCode::Ok, "{request:?}");
            zxids.push(reply.header.zxid);
        }
    }
    zxids
}

/// Sends requests until all expected events have arrived.
fn listen(mut client: RawClient) -> Vec<Heard> {
    let mut heard = Vec::new();
    let mut events = 0;
    while events < WRITERS * ROUNDS * WRITES {
        client.send(&Request::GetData { path: "/storm", watch: false });
        loop {
            match client.recv(DEADLINE) {
                Some(Incoming::Event(event)) => {
                    events += 1;
                    heard.push(Heard::Event(event.zxid));
                }
                Some(Incoming::Reply(reply)) => {
                    heard.push(Heard::Reply(reply.header.zxid));
                    break;
                }
                other => panic!("{events} events, then {other:?}"),
            }
        }
    }
    heard
}

#[test]
fn every_watcher_hears_everything_once_in_order_and_before_any_reply_of_that_age() {
    let keeper = Keeper::new().start();
    RawClient::open(keeper.address()).create("/storm", b"");
    let listeners: Vec<_> = (0..WATCHERS)
        .map(|_| {
            let mut client = RawClient::open(keeper.address());
            client.add_watch("/storm", 1);
            thread::spawn(move || listen(client))
        })
        .collect();
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| {
            let client = RawClient::open(keeper.address());
            thread::spawn(move || write(client, number))
        })
        .collect();
    let mut written: Vec<i64> =
        writers.into_iter().flat_map(|writer| writer.join().expect("no writer panics")).collect();
    written.sort_unstable();
    for listener in listeners {
        let heard = listener.join().expect("no watcher panics");
        let events: Vec<i64> = heard
            .iter()
            .filter_map(|heard| match heard {
                Heard::Event(zxid) => Some(*zxid),
                Heard::Reply(_) => None,
            })
            .collect();
        assert_eq!(events, written, "all events, in the order of their transactions");
        let mut last_reply = 0;
        for heard in heard {
            match heard {
                Heard::Event(zxid) => assert!(zxid > last_reply, "{zxid} was visible at {last_reply}"),
                Heard::Reply(zxid) => {
                    assert!(zxid >= last_reply, "{zxid} came after {last_reply}");
                    last_reply = zxid;
                }
            }
        }
    }
}
