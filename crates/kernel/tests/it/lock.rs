//! The lock: exclusion, order, and what must not go wrong when something does.

use std::time::Duration;

use menagerie_kernel::recipes::contest::Mode;
use menagerie_kernel::recipes::grant::Loss;
use menagerie_kernel::recipes::lock::{Lock, LockError, LockGuard, TryAcquire};
use menagerie_kernel::session::State;
use menagerie_kernel::{CallError, Session, TransactionError, retry};
use menagerie_testkit::{OpCode, Proxy, eventually_async};
use menagerie_znodes::{Dir, Kind, Raw, Znode};
use tokio::task::JoinHandle;

use crate::world::{LONG, SHORT, World};

pub const DIR: &str = "/locks/deploy";

pub fn dir() -> Znode<Dir> {
    Znode::foreign(DIR, Kind::Persistent)
}

fn lock(session: &Session, who: &str) -> Lock {
    Lock::new(session, dir()).identified_by(who)
}

/// Contends in the background.
fn contend(lock: Lock) -> JoinHandle<Result<LockGuard, LockError>> {
    tokio::spawn(async move { lock.acquire().await })
}

/// The contenders in order, with the holder marked.
async fn line(session: &Session) -> Vec<String> {
    session.term().sync("/").await.unwrap();
    let contenders = lock(session, "").contenders().await.unwrap();
    let mark = |holds| if holds { "*" } else { "" };
    contenders.into_iter().map(|one| format!("{}{}", one.identifier, mark(one.holds))).collect()
}

async fn wait_for_line(session: &Session, wanted: &[&str]) {
    eventually_async(&format!("the line is {wanted:?}"), async || {
        (line(session).await == wanted).then_some(())
    })
    .await;
}

#[tokio::test]
async fn holders_follow_each_other_in_order() {
    let world = World::new("lock-order");
    let (a, b) = (world.session().await, world.session().await);
    let held = lock(&a, "first").acquire().await.unwrap();
    let second = contend(lock(&b, "second"));
    wait_for_line(&a, &["first*", "second"]).await;
    let third = contend(lock(&a, "third"));
    wait_for_line(&b, &["first*", "second", "third"]).await;
    let first = held.fence();
    held.release().await.unwrap();
    let second = second.await.unwrap().unwrap();
    assert_eq!(line(&a).await, ["second*", "third"]);
    assert!(!third.is_finished());
    let fences = [first, second.fence()];
    drop(second);
    let third = third.await.unwrap().unwrap();
    assert!(fences[0] < fences[1] && fences[1] < third.fence());
    assert!(third.fence().generation > 1_700_000_000_000);
    third.release().await.unwrap();
    assert_eq!(line(&a).await, [""; 0]);
}

#[tokio::test]
async fn uncontended_acquire_and_release_is_three_round_trips() {
    let (session, proxy) = World::new("lock-trips").session_through_proxy(LONG).await;
    let lock = lock(&session, "me");
    // The first makes the directory.
    lock.acquire().await.unwrap().release().await.unwrap();
    proxy.take_requests();
    lock.acquire().await.unwrap().release().await.unwrap();
    // Heartbeats and pings come when they come.
    let mut requests = proxy.take_requests();
    requests.retain(|op, _| ![OpCode::Multi.code(), OpCode::Ping.code()].contains(op));
    let expected = [OpCode::Create2, OpCode::GetChildren, OpCode::Delete].map(|op| (op.code(), 1));
    assert_eq!(requests, expected.into());
}

#[tokio::test]
async fn try_acquire_says_who_holds_and_leaves_nothing() {
    let world = World::new("lock-try");
    let (a, b) = (world.session().await, world.session().await);
    let TryAcquire::Acquired(held) = lock(&a, "a").try_acquire().await.unwrap() else {
        panic!("nobody else contends")
    };
    let TryAcquire::HeldBy(holder) = lock(&b, "b").try_acquire().await.unwrap() else { panic!("a holds") };
    assert_eq!((holder.identifier.as_str(), holder.holds, holder.mode), ("a", true, Mode::Exclusive));
    assert_eq!(holder.session_id, a.term().session_id());
    assert_eq!(line(&b).await, ["a*"]);
    held.release().await.unwrap();
    assert!(matches!(lock(&b, "b").try_acquire().await, Ok(TryAcquire::Acquired(_))));
}

#[tokio::test]
async fn waiting_can_be_given_up_at_any_moment() {
    let world = World::new("lock-dropped");
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let other = world.session().await;
    let held = lock(&other, "other").acquire().await.unwrap();
    // While its contender is being created and no reply comes: before and after the server gets the request.
    for hold in [Proxy::hold_requests, Proxy::hold_replies] {
        hold(&proxy);
        let dropped = tokio::time::timeout(Duration::from_millis(50), lock(&session, "mine").acquire()).await;
        assert!(dropped.is_err());
        proxy.heal();
        session.term().sync("/").await.unwrap();
        wait_for_line(&other, &["other*"]).await;
    }
    // While the connection is lost before the reply: nobody can tell whether there is a contender.
    proxy.hold_replies();
    let acquire = contend(lock(&session, "mine"));
    wait_for_line(&other, &["other*", "mine"]).await;
    acquire.abort();
    assert!(acquire.await.unwrap_err().is_cancelled());
    proxy.lose_connections();
    proxy.heal();
    wait_for_line(&other, &["other*"]).await;
    // While it waits for its turn.
    let acquire = contend(lock(&session, "mine"));
    wait_for_line(&other, &["other*", "mine"]).await;
    acquire.abort();
    wait_for_line(&other, &["other*"]).await;
    drop(held);
    let _ = lock(&session, "mine").acquire().await.unwrap();
}

#[tokio::test]
async fn lost_replies_make_no_second_contender_and_no_second_holder() {
    let world = World::new("lock-replies");
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let other = world.session().await;
    lock(&session, "mine").acquire().await.unwrap().release().await.unwrap();
    proxy.drop_reply_of(OpCode::Create2);
    let held = lock(&session, "mine").acquire().await.unwrap();
    assert_eq!((line(&other).await, proxy.dropped_replies()), (vec!["mine*".to_owned()], 1));
    proxy.drop_reply_of(OpCode::Delete);
    held.release().await.unwrap();
    assert_eq!((line(&other).await, proxy.dropped_replies()), (vec![], 2));
}

/// Where a pass writes its result. Only the holder writes it.
async fn result(session: &Session) -> Znode<Raw> {
    retry::ensure(&session.term(), "/result", b"").await.unwrap();
    Znode::foreign("/result", Kind::Persistent)
}

#[tokio::test]
async fn release_happens_with_the_work_and_leaves_nothing_to_withdraw() {
    let world = World::new("lock-release-with");
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let other = world.session().await;
    let result = result(&session).await;
    let held = lock(&session, "mine").acquire().await.unwrap();
    let next = contend(lock(&other, "next"));
    wait_for_line(&other, &["mine*", "next"]).await;
    let (grant, work) = (held.grant(), held.transaction().set(&result, &Raw(b"done".to_vec()), None));
    held.release_with(work).commit().await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert_eq!(next.term().read(&result).await.unwrap().unwrap().value.0, b"done", "the next sees the work");
    proxy.take_requests();
    held.released();
    session.term().sync("/").await.unwrap();
    assert_eq!(proxy.requests_of(OpCode::Delete), 0);
    let zombie = grant.transaction().set(&result, &Raw(b"zombie".to_vec()), None).commit().await;
    assert_eq!(zombie, Err(TransactionError::Lost { ticket: grant.ticket().to_owned() }));
}

#[tokio::test]
async fn refused_work_releases_nothing_and_a_lost_lock_works_nothing() {
    let world = World::new("lock-release-refused");
    let (session, other) = (world.session().await, world.session().await);
    let result = result(&session).await;
    let held = lock(&session, "mine").acquire().await.unwrap();
    let work = || held.transaction().set(&result, &Raw(b"done".to_vec()), None);
    let missing: Znode<Raw> = Znode::foreign("/missing", Kind::Persistent);
    let refused = held.release_with(work().check(&missing, None)).commit().await;
    assert!(matches!(refused, Err(TransactionError::Part { index: 1, .. })), "{refused:?}");
    assert_eq!(line(&other).await, ["mine*"]);
    retry::delete(&other.term(), held.ticket()).await.unwrap();
    let lost = held.release_with(work()).commit().await;
    assert_eq!(lost, Err(TransactionError::Lost { ticket: held.ticket().to_owned() }));
    assert_eq!(other.term().get("/result").await.unwrap().0, b"");
    // Never told that it was released, the guard withdraws what is there: here nothing.
    drop(held);
    assert!(matches!(lock(&other, "other").try_acquire().await, Ok(TryAcquire::Acquired(_))));
}

/// Writes our fence and releases, and resolves a lost reply by it.
async fn work_and_release(held: &LockGuard, result: &Znode<Raw>) -> Result<Vec<String>, TransactionError> {
    let (term, ours) = (&held.term().patient(), &Raw(held.fence().to_string().into_bytes()));
    let before = &term.read(result).await?.map(|found| found.value);
    let proof = || async move {
        match term.read(result).await?.map(|found| found.value) {
            Some(found) if found == *ours => Ok(Some(Vec::new())),
            found if found == *before => Ok(None),
            _ => Err(CallError::Unknown { path: result.path().to_owned() }),
        }
    };
    retry::commit(held.release_with(held.transaction().set(result, ours, None)), proof).await
}

#[tokio::test]
async fn lost_reply_to_work_with_a_release_is_resolved_by_what_only_its_holder_writes() {
    let (session, proxy) = World::new("lock-release-reply").session_through_proxy(LONG).await;
    let result = &result(&session).await;
    let writes = async || session.term().stat(result.path()).await.unwrap().unwrap().version;
    // The server gets the request, and its reply is lost.
    let held = lock(&session, "mine").acquire().await.unwrap();
    proxy.drop_reply_of(OpCode::Multi);
    work_and_release(&held, result).await.unwrap();
    held.released();
    assert_eq!((proxy.dropped_replies(), writes().await, line(&session).await), (1, 1, vec![]));
    // The request itself is lost.
    let held = lock(&session, "mine").acquire().await.unwrap();
    proxy.hold_requests_after(0, OpCode::Multi);
    let lose = async {
        crate::world::held(&proxy).await;
        proxy.lose_connections();
        proxy.heal();
    };
    tokio::join!(work_and_release(&held, result), lose).0.unwrap();
    held.released();
    assert_eq!((writes().await, line(&session).await), (2, vec![]));
}

#[tokio::test]
async fn lost_reply_to_a_release_that_the_next_holder_has_covered_stays_unknown() {
    let world = World::new("lock-release-covered");
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let other = world.session().await;
    let result = &result(&other).await;
    let held = lock(&session, "mine").acquire().await.unwrap();
    let next = contend(lock(&other, "next"));
    wait_for_line(&other, &["mine*", "next"]).await;
    let cover = async {
        let next = next.await.unwrap().unwrap();
        work_and_release(&next, result).await.unwrap();
        next.released();
        proxy.heal();
    };
    proxy.cut_at_reply_of(OpCode::Multi);
    let (outcome, ()) = tokio::join!(work_and_release(&held, result), cover);
    assert!(outcome.as_ref().is_err_and(TransactionError::is_unknown), "{outcome:?}");
    assert_eq!(other.term().stat(result.path()).await.unwrap().unwrap().version, 2, "both have happened");
    // The guard was not told that it is released, and has nothing left to withdraw.
    drop(held);
    let _ = lock(&session, "mine").acquire().await.unwrap();
}

#[tokio::test]
async fn connection_cut_while_waiting_holding_and_releasing() {
    let world = World::new("lock-cut");
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let other = world.session().await;
    let held = lock(&other, "other").acquire().await.unwrap();
    let acquire = contend(lock(&session, "mine"));
    wait_for_line(&other, &["other*", "mine"]).await;
    suspend(&session, &proxy).await;
    held.release().await.unwrap();
    wait_for_line(&other, &["mine*"]).await;
    assert!(!acquire.is_finished(), "it cannot know yet");
    proxy.heal();
    let held = acquire.await.unwrap().unwrap();
    suspend(&session, &proxy).await;
    let waiting = contend(lock(&other, "other"));
    wait_for_line(&other, &["mine*", "other"]).await;
    let release = tokio::spawn(held.release());
    proxy.heal();
    release.await.unwrap().unwrap();
    let _ = waiting.await.unwrap().unwrap();
    assert_eq!(session.term().number(), 1);
}

async fn suspend(session: &Session, proxy: &Proxy) {
    proxy.cut();
    session.state().wait_for(|state| *state == State::Suspended).await.unwrap();
}

#[tokio::test]
async fn who_expires_while_waiting_contends_again_behind_the_others() {
    let world = World::new("lock-expire-waiting");
    let (session, proxy) = world.session_through_proxy(SHORT).await;
    let other = world.session().await;
    let held = lock(&other, "other").acquire().await.unwrap();
    let acquire = contend(lock(&session, "mine"));
    wait_for_line(&other, &["other*", "mine"]).await;
    proxy.partition();
    wait_for_line(&other, &["other*"]).await;
    let next = contend(lock(&other, "next"));
    wait_for_line(&other, &["other*", "next"]).await;
    proxy.heal();
    wait_for_line(&other, &["other*", "next", "mine"]).await;
    held.release().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
    let held = acquire.await.unwrap().unwrap();
    assert_eq!(held.term().number(), 2);
}

#[tokio::test]
async fn holder_whose_session_expires_is_stopped_before_the_next_holds_and_writes_nothing() {
    let world = World::new("lock-expire-holding");
    let (session, proxy) = world.session_through_proxy(SHORT).await;
    let other = world.session().await;
    let held = lock(&session, "mine").acquire().await.unwrap();
    let place: Znode<Raw> = Znode::foreign("/place", Kind::Persistent);
    retry::ensure(&other.term(), "/place", b"").await.unwrap();
    let next = contend(lock(&other, "next"));
    wait_for_line(&other, &["mine*", "next"]).await;
    proxy.partition();
    assert_eq!(held.lost().await, Loss::Lapsed);
    assert!(!next.is_finished(), "the lease clock is ahead of the server");
    let next = next.await.unwrap().unwrap();
    assert!(held.fence() < next.fence());
    next.transaction().set(&place, &Raw(b"next".to_vec()), None).commit().await.unwrap();
    proxy.heal();
    held.term().lost().await;
    assert_eq!(held.lost().await, Loss::Expired);
    let zombie = held.transaction().set(&place, &Raw(b"zombie".to_vec()), None).commit().await;
    assert!(matches!(zombie, Err(TransactionError::Call(_))), "{zombie:?}");
    assert_eq!(other.term().get("/place").await.unwrap().0, b"next");
    assert_eq!(held.release().await, Err(LockError::Lost { dir: DIR.to_owned() }));
}

#[tokio::test]
async fn directory_removed_under_contenders_loses_the_holder_and_makes_the_others_contend_anew() {
    let world = World::new("lock-removed");
    let (session, other) = (world.session().await, world.session().await);
    let held = lock(&session, "holder").acquire().await.unwrap();
    let waiting = contend(lock(&session, "waiting"));
    wait_for_line(&other, &["holder*", "waiting"]).await;
    let lost = tokio::spawn(held.lost());
    let term = other.term();
    // From the end, so that nobody who waits comes to hold in the old directory.
    let mut names = term.children(DIR).await.unwrap();
    names.sort_by_key(|name| std::cmp::Reverse(name.rsplit("__").next().map(str::to_owned)));
    for name in names {
        term.delete(&format!("{DIR}/{name}"), None).await.unwrap();
    }
    // Somebody may be back already; then the directory stays, which is as well.
    let _ = term.delete(DIR, None).await;
    assert_eq!(lost.await.unwrap(), Loss::Removed);
    let anew = waiting.await.unwrap().unwrap();
    assert!(held.fence() < anew.fence());
    assert_eq!(line(&other).await, ["waiting*"]);
    let place: Znode<Raw> = Znode::foreign("/place", Kind::Persistent);
    let zombie = held.transaction().create(&place, &Raw::default()).commit().await;
    assert_eq!(zombie, Err(TransactionError::Lost { ticket: held.ticket().to_owned() }));
    assert_eq!(held.release().await, Err(LockError::Lost { dir: DIR.to_owned() }));
}

#[tokio::test]
async fn nobody_holds_in_a_directory_that_has_used_up_its_numbers() {
    let session = World::new("lock-exhausted").session().await;
    let term = session.term();
    retry::ensure(&term, DIR, b"").await.unwrap();
    retry::create(&term, &format!("{DIR}/x__lock__-2147483648"), b"").await.unwrap();
    let exhausted = LockError::Exhausted { dir: DIR.to_owned() };
    assert_eq!(lock(&session, "me").acquire().await.unwrap_err(), exhausted);
    assert_eq!(lock(&session, "me").try_acquire().await.unwrap_err(), exhausted);
    eventually_async("nothing is left", async || {
        (term.children(DIR).await.unwrap().len() == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn closed_session_gives_an_error_to_who_waits() {
    let world = World::new("lock-closed");
    let (session, other) = (world.session().await, world.session().await);
    let _held = lock(&other, "other").acquire().await.unwrap();
    let acquire = contend(lock(&session, "mine"));
    wait_for_line(&other, &["other*", "mine"]).await;
    session.close().await;
    assert!(acquire.await.unwrap().is_err());
    assert_eq!(line(&other).await, ["other*"]);
}
