//! SIGTERM: accepted requests are answered, answered ones are durable, and the exit is clean.

use std::collections::BTreeSet;

use menagerie_testkit::{DEADLINE, Incoming, Keeper, RawClient};
use menagerie_wire::{ErrorCode, OpCode, Response};

use crate::ask::{children, create};

/// Sends creates until the server accepts no more; returns those that were answered.
fn create_until_closed(mut client: RawClient, number: usize, answered: &dyn Fn()) -> BTreeSet<String> {
    let mut created = BTreeSet::new();
    for at in 0.. {
        // Twenty in flight.
        client.send(&create(&format!("/all/{number}-{at}"), b"some data"));
        if at < 20 {
            continue;
        }
        match client.reply(DEADLINE) {
            Some(Incoming::Reply(reply)) => note(&reply, &mut created),
            Some(Incoming::Closed) => return created,
            other => panic!("neither an answer nor the end: {other:?}"),
        }
        answered();
    }
    unreachable!("it ends when the connection does")
}

fn note(reply: &menagerie_testkit::Reply, created: &mut BTreeSet<String>) {
    assert_eq!(reply.header.err, ErrorCode::Ok);
    let Ok(Response::Path(path)) = reply.response(OpCode::Create) else { panic!("no path: {reply:?}") };
    created.insert(path.trim_start_matches("/all/").to_owned());
}

#[test]
fn what_was_taken_before_sigterm_is_answered_and_what_was_answered_is_durable() {
    let mut server = Keeper::new().start();
    for _ in 0..5 {
        let mut admin = RawClient::open(server.address());
        admin.call(&create("/all", b""));
        let before: BTreeSet<String> = children(&mut admin, "/all").into_iter().collect();
        let (sender, answers) = std::sync::mpsc::channel();
        let writers: Vec<_> = (0..4)
            .map(|number| {
                let (client, sender) = (RawClient::open(server.address()), sender.clone());
                let number = before.len() + number;
                std::thread::spawn(move || create_until_closed(client, number, &|| _ = sender.send(())))
            })
            .collect();
        // Well under way.
        (0..200).for_each(|_| answers.recv_timeout(DEADLINE).expect("writes are answered"));
        let status = server.terminate();
        assert_eq!(status.code(), Some(0), "a stop that was asked for is no failure");
        let mut expected = before;
        for writer in writers {
            expected.extend(writer.join().expect("the writer got answers, then the end"));
        }
        server.restart();
        let found: BTreeSet<String> =
            children(&mut RawClient::open(server.address()), "/all").into_iter().collect();
        assert_eq!(expected.difference(&found).next(), None, "answered, but not there after the restart");
        assert_eq!(found.difference(&expected).next(), None, "taken and written, but not answered");
    }
}
