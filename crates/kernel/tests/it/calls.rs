//! Single calls, and those that are refused before they are sent.

use menagerie_kernel::session::{Auth, IfLate, State};
use menagerie_kernel::{CallError, Session, Transaction, TransactionError, retry};
use menagerie_testkit::OpCode;
use menagerie_znodes::{Kind, Raw, Znode};

use crate::world::{LONG, SHORT, World};

/// Too long for one request.
const TOO_MUCH: usize = 1 << 20;

#[tokio::test]
async fn request_that_no_server_takes_is_refused_and_disturbs_nobody() {
    let (session, proxy) = World::new("too-large").session_through_proxy(LONG).await;
    let term = session.term();
    retry::ensure(&term, "/place", b"").await.unwrap();
    let data = vec![7; TOO_MUCH];
    let created = term.create("/large", &data, Kind::Persistent, IfLate::Report).await;
    assert!(matches!(created, Err(CallError::Refused { .. })), "{created:?}");
    let set = term.set("/place", &data, None).await;
    assert!(matches!(set, Err(CallError::Refused { .. })), "{set:?}");
    // Each part fits, but not all together.
    let place: Znode<Raw> = Znode::foreign("/place", Kind::Persistent);
    let half = Raw(data[..TOO_MUCH / 2].to_vec());
    let written = Transaction::new(&term).set(&place, &half, None).set(&place, &half, None).commit().await;
    let refused = matches!(written, Err(TransactionError::Call(CallError::Refused { .. })));
    assert!(refused, "{written:?}");
    assert_eq!(term.stat("/large").await, Ok(None));
    assert_eq!(term.get("/place").await.unwrap().0, b"");
    assert_eq!(proxy.requests_of(OpCode::CreateSession), 1, "the connection is the same");
}

/// Little paths and little data, so that most of the request is what surrounds them.
#[tokio::test]
async fn transaction_that_says_that_it_fits_is_taken_and_one_more_part_is_not() {
    let (session, proxy) = World::new("transaction-bytes").session_through_proxy(LONG).await;
    let term = session.term();
    retry::ensure(&term, "/many", b"").await.unwrap();
    let many: Znode<Raw> = Znode::foreign("/many/n", Kind::PersistentSequence);
    let piece = Transaction::new(&term).create(&many, &Raw(b"x".to_vec()));
    let mut all = Transaction::new(&term);
    assert_eq!(all.bytes(), 0);
    while all.bytes() + piece.bytes() <= Transaction::BYTES_MAX {
        all = all.and(piece.clone());
    }
    assert_eq!(all.bytes(), all.parts() * piece.bytes());
    let more = all.clone().and(piece).commit().await;
    assert!(matches!(more, Err(TransactionError::Call(CallError::Refused { .. }))), "{more:?}");
    let parts = all.parts();
    assert_eq!(all.commit().await.map(|created| created.len()), Ok(parts));
    assert_eq!(proxy.requests_of(OpCode::CreateSession), 1, "the connection is the same");
}

#[tokio::test]
async fn many_are_read_in_requests_of_a_size_that_servers_take() {
    const MANY: usize = 2_500;
    let (session, proxy) = World::new("many").session_through_proxy(LONG).await;
    let term = session.term();
    retry::ensure(&term, "/there", b"x").await.unwrap();
    let paths: Vec<String> =
        (0..MANY).map(|n| if n % 2 == 0 { "/there".to_owned() } else { format!("/missing-{n}") }).collect();
    let found = term.get_many(&paths).await.unwrap();
    assert_eq!(found.len(), MANY);
    for (n, found) in found.iter().enumerate() {
        assert_eq!(found.as_ref().map(|(data, _)| data.as_slice()), (n % 2 == 0).then_some(&b"x"[..]));
    }
    assert_eq!(proxy.requests_of(OpCode::MultiRead), 3);
}

#[tokio::test]
async fn of_many_the_one_that_we_may_not_read_is_named() {
    let world = World::new("many-denied");
    let session = world.session().await;
    let mut config = world.config(LONG);
    config.auth = Some(Auth { digest: "fleet:secret".to_owned() });
    let owner = Session::connect(config).await.unwrap();
    owner.term().create("/private", b"x", Kind::Persistent, IfLate::Report).await.unwrap();
    let term = session.term();
    term.sync("/").await.unwrap();
    let paths = ["/missing", "/private", "/generation"].map(str::to_owned);
    let denied = CallError::Denied { path: "/private".to_owned() };
    assert_eq!(term.get_many(&paths).await, Err(denied));
}

#[tokio::test]
async fn what_is_not_known_when_the_session_ends_stays_unknown_unless_it_ended_too() {
    for (kind, told) in [
        (Kind::PersistentSequence, CallError::Unknown { path: "/dir/a-".to_owned() }),
        (Kind::EphemeralSequence, CallError::Expired),
    ] {
        let (session, proxy) = World::new("unknown").session_through_proxy(SHORT).await;
        let term = session.term();
        retry::ensure(&term, "/dir", b"").await.unwrap();
        proxy.cut_at_reply_of(OpCode::Create2);
        assert_eq!(retry::create_unique(&term, "/dir", "a-", b"", kind).await, Err(told));
        assert_eq!(*term.state().borrow(), State::Lost);
    }
}

#[tokio::test]
async fn what_is_insisted_on_ends_with_the_term() {
    let (session, proxy) = World::new("insisted").session_through_proxy(SHORT).await;
    let term = session.term();
    proxy.drop_replies();
    let insisting = tokio::spawn({
        let term = term.clone();
        async move { tokio::join!(retry::delete(&term, "/a"), retry::ensure(&term, "/b", b"")) }
    });
    menagerie_testkit::eventually_async("they insist", async || (proxy.dropped_replies() > 3).then_some(()))
        .await;
    proxy.cut();
    let (deleted, ensured) = insisting.await.unwrap();
    assert_eq!((deleted, ensured), (Err(CallError::Expired), Err(CallError::Expired)));
}

#[tokio::test]
async fn namespace_is_entered_as_it_is_now_and_not_as_a_server_remembers_it() {
    let world = World::new("entered");
    drop(world.session().await);
    let (_session, proxy) = world.session_through_proxy(LONG).await;
    assert_eq!(proxy.requests_of(OpCode::Sync), 1);
}
