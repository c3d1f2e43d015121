//! Presence: a znode of our own name.

use menagerie_kernel::Session;
use menagerie_kernel::recipes::presence::Presence;
use menagerie_testkit::eventually_async;
use menagerie_znodes::{Kind, Text, Znode};

use crate::world::{LONG, SHORT, World};

fn znode() -> Znode<Text> {
    Znode::foreign("/workers/web-1-17", Kind::Ephemeral)
}

fn text(text: &str) -> Text {
    Text(text.to_owned())
}

async fn shows(session: &Session, what: &str) {
    let term = session.term();
    eventually_async(&format!("it says {what}"), async || {
        let (data, _) = term.get(znode().path()).await.ok()?;
        (data == what.as_bytes()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn it_says_what_it_said_last_and_is_gone_when_it_leaves() {
    let world = World::new("presence");
    let (session, other) = (world.session().await, world.session().await);
    let presence = Presence::begin(&session, &znode(), &text("idle")).await.unwrap();
    shows(&other, "idle").await;
    for what in ["one", "two", "three"] {
        presence.publish(&text(what));
    }
    shows(&other, "three").await;
    presence.leave().await.unwrap();
    other.term().sync("/").await.unwrap();
    assert_eq!(other.term().stat(znode().path()).await.unwrap(), None);
}

#[tokio::test]
async fn a_name_that_another_session_has_is_waited_for() {
    let world = World::new("presence-taken");
    let (first, second) = (world.session().await, world.session().await);
    let presence = Presence::begin(&first, &znode(), &text("first")).await.unwrap();
    let (place, what) = (znode(), text("second"));
    let waiting = Presence::begin(&second, &place, &what);
    tokio::pin!(waiting);
    let early = tokio::time::timeout(SHORT / 2, &mut waiting).await;
    assert!(early.is_err(), "somebody has the name");
    shows(&second, "first").await;
    first.close().await;
    let taken = waiting.await.unwrap();
    shows(&second, "second").await;
    drop(presence);
    taken.publish(&text("still second"));
    shows(&second, "still second").await;
}

#[tokio::test]
async fn who_gives_up_waiting_for_a_name_takes_nothing_from_its_owner() {
    let world = World::new("presence-given-up");
    let (first, second) = (world.session().await, world.session().await);
    let _presence = Presence::begin(&first, &znode(), &text("first")).await.unwrap();
    let before = first.term().stat(znode().path()).await.unwrap().unwrap();
    let (place, what) = (znode(), text("second"));
    let waiting = Presence::begin(&second, &place, &what);
    assert!(tokio::time::timeout(SHORT / 2, waiting).await.is_err());
    // Whatever it still does in the background is finished before it is closed.
    second.close().await;
    let after = first.term().stat(znode().path()).await.unwrap().unwrap();
    assert_eq!(before.czxid, after.czxid);
}

#[tokio::test]
async fn it_is_there_again_in_the_next_session() {
    let world = World::new("presence-expired");
    let other = world.session().await;
    let (session, proxy) = world.session_through_proxy(SHORT).await;
    let _presence = Presence::begin(&session, &znode(), &text("here")).await.unwrap();
    let term = session.term();
    proxy.partition();
    term.lost().await;
    proxy.heal();
    let next = session.term_after(&term).await.unwrap();
    eventually_async("it is there in the new session", async || {
        let stat = other.term().stat(znode().path()).await.ok()??;
        (stat.ephemeral_owner == next.session_id()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn who_leaves_while_the_server_is_away_does_not_wait_for_it() {
    let world = World::new("presence-away");
    let (session, proxy) = world.session_through_proxy(SHORT).await;
    let presence = Presence::begin(&session, &znode(), &text("here")).await.unwrap();
    let term = session.term();
    proxy.partition();
    term.lost().await;
    let left = tokio::time::timeout(LONG * 4, presence.leave()).await;
    left.expect("it waits for nobody").unwrap();
}
