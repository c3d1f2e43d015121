//! Lock, read and write lock, and election, in both directions and with crashes.

use menagerie_kernel::Session;
use menagerie_kernel::recipes::election::Election;
use menagerie_kernel::recipes::lock::{Lock, LockError, LockGuard, TryAcquire};
use menagerie_kernel::recipes::rw_lock::RwLock;
use menagerie_testkit::{Process, eventually_async};
use rustix::process::Signal;
use tokio::task::JoinHandle;

use super::python;
use crate::lock::{DIR, dir};
use crate::world::{LONG, World};

/// A Python process that contends.
struct Contender(Process);

impl Contender {
    fn start(world: &World, recipe: &str, who: &str) -> Self {
        let servers = world.config(LONG).servers + "/menagerie";
        Self(python("contender.py", &[&servers, recipe, DIR, who]))
    }

    fn wait_until(&self, word: &str) {
        self.0.wait_for_line(word, |line| (line == word).then_some(()));
    }

    fn release(mut self) {
        self.0.signal(Signal::TERM);
        self.wait_until("released");
        assert!(self.0.wait_for_end().status.success());
    }
}

fn lock(session: &Session, who: &str) -> Lock {
    Lock::new(session, dir()).identified_by(who)
}

fn contend(lock: &Lock) -> JoinHandle<Result<LockGuard, LockError>> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.acquire().await })
}

/// Both sides must agree on this, so it is enough to ask one.
async fn wait_for_line(session: &Session, wanted: &[&str]) {
    eventually_async(&format!("the line is {wanted:?}"), async || {
        session.term().sync("/").await.unwrap();
        let line = lock(session, "").contenders().await.unwrap().into_iter();
        let line = line.map(|one| format!("{}{}", one.identifier, if one.holds { "*" } else { "" }));
        (line.collect::<Vec<_>>() == wanted).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rust_and_python_hold_the_lock_in_the_order_in_which_they_came() {
    let world = World::new("kazoo-lock");
    let session = world.session().await;
    let first = Contender::start(&world, "lock", "python-1");
    first.wait_until("held");
    let TryAcquire::HeldBy(holder) = lock(&session, "").try_acquire().await.unwrap() else {
        panic!("Python holds")
    };
    assert_eq!(holder.identifier, "python-1");
    let second = contend(&lock(&session, "rust-2"));
    wait_for_line(&session, &["python-1*", "rust-2"]).await;
    let third = Contender::start(&world, "lock", "python-3");
    wait_for_line(&session, &["python-1*", "rust-2", "python-3"]).await;
    let fourth = contend(&lock(&session, "rust-4"));
    wait_for_line(&session, &["python-1*", "rust-2", "python-3", "rust-4"]).await;
    first.release();
    let second = second.await.unwrap().unwrap();
    wait_for_line(&session, &["rust-2*", "python-3", "rust-4"]).await;
    second.release().await.unwrap();
    third.wait_until("held");
    assert!(!fourth.is_finished());
    // It dies while it holds: its session ends, and we come next.
    drop(third);
    let fourth = fourth.await.unwrap().unwrap();
    // We die while we hold.
    let fifth = Contender::start(&world, "lock", "python-5");
    wait_for_line(&session, &["rust-4*", "python-5"]).await;
    session.close().await;
    fifth.wait_until("held");
    fifth.release();
    drop(fourth);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_and_writers_of_both_keep_out_of_each_others_way() {
    let world = World::new("kazoo-rw");
    let session = world.session().await;
    let rust = |who: &str| RwLock::new(&session, dir()).identified_by(who);
    let reader = Contender::start(&world, "read", "python-r1");
    reader.wait_until("held");
    let with_it = rust("rust-r2").reader().acquire().await.unwrap();
    let writer = Contender::start(&world, "write", "python-w3");
    wait_for_line(&session, &["python-r1*", "rust-r2*", "python-w3"]).await;
    let late = contend(rust("rust-r4").reader());
    wait_for_line(&session, &["python-r1*", "rust-r2*", "python-w3", "rust-r4"]).await;
    reader.release();
    with_it.release().await.unwrap();
    writer.wait_until("held");
    assert!(!late.is_finished(), "a reader does not overtake a writer");
    // The writer dies.
    drop(writer);
    let late = late.await.unwrap().unwrap();
    let reader = Contender::start(&world, "read", "python-r5");
    reader.wait_until("held");
    let writer = contend(rust("rust-w6").writer());
    wait_for_line(&session, &["rust-r4*", "python-r5*", "rust-w6"]).await;
    late.release().await.unwrap();
    wait_for_line(&session, &["python-r5*", "rust-w6"]).await;
    assert!(!writer.is_finished());
    // A reader dies.
    drop(reader);
    let writer = writer.await.unwrap().unwrap();
    let reader = Contender::start(&world, "read", "python-r7");
    wait_for_line(&session, &["rust-w6*", "python-r7"]).await;
    writer.release().await.unwrap();
    reader.wait_until("held");
    reader.release();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rust_and_python_elect_one_leader() {
    let world = World::new("kazoo-election");
    let session = world.session().await;
    let election = Election::new(&session, dir(), "rust-2");
    let python = Contender::start(&world, "election", "python-1");
    python.wait_until("held");
    assert_eq!(election.leader().await.unwrap().unwrap().identifier, "python-1");
    let candidate = election.stand();
    let mut leading = candidate.leading();
    wait_for_line(&session, &["python-1*", "rust-2"]).await;
    assert!(leading.borrow().is_none());
    // The leader dies.
    drop(python);
    leading.wait_for(Option::is_some).await.unwrap();
    let python = Contender::start(&world, "election", "python-3");
    wait_for_line(&session, &["rust-2*", "python-3"]).await;
    candidate.withdraw().await.unwrap();
    python.wait_until("held");
    assert_eq!(election.leader().await.unwrap().unwrap().identifier, "python-3");
    let next = election.stand();
    let mut leading = next.leading();
    wait_for_line(&session, &["python-3*", "rust-2"]).await;
    python.release();
    leading.wait_for(Option::is_some).await.unwrap();
}
