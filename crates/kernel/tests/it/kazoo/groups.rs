//! Semaphore, party, barriers and counter, in both directions and with crashes.

use menagerie_kernel::recipes::barrier::Barrier;
use menagerie_kernel::recipes::double_barrier::DoubleBarrier;
use menagerie_kernel::recipes::party::Party;
use menagerie_kernel::recipes::semaphore::{Limit, Semaphore, TryAcquire};
use menagerie_kernel::{Session, retry};
use menagerie_testkit::{Process, eventually_async};
use menagerie_znodes::{Dir, Kind, Znode};
use rustix::process::Signal;

use super::python;
use crate::semaphore::wait_for_line;
use crate::world::{LONG, World};
use crate::{barrier, counter, semaphore};

/// A Python process that takes part.
struct Peer(Process);

impl Peer {
    fn start(world: &World, recipe: &str, path: &str, who: &str, number: u32) -> Self {
        let config = world.config(LONG);
        let servers = format!("{}{}", config.servers, config.namespace);
        Self(python("groups.py", &[&servers, recipe, path, who, &number.to_string()]))
    }

    /// Waits for a line with this prefix, and returns the rest of it.
    fn says(&self, word: &str) -> String {
        self.0.wait_for_line(word, |line| line.strip_prefix(word).map(|rest| rest.trim().to_owned()))
    }

    fn go_on(&self) {
        self.0.signal(Signal::TERM);
    }
}

fn mine(session: &Session, limit: u32, who: &str) -> Semaphore {
    Semaphore::new(session, semaphore::dir(), limit).identified_by(who)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rust_and_python_share_permits_in_the_order_in_which_they_came() {
    let world = World::new("kazoo-semaphore");
    let session = world.session().await;
    let peer = |who| Peer::start(&world, "semaphore", semaphore::DIR, who, 2);
    let first = peer("python-1");
    first.says("in");
    let second = mine(&session, 2, "rust-2").acquire().await.unwrap();
    assert!(matches!(mine(&session, 2, "").try_acquire().await, Ok(TryAcquire::Busy { .. })));
    let third = peer("python-3");
    wait_for_line(&session, &["python-1", "rust-2"], &["python-3"]).await;
    let fourth = mine(&session, 2, "rust-4");
    let fourth = tokio::spawn(async move { fourth.acquire().await });
    wait_for_line(&session, &["python-1", "rust-2"], &["python-3", "rust-4"]).await;
    let fifth = peer("python-5");
    wait_for_line(&session, &["python-1", "rust-2"], &["python-3", "rust-4", "python-5"]).await;
    second.release().await.unwrap();
    third.says("in");
    assert_eq!(third.says("holders"), "python-1 python-3");
    wait_for_line(&session, &["python-1", "python-3"], &["rust-4", "python-5"]).await;
    first.go_on();
    first.says("out");
    let fourth = fourth.await.unwrap().unwrap();
    wait_for_line(&session, &["python-3", "rust-4"], &["python-5"]).await;
    // One dies while it is in: its session ends, and the next comes in.
    drop(third);
    fifth.says("in");
    wait_for_line(&session, &["rust-4", "python-5"], &[]).await;
    // One dies while it waits.
    let sixth = peer("python-6");
    wait_for_line(&session, &["rust-4", "python-5"], &["python-6"]).await;
    let seventh = mine(&session, 2, "rust-7");
    let seventh = tokio::spawn(async move { seventh.acquire().await });
    wait_for_line(&session, &["rust-4", "python-5"], &["python-6", "rust-7"]).await;
    drop(sixth);
    fifth.go_on();
    let seventh = seventh.await.unwrap().unwrap();
    // We die while we are in.
    let eighth = peer("python-8");
    wait_for_line(&session, &["rust-4", "rust-7"], &["python-8"]).await;
    session.close().await;
    eighth.says("in");
    drop((fourth, seventh));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rust_and_python_agree_on_the_limit() {
    let world = World::new("kazoo-limit");
    let session = world.session().await;
    let python = Peer::start(&world, "semaphore", semaphore::DIR, "python", 3);
    python.says("in");
    let stored = Semaphore::with_stored_limit(&session, semaphore::dir());
    let Ok(Some(limit)) = stored.limit().await else { panic!("Python has stored one") };
    assert_eq!(limit.permits, 3);
    assert!(mine(&session, 2, "rust").acquire().await.is_err());
    let other = Peer::start(&world, "semaphore", semaphore::DIR, "other", 2);
    assert!(other.says("refused").contains('3'));
    // Our tickets count for Python as well; our limit applies to newcomers.
    let name = "build-1".parse().unwrap();
    let ticket = stored.acquire_ticket(&name).await.unwrap();
    let Ok(Limit { permits: 2, .. }) = stored.set_limit(limit, 2).await else { panic!("nobody else has") };
    let third = Peer::start(&world, "semaphore", semaphore::DIR, "third", 2);
    wait_for_line(&session, &["python", ""], &["third"]).await;
    ticket.release().await.unwrap();
    third.says("in");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rust_and_python_come_to_one_party() {
    let world = World::new("kazoo-party");
    let session = world.session().await;
    let dir: Znode<Dir> = Znode::foreign("/party", Kind::Persistent);
    let party = Party::new(&session, dir);
    let rust = party.join("rust").await.unwrap();
    let python = Peer::start(&world, "party", "/party", "python-1", 0);
    python.says("in");
    assert_eq!(party.members().await.unwrap(), ["rust", "python-1"]);
    python.go_on();
    assert_eq!(python.says("members"), "python-1 rust");
    python.says("out");
    let python = Peer::start(&world, "party", "/party", "python-2", 0);
    python.says("in");
    // One dies.
    drop(python);
    eventually_async("it is gone", async || (party.members().await.unwrap() == ["rust"]).then_some(())).await;
    // We die.
    let python = Peer::start(&world, "party", "/party", "python-3", 0);
    python.says("in");
    session.close().await;
    python.go_on();
    assert_eq!(python.says("members"), "python-3");
    drop(rust);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rust_and_python_wait_at_one_barrier() {
    let world = World::new("kazoo-barrier");
    let session = world.session().await;
    let mine = Barrier::new(&session, barrier::dir());
    let python = Peer::start(&world, "barrier", barrier::PATH, "creates", 0);
    python.says("up");
    let waits = tokio::spawn({
        let mine = mine.clone();
        async move { mine.wait().await }
    });
    session.term().sync("/").await.unwrap();
    assert!(session.term().stat(barrier::PATH).await.unwrap().is_some());
    assert!(!waits.is_finished());
    python.go_on();
    python.says("down");
    waits.await.unwrap().unwrap();
    mine.create().await.unwrap();
    let python = Peer::start(&world, "barrier", barrier::PATH, "", 0);
    python.says("waits");
    assert_eq!(mine.remove().await, Ok(true));
    python.says("through");
    // It stays up when its creator dies.
    let python = Peer::start(&world, "barrier", barrier::PATH, "creates", 0);
    python.says("up");
    drop(python);
    assert_eq!(mine.remove().await, Ok(true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rust_and_python_go_in_and_out_together() {
    let world = World::new("kazoo-double");
    let session = world.session().await;
    let enter = |participants| {
        let barrier = DoubleBarrier::new(&session, barrier::dir(), participants).identified_by("rust");
        tokio::spawn(async move { barrier.enter().await })
    };
    let peer = |who| Peer::start(&world, "double", barrier::PATH, who, 2);
    // Python comes last and opens it; then ours does.
    for python_first in [false, true] {
        let (python, rust) = if python_first {
            let python = peer("python");
            barrier::present(&session, 1).await;
            (python, enter(2))
        } else {
            let rust = enter(2);
            barrier::present(&session, 1).await;
            assert!(!rust.is_finished());
            (peer("python"), rust)
        };
        python.says("in");
        let rust = tokio::spawn(rust.await.unwrap().unwrap().leave());
        eventually_async("it leaves", async || {
            let ready = format!("{}/ready", barrier::PATH);
            session.term().stat(&ready).await.unwrap().is_none().then_some(())
        })
        .await;
        assert!(!rust.is_finished());
        python.go_on();
        python.says("out");
        rust.await.unwrap().unwrap();
    }
    // One dies inside, and does not keep the other.
    let rust = enter(2);
    let python = peer("dies");
    python.says("in");
    let rust = rust.await.unwrap().unwrap();
    drop(python);
    rust.leave().await.unwrap();
    // Ours dies inside.
    let rust = enter(2);
    let python = peer("stays");
    python.says("in");
    drop(rust.await.unwrap().unwrap());
    python.go_on();
    python.says("out");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rust_and_python_count_together() {
    let world = World::new("kazoo-counter");
    let session = world.session().await;
    let ours = counter::counter(&session);
    ours.sub(3).await.unwrap();
    let python = Peer::start(&world, "counter", counter::PATH, "", 40);
    assert_eq!(python.says("begins"), "-3");
    for _ in 0..40 {
        ours.add(1).await.unwrap();
    }
    python.says("done");
    assert_eq!(ours.value().await, Ok(77));
    // It dies in the middle: what is there is a number.
    let python = Peer::start(&world, "counter", counter::PATH, "", 1_000_000);
    python.says("begins");
    eventually_async("it counts", async || (ours.value().await.unwrap() > 80).then_some(())).await;
    drop(python);
    ours.add(1).await.unwrap();
    // Python makes the znode empty before it counts.
    retry::delete(&session.term(), counter::PATH).await.unwrap();
    retry::ensure(&session.term(), counter::PATH, b"").await.unwrap();
    assert_eq!(ours.add(1).await.unwrap().after, 1);
}
