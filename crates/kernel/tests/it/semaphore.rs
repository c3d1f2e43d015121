//! The semaphore: never too many, in order, with one limit; and what must not go wrong when something does.

use std::collections::BTreeMap;
use std::time::Duration;

use menagerie_kernel::recipes::contest::Mode;
use menagerie_kernel::recipes::grant::Loss;
use menagerie_kernel::recipes::semaphore::{Limit, Permit, Semaphore, SemaphoreError, Ticket, TryAcquire};
use menagerie_kernel::session::{IfLate, State};
use menagerie_kernel::{Session, TransactionError, retry};
use menagerie_testkit::{OpCode, eventually_async};
use menagerie_znodes::{Dir, Kind, Raw, Znode};
use tokio::task::{JoinHandle, JoinSet};

use crate::holders::Log;
use crate::world::{LONG, SHORT, World};

pub const DIR: &str = "/semaphores/deploy";
const QUEUE: &str = "/semaphores/deploy-__lock__";

pub fn dir() -> Znode<Dir> {
    Znode::foreign(DIR, Kind::Persistent)
}

fn semaphore(session: &Session, limit: u32, who: &str) -> Semaphore {
    Semaphore::new(session, dir(), limit).identified_by(who)
}

/// Contends in the background.
fn contend(semaphore: Semaphore) -> JoinHandle<Result<Permit, SemaphoreError>> {
    tokio::spawn(async move { semaphore.acquire().await })
}

/// Who is in, and who waits.
pub async fn line(session: &Session) -> (Vec<String>, Vec<String>) {
    let semaphore = Semaphore::with_stored_limit(session, dir());
    let waiters = semaphore.waiters().await.unwrap().into_iter().map(|waiter| waiter.identifier);
    let waiters = waiters.collect();
    let holders = semaphore.holders().await.unwrap().into_iter().map(|holder| holder.identifier);
    (holders.collect(), waiters)
}

pub async fn wait_for_line(session: &Session, holders: &[&str], waiters: &[&str]) {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let wanted = (owned(holders), owned(waiters));
    eventually_async(&format!("in and waiting are {wanted:?}"), async || {
        (line(session).await == wanted).then_some(())
    })
    .await;
}

#[tokio::test]
async fn those_who_wait_enter_in_order_as_soon_as_there_is_room() {
    let world = World::new("semaphore-order");
    let (a, b) = (world.session().await, world.session().await);
    let first = semaphore(&a, 2, "first").acquire().await.unwrap();
    let second = semaphore(&b, 2, "second").acquire().await.unwrap();
    assert!(first.fence() < second.fence() && first.fence().generation > 1_700_000_000_000);
    let third = contend(semaphore(&a, 2, "third"));
    wait_for_line(&b, &["first", "second"], &["third"]).await;
    let fourth = contend(semaphore(&b, 2, "fourth"));
    wait_for_line(&a, &["first", "second"], &["third", "fourth"]).await;
    second.release().await.unwrap();
    let third = third.await.unwrap().unwrap();
    wait_for_line(&a, &["first", "third"], &["fourth"]).await;
    assert!(!fourth.is_finished());
    drop(first);
    let fourth = fourth.await.unwrap().unwrap();
    third.release().await.unwrap();
    fourth.release().await.unwrap();
    assert_eq!(line(&a).await, (vec![], vec![]));
}

#[tokio::test]
async fn uncontended_acquire_and_release_is_seven_requests() {
    let world = World::new("semaphore-trips");
    world.session().await.close().await;
    // An observer sends no heartbeats, which are transactions too.
    let (session, proxy) = world.observer_through_proxy(LONG).await;
    let semaphore = semaphore(&session, 1, "me");
    semaphore.acquire().await.unwrap().release().await.unwrap();
    proxy.take_requests();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    let mut requests = proxy.take_requests();
    requests.remove(&OpCode::Ping.code());
    // It lists the queue together with the creation; then it reads the holders and the limit, both at once.
    let once = [OpCode::Create2, OpCode::GetData, OpCode::Multi, OpCode::Exists, OpCode::Delete];
    let mut expected: BTreeMap<i32, usize> = once.map(|op| (op.code(), 1)).into();
    expected.insert(OpCode::GetChildren.code(), 2);
    assert_eq!(requests, expected);
}

#[tokio::test]
async fn limit_is_stored_once_and_who_comes_with_another_is_told() {
    let world = World::new("semaphore-limit");
    let (a, b) = (world.session().await, world.session().await);
    let stored = Semaphore::with_stored_limit(&b, dir());
    assert_eq!(stored.acquire().await.unwrap_err(), SemaphoreError::NoLimit { path: DIR.to_owned() });
    let _permit = semaphore(&a, 3, "a").acquire().await.unwrap();
    let other = semaphore(&b, 2, "b").acquire().await.unwrap_err();
    assert_eq!(other, SemaphoreError::LimitDisagrees { path: DIR.to_owned(), stored: 3, wanted: 2 });
    assert_eq!(stored.limit().await, Ok(Some(Limit { permits: 3, version: 0 })));
    stored.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(line(&a).await, (vec!["a".to_owned()], vec![]), "who was refused has left nothing");
    b.term().set(DIR, b"many", None).await.unwrap();
    let unreadable = SemaphoreError::LimitUnreadable { path: DIR.to_owned(), stored: "many".to_owned() };
    assert_eq!(stored.acquire().await.unwrap_err(), unreadable);
    // As kazoo leaves it when it dies between two steps.
    b.term().set(DIR, b"", None).await.unwrap();
    semaphore(&b, 5, "b").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(stored.limit().await.unwrap().unwrap().permits, 5);
}

#[tokio::test]
async fn lowered_limit_throws_nobody_out_and_lets_nobody_in() {
    let world = World::new("semaphore-lowered");
    let (a, b) = (world.session().await, world.session().await);
    let mut permits = Vec::new();
    for who in ["1", "2", "3"] {
        permits.push(semaphore(&a, 3, who).acquire().await.unwrap());
    }
    let admin = Semaphore::with_stored_limit(&b, dir());
    let seen = admin.limit().await.unwrap().unwrap();
    let now = admin.set_limit(seen, 1).await.unwrap();
    assert_eq!(admin.set_limit(seen, 7).await, Err(SemaphoreError::LimitMoved { path: DIR.to_owned() }));
    let fourth = contend(Semaphore::with_stored_limit(&b, dir()).identified_by("4"));
    wait_for_line(&b, &["1", "2", "3"], &["4"]).await;
    for left in [&["2", "3"][..], &["3"]] {
        permits.remove(0).release().await.unwrap();
        wait_for_line(&b, left, &["4"]).await;
    }
    assert!(!fourth.is_finished());
    // It is enough that the limit rises.
    admin.set_limit(now, 2).await.unwrap();
    let fourth = fourth.await.unwrap().unwrap();
    wait_for_line(&b, &["3", "4"], &[]).await;
    // Programs started with the old limit use the new one; newcomers with the old one get an error.
    assert!(matches!(semaphore(&a, 3, "5").acquire().await, Err(SemaphoreError::LimitDisagrees { .. })));
    fourth.release().await.unwrap();
}

#[tokio::test]
async fn running_programs_go_by_a_limit_that_was_changed() {
    let session = World::new("semaphore-running").session().await;
    let running = semaphore(&session, 2, "me");
    running.acquire().await.unwrap().release().await.unwrap();
    let seen = running.limit().await.unwrap().unwrap();
    running.set_limit(seen, 1).await.unwrap();
    let permit = running.acquire().await.unwrap();
    assert!(matches!(running.try_acquire().await, Ok(TryAcquire::Busy { .. })));
    permit.release().await.unwrap();
}

#[tokio::test]
async fn try_acquire_says_who_is_in_and_leaves_nothing() {
    let world = World::new("semaphore-try");
    let (a, b) = (world.session().await, world.session().await);
    let TryAcquire::Acquired(permit) = semaphore(&a, 1, "a").try_acquire().await.unwrap() else {
        panic!("nobody else is there")
    };
    let waits = contend(semaphore(&a, 1, "waits"));
    wait_for_line(&b, &["a"], &["waits"]).await;
    let TryAcquire::Busy { holders, waiters } = semaphore(&b, 1, "b").try_acquire().await.unwrap() else {
        panic!("there is no room")
    };
    assert_eq!((holders[0].identifier.as_str(), holders[0].zxid), ("a", permit.fence().zxid));
    assert_eq!((waiters.len(), waiters[0].identifier.as_str()), (1, "waits"));
    wait_for_line(&b, &["a"], &["waits"]).await;
    permit.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn acquisition_whose_replies_are_lost_happens_once() {
    let world = World::new("semaphore-lost-reply");
    let other = world.session().await;
    // An observer sends no heartbeats, which are transactions too.
    let (session, proxy) = world.observer_through_proxy(LONG).await;
    let mine = semaphore(&session, 2, "mine");
    mine.acquire().await.unwrap().release().await.unwrap();
    let mut dropped = 0;
    for op in [OpCode::Create2, OpCode::GetChildren, OpCode::Multi, OpCode::Exists] {
        proxy.drop_reply_of(op);
        let permit = mine.acquire().await.unwrap();
        dropped += 1;
        assert_eq!(proxy.dropped_replies(), dropped, "{op:?}");
        assert_eq!(line(&other).await, (vec!["mine".to_owned()], vec![]), "{op:?}");
        permit.release().await.unwrap();
    }
    let permit = mine.acquire().await.unwrap();
    proxy.drop_reply_of(OpCode::Delete);
    permit.release().await.unwrap();
    assert_eq!(proxy.dropped_replies(), dropped + 1);
    assert_eq!(line(&other).await, (vec![], vec![]));
}

/// Gives up after ever longer times, and so at every step of entering.
#[tokio::test]
async fn whoever_gives_up_leaves_nothing_behind_wherever_it_was() {
    let world = World::new("semaphore-dropped");
    let other = world.session().await;
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let mine = semaphore(&session, 1, "mine");
    mine.acquire().await.unwrap().release().await.unwrap();
    proxy.delay(Duration::from_millis(8));
    let ticket = "build-1".parse().unwrap();
    // Until it has had the time to get in.
    let mut after = Duration::from_millis(1);
    while tokio::time::timeout(after, mine.acquire()).await.is_err() {
        wait_for_line(&other, &[], &[]).await;
        match tokio::time::timeout(after, mine.acquire_ticket(&ticket)).await {
            Ok(ticket) => ticket.unwrap().release().await.unwrap(),
            Err(_) => wait_for_line(&other, &[], &[]).await,
        }
        after += Duration::from_millis(11);
    }
    wait_for_line(&other, &[], &[]).await;
}

#[tokio::test]
async fn lost_connection_disturbs_nobody() {
    let world = World::new("semaphore-cut");
    let other = world.session().await;
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let mut state = session.state();
    let permit = semaphore(&other, 1, "other").acquire().await.unwrap();
    let waits = contend(semaphore(&session, 1, "waits"));
    wait_for_line(&other, &["other"], &["waits"]).await;
    // While it waits: what it waits for happens meanwhile.
    proxy.cut();
    state.wait_for(|state| *state == State::Suspended).await.unwrap();
    permit.release().await.unwrap();
    proxy.heal();
    let permit = waits.await.unwrap().unwrap();
    // While it holds.
    proxy.lose_connections();
    assert!(tokio::time::timeout(Duration::from_millis(100), permit.lost()).await.is_err());
    wait_for_line(&other, &["waits"], &[]).await;
    // While it releases.
    proxy.cut();
    state.wait_for(|state| *state == State::Suspended).await.unwrap();
    let release = tokio::spawn(permit.release());
    proxy.heal();
    release.await.unwrap().unwrap();
    wait_for_line(&other, &[], &[]).await;
}

#[tokio::test]
async fn expired_session_loses_its_permit_and_its_place() {
    let world = World::new("semaphore-expired");
    let other = world.session().await;
    let (session, proxy) = world.session_through_proxy(SHORT).await;
    let permit = semaphore(&session, 1, "holds").acquire().await.unwrap();
    let waits = contend(semaphore(&session, 1, "waits"));
    wait_for_line(&other, &["holds"], &["waits"]).await;
    let next = contend(semaphore(&other, 1, "next"));
    wait_for_line(&other, &["holds"], &["waits", "next"]).await;
    proxy.partition();
    assert!(matches!(permit.lost().await, Loss::Lapsed | Loss::Expired));
    let next = next.await.unwrap().unwrap();
    assert!(permit.fence() < next.fence());
    proxy.heal();
    // The one that waited waits again, at the end, in a new session.
    wait_for_line(&other, &["next"], &["waits"]).await;
    let place: Znode<Raw> = Znode::foreign("/place", Kind::Persistent);
    let zombie = permit.transaction().create(&place, &Raw::default()).commit().await;
    assert!(matches!(zombie, Err(TransactionError::Call(_) | TransactionError::Lost { .. })), "{zombie:?}");
    assert!(matches!(permit.release().await, Err(SemaphoreError::Lost { .. })));
    next.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn removed_directories_are_made_again() {
    let world = World::new("semaphore-removed");
    let (a, b) = (world.session().await, world.session().await);
    let permit = semaphore(&a, 1, "holds").acquire().await.unwrap();
    let waits = contend(semaphore(&b, 1, "waits"));
    wait_for_line(&a, &["holds"], &["waits"]).await;
    let last = contend(semaphore(&a, 1, "last"));
    wait_for_line(&a, &["holds"], &["waits", "last"]).await;
    remove_all(&a, QUEUE).await;
    eventually_async("both come again", async || (line(&a).await.1.len() == 2).then_some(())).await;
    remove_all(&a, DIR).await;
    assert_eq!(permit.lost().await, Loss::Removed);
    assert!(matches!(permit.release().await, Err(SemaphoreError::Lost { .. })));
    let (one, other) = tokio::join!(waits_and_releases(waits), waits_and_releases(last));
    assert_ne!(one, other);
    assert_eq!(a.term().get(DIR).await.unwrap().0, b"1", "with the limit that they were told");
}

async fn waits_and_releases(contending: JoinHandle<Result<Permit, SemaphoreError>>) -> i64 {
    let permit = contending.await.unwrap().unwrap();
    let zxid = permit.fence().zxid;
    permit.release().await.unwrap();
    zxid
}

/// Removes a directory with all that is in it, however often somebody comes back.
async fn remove_all(session: &Session, path: &str) {
    let term = session.term();
    loop {
        for name in term.children(path).await.unwrap() {
            retry::delete(&term, &format!("{path}/{name}")).await.unwrap();
        }
        if term.delete(path, None).await.is_ok() {
            return;
        }
    }
}

#[tokio::test]
async fn ticket_outlives_its_session_and_is_found_by_its_name() {
    let world = World::new("semaphore-ticket");
    let (a, b) = (world.session().await, world.session().await);
    let name = "build/../1".replace('/', ":").parse().unwrap();
    let ticket = semaphore(&a, 1, "a").acquire_ticket(&name).await.unwrap();
    let fence = ticket.fence();
    a.close().await;
    let waits = contend(semaphore(&b, 1, "waits"));
    wait_for_line(&b, &["a"], &["waits"]).await;
    // Its owner comes back.
    let again = semaphore(&b, 1, "b").acquire_ticket(&name).await.unwrap();
    assert_eq!((again.fence(), again.name()), (fence, &name));
    let place: Znode<Raw> = Znode::foreign("/place", Kind::Persistent);
    again.transaction().create(&place, &Raw::default()).commit().await.unwrap();
    let found = semaphore(&b, 1, "").ticket(&name).await.unwrap().unwrap();
    found.release().await.unwrap();
    again.lost().await.unwrap();
    let zombie = again.transaction().delete(&place, None).commit().await;
    assert!(matches!(zombie, Err(TransactionError::Lost { .. })));
    waits.await.unwrap().unwrap().release().await.unwrap();
    assert!(semaphore(&b, 1, "").ticket(&name).await.unwrap().is_none());
}

/// Contends in the background for the ticket that several want.
fn contend_for_ticket(semaphore: Semaphore) -> JoinHandle<Result<Ticket, SemaphoreError>> {
    tokio::spawn(async move { semaphore.acquire_ticket(&"build-1".parse().unwrap()).await })
}

#[tokio::test]
async fn two_who_want_one_ticket_share_it_and_leave_the_queue() {
    let world = World::new("semaphore-ticket-twice");
    let (a, b) = (world.session().await, world.session().await);
    let permit = semaphore(&a, 1, "holds").acquire().await.unwrap();
    let one = contend_for_ticket(semaphore(&a, 1, "one"));
    wait_for_line(&a, &["holds"], &["one"]).await;
    let other = contend_for_ticket(semaphore(&b, 1, "other"));
    wait_for_line(&a, &["holds"], &["one", "other"]).await;
    let third = contend(semaphore(&a, 1, "third"));
    wait_for_line(&a, &["holds"], &["one", "other", "third"]).await;
    permit.release().await.unwrap();
    let (one, other) = (one.await.unwrap().unwrap(), other.await.unwrap().unwrap());
    assert_eq!(one.fence(), other.fence());
    wait_for_line(&a, &["one"], &["third"]).await;
    one.release().await.unwrap();
    let third = third.await.unwrap().unwrap();
    // It has been released once, and that was all.
    other.release().await.unwrap();
    wait_for_line(&a, &["third"], &[]).await;
    third.release().await.unwrap();
}

#[tokio::test]
async fn ticket_that_another_has_taken_since_is_not_released() {
    let world = World::new("semaphore-ticket-stale");
    let (a, b) = (world.session().await, world.session().await);
    let name = "build-1".parse().unwrap();
    let stale = semaphore(&a, 1, "a").acquire_ticket(&name).await.unwrap();
    stale.clone().release().await.unwrap();
    let ticket = semaphore(&b, 1, "b").acquire_ticket(&name).await.unwrap();
    stale.release().await.unwrap();
    assert_eq!(line(&b).await, (vec!["b".to_owned()], vec![]));
    ticket.release().await.unwrap();
}

/// Gives up after ever longer times, while another gets the ticket that both want.
#[tokio::test]
async fn whoever_gives_up_on_a_ticket_leaves_that_of_another_alone() {
    let world = World::new("semaphore-ticket-dropped");
    let other = world.session().await;
    let (session, proxy) = world.session_through_proxy(LONG).await;
    for after in (0..170).step_by(12).map(Duration::from_millis) {
        let permit = semaphore(&other, 1, "holds").acquire().await.unwrap();
        let theirs = contend_for_ticket(semaphore(&other, 1, "theirs"));
        wait_for_line(&other, &["holds"], &["theirs"]).await;
        let mut mine = contend_for_ticket(semaphore(&session, 1, "mine"));
        wait_for_line(&other, &["holds"], &["theirs", "mine"]).await;
        // A round trip takes 40 ms. Mine needs five and a half to share the ticket, which is more than it ever waits.
        proxy.delay(Duration::from_millis(20));
        permit.release().await.unwrap();
        let theirs = theirs.await.unwrap().unwrap();
        assert!(tokio::time::timeout(after, &mut mine).await.is_err(), "it is theirs");
        mine.abort();
        drop(mine.await);
        proxy.delay(Duration::ZERO);
        wait_for_line(&other, &["theirs"], &[]).await;
        // Giving up cleans up in the background.
        let lost = tokio::time::timeout(Duration::from_millis(60), theirs.lost()).await;
        assert!(lost.is_err(), "given up after {after:?}");
        theirs.release().await.unwrap();
    }
}

#[tokio::test]
async fn ticket_that_another_has_taken_up_is_not_taken_back_by_whoever_gave_up_on_it() {
    let world = World::new("semaphore-ticket-taken-up");
    let other = world.session().await;
    let (session, proxy) = world.session_through_proxy(LONG).await;
    semaphore(&session, 1, "first").acquire().await.unwrap().release().await.unwrap();
    proxy.delay(Duration::from_millis(200));
    let first = contend_for_ticket(semaphore(&session, 1, "first"));
    wait_for_line(&other, &["first"], &[]).await;
    first.abort();
    drop(first.await);
    // Another process has the same build's ticket now, before the one that gave up has taken anything back.
    let taken_up = contend_for_ticket(semaphore(&other, 1, "second")).await.unwrap().unwrap();
    proxy.heal();
    // Returns when nothing is left to do in the background.
    session.close().await;
    let found = semaphore(&other, 1, "").ticket(taken_up.name()).await.unwrap();
    assert_eq!(found.map(|found| found.fence()), Some(taken_up.fence()));
    taken_up.transaction().commit().await.unwrap();
}

#[tokio::test]
async fn holder_can_be_thrown_out_by_force() {
    let world = World::new("semaphore-revoke");
    let (a, b) = (world.session().await, world.session().await);
    let permit = semaphore(&a, 2, "permit").acquire().await.unwrap();
    let ticket = semaphore(&a, 2, "ticket").acquire_ticket(&"build-1".parse().unwrap()).await.unwrap();
    let admin = Semaphore::with_stored_limit(&b, dir());
    let holders = admin.holders().await.unwrap();
    assert_eq!(holders.iter().map(|holder| holder.stays).collect::<Vec<_>>(), [false, true]);
    for holder in &holders {
        assert_eq!(admin.revoke(&holder.name).await, Ok(true));
        assert_eq!(admin.revoke(&holder.name).await, Ok(false));
    }
    assert_eq!(admin.revoke("../deploy").await, Ok(false));
    assert_eq!(permit.lost().await, Loss::Removed);
    ticket.lost().await.unwrap();
    assert_eq!(line(&b).await, (vec![], vec![]));
}

#[tokio::test]
async fn whatever_is_in_the_directory_counts() {
    let session = World::new("semaphore-foreign").session().await;
    let mine = semaphore(&session, 1, "mine");
    mine.acquire().await.unwrap().release().await.unwrap();
    let foreign = format!("{DIR}/by-hand");
    session.term().create(&foreign, b"x", Kind::Persistent, IfLate::Report).await.unwrap();
    assert!(matches!(mine.try_acquire().await, Ok(TryAcquire::Busy { .. })));
}

/// Many come and go over connections that break, and there are never more holders than the limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_too_many_however_often_connections_break() {
    const WORKERS: usize = 6;
    const TURNS: usize = 8;
    let world = World::new("semaphore-storm");
    let watcher = world.session().await;
    let log = Log::new(&watcher, "/holders").await;
    let mut workers = JoinSet::new();
    let mut proxies = Vec::new();
    for worker in 0..WORKERS {
        let (session, proxy) = world.session_through_proxy(LONG).await;
        proxies.push(proxy);
        let log = log.clone();
        workers.spawn(async move {
            let semaphore = semaphore(&session, 2, &worker.to_string());
            for _ in 0..TURNS {
                let permit = semaphore.acquire().await.unwrap();
                log.stay(&permit, Mode::Shared).await;
                permit.release().await.unwrap();
            }
        });
    }
    let mut turn = 0;
    let mut trouble = tokio::time::interval(Duration::from_millis(20));
    loop {
        tokio::select! {
            done = workers.join_next() => match done {
                Some(done) => done.unwrap(),
                None => break,
            },
            _ = trouble.tick() => {
                let proxy = &proxies[turn % WORKERS];
                if turn % 2 == 0 { proxy.lose_connections() } else { proxy.drop_next_reply() }
                turn += 1;
            }
        }
    }
    let crowd = log.count(&watcher).await;
    assert_eq!(crowd.holders, WORKERS * TURNS);
    assert!(crowd.at_once <= 2, "{crowd:?}");
    assert_eq!(line(&watcher).await, (vec![], vec![]));
}
