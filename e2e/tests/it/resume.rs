//! A client that resumes a session that is not its own, or is gone, gets id 0 and never a fresh session.

use menagerie_testkit::{Connect, Keeper, RawClient, Refusal, Server, eventually, four_letter_word};
use menagerie_wire::{ErrorCode, Request};

use crate::ask::{EPHEMERAL, create_as, done, open_with_timeout, read_znode, resumption};

/// The server's number of sessions.
fn sessions(server: &Server) -> u64 {
    let answer = four_letter_word(server.address(), "mntr");
    let count = answer.lines().find_map(|line| line.strip_prefix("zk_global_sessions\t"));
    count.expect("mntr tells the number of sessions").parse().expect("a number")
}

#[track_caller]
fn assert_gone(server: &Server, connect: &Connect) {
    let before = sessions(server);
    match RawClient::connect(server.address(), connect) {
        Err(Refusal::Gone(answer)) => {
            assert_eq!((answer.id, answer.timeout_ms), (0, 0), "what clients take for an expired session");
        }
        other => panic!("expected a refusal, got {other:?}"),
    }
    assert_eq!(sessions(server), before, "no session came of it");
}

#[test]
fn wrong_password_gets_id_0_and_does_not_disturb_the_owner() {
    let server = Keeper::new().start();
    let mut owner = RawClient::open(server.address());
    let mut wrong = owner.session().password.clone();
    wrong[15] ^= 1;
    for password in [wrong, vec![0; 16], Vec::new()] {
        assert_gone(
            &server,
            &Connect { session: Some((owner.session().id, password)), ..Connect::default() },
        );
    }
    owner.ping();
}

#[test]
fn unknown_session_gets_id_0() {
    let server = Keeper::new().start();
    let owner = RawClient::open(server.address());
    for id in [1, -1, i64::MAX, owner.session().id + 1] {
        let session = Some((id, owner.session().password.clone()));
        assert_gone(&server, &Connect { session, ..Connect::default() });
    }
}

#[test]
fn closed_session_gets_id_0() {
    let server = Keeper::new().start();
    let mut client = RawClient::open(server.address());
    let session = client.session().clone();
    done(&mut client, &Request::CloseSession);
    assert_gone(&server, &resumption(&session));
}

#[test]
fn expired_session_gets_id_0_also_after_a_restart() {
    let mut server = Keeper::new().args(["--tick", "100"]).start();
    // The longest that such a tick allows: it has to live until its znode exists.
    let mut expired = open_with_timeout(server.address(), 2000);
    done(&mut expired, &create_as("/of-expired", b"", EPHEMERAL));
    let mut witness = RawClient::open(server.address());
    eventually("the session expires", || read_znode(&mut witness, "/of-expired").is_none().then_some(()));
    assert_gone(&server, &resumption(expired.session()));
    server.kill();
    server.restart();
    assert_gone(&server, &resumption(expired.session()));
}

#[test]
fn session_moves_to_the_connection_that_resumes_it() {
    let server = Keeper::new().start();
    let mut first = RawClient::open(server.address());
    done(&mut first, &create_as("/mine", b"", EPHEMERAL));
    let mut second = RawClient::connect(server.address(), &resumption(first.session())).expect("it resumes");
    assert_eq!(second.session(), first.session());
    let (_, stat) = read_znode(&mut second, "/mine").expect("the ephemeral znode is there");
    assert_eq!(stat.ephemeral_owner, second.session().id);
    // The first connection is closed; its request in flight can no longer change anything.
    assert_eq!(first.reply(menagerie_testkit::DEADLINE), Some(menagerie_testkit::Incoming::Closed));
}

#[test]
fn client_that_has_seen_more_than_the_server_is_not_served() {
    let server = Keeper::new().start();
    let newest = RawClient::open(server.address()).ping();
    let ahead = Connect { last_zxid: newest + 1, ..Connect::default() };
    assert_eq!(RawClient::connect(server.address(), &ahead).err(), Some(Refusal::Closed));
    let level = Connect { last_zxid: newest, ..Connect::default() };
    let mut client = RawClient::connect(server.address(), &level).expect("it has seen what the server has");
    assert_eq!(client.call(&Request::Sync { path: "/" }).header.err, ErrorCode::Ok);
}
