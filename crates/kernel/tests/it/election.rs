//! Elections: one leads, everybody sees who, and losers stand again.

use menagerie_kernel::recipes::election::Election;
use menagerie_kernel::{Session, TransactionError, retry};
use menagerie_testkit::{OpCode, eventually_async};
use menagerie_znodes::{Kind, Raw, Znode};

use crate::lock::{DIR, dir};
use crate::world::{LONG, SHORT, World};

fn election(session: &Session, who: &str) -> Election {
    Election::new(session, dir(), who)
}

async fn candidates(session: &Session) -> Vec<String> {
    session.term().sync("/").await.unwrap();
    let candidates = election(session, "").candidates().await.unwrap();
    candidates.into_iter().map(|candidate| candidate.identifier).collect()
}

async fn wait_for_candidates(session: &Session, wanted: &[&str]) {
    eventually_async(&format!("candidates are {wanted:?}"), async || {
        (candidates(session).await == wanted).then_some(())
    })
    .await;
}

#[tokio::test]
async fn one_leads_and_everybody_sees_who() {
    let world = World::new("election");
    let (a, b) = (world.session().await, world.session().await);
    assert_eq!(election(&a, "a").leader().await.unwrap(), None);
    let leadership = election(&a, "a").campaign().await.unwrap();
    let mut next = election(&b, "b").stand();
    wait_for_candidates(&b, &["a", "b"]).await;
    let leader = election(&b, "b").leader().await.unwrap().unwrap();
    assert_eq!((leader.identifier.as_str(), leader.holds), ("a", true));
    assert!(next.leading().borrow().is_none());
    let first = leadership.fence();
    leadership.resign().await.unwrap();
    assert!(next.elected().await.unwrap().fence() > first);
    assert_eq!(candidates(&a).await, ["b"]);
    next.withdraw().await.unwrap();
    assert_eq!(candidates(&a).await, [""; 0]);
}

#[tokio::test]
async fn leader_that_expires_is_followed_and_stands_again() {
    let world = World::new("election-expired");
    let (session, proxy) = world.session_through_proxy(SHORT).await;
    let other = world.session().await;
    let place: Znode<Raw> = Znode::foreign("/place", Kind::Persistent);
    retry::ensure(&other.term(), "/place", b"").await.unwrap();
    let mut mine = election(&session, "mine").stand();
    let old = mine.elected().await.unwrap();
    let mut others = election(&other, "other").stand();
    wait_for_candidates(&other, &["mine", "other"]).await;
    let mut leading = mine.leading();
    proxy.partition();
    leading.wait_for(Option::is_none).await.unwrap();
    assert!(others.leading().borrow().is_none(), "it is told before another leads");
    let new = others.elected().await.unwrap();
    assert!(old.fence() < new.fence());
    proxy.heal();
    wait_for_candidates(&other, &["other", "mine"]).await;
    let zombie = old.transaction().set(&place, &Raw(b"zombie".to_vec()), None).commit().await;
    assert!(matches!(zombie, Err(TransactionError::Call(_))), "{zombie:?}");
    new.transaction().set(&place, &Raw(b"new".to_vec()), None).commit().await.unwrap();
    others.withdraw().await.unwrap();
    assert!(mine.elected().await.unwrap().term().number() > 1);
}

#[tokio::test]
async fn leader_whose_candidacy_is_removed_stands_again() {
    let world = World::new("election-removed");
    let (session, other) = (world.session().await, world.session().await);
    let mut candidate = election(&session, "mine").stand();
    let old = candidate.elected().await.unwrap();
    retry::delete(&other.term(), old.ticket()).await.unwrap();
    let new = candidate.elected().await.unwrap();
    assert!(old.fence() < new.fence());
}

#[tokio::test]
async fn lost_reply_makes_no_second_candidate_and_a_dropped_one_leaves_nothing() {
    let world = World::new("election-replies");
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let other = world.session().await;
    retry::ensure(&session.term(), DIR, b"").await.unwrap();
    proxy.drop_reply_of(OpCode::Create2);
    let mut candidate = election(&session, "mine").stand();
    candidate.elected().await.unwrap();
    assert_eq!((candidates(&other).await, proxy.dropped_replies()), (vec!["mine".to_owned()], 1));
    let mut waiting = election(&session, "waiting").stand();
    wait_for_candidates(&other, &["mine", "waiting"]).await;
    drop(candidate);
    drop(waiting.elected().await.unwrap());
    drop(waiting);
    wait_for_candidates(&other, &[]).await;
}

#[tokio::test]
async fn candidate_of_a_closed_session_ends_and_says_why() {
    let session = World::new("election-closed").session().await;
    let mut candidate = election(&session, "mine").stand();
    candidate.elected().await.unwrap();
    session.close().await;
    assert!(candidate.elected().await.is_none());
    assert!(candidate.withdraw().await.is_err());
}
