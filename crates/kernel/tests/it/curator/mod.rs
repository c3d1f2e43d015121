//! Java programs that use Curator contend with ours, in its dialect.

use std::path::Path;

use menagerie_kernel::Session;
use menagerie_kernel::recipes::contest::Dialect;
use menagerie_kernel::recipes::lock::{Lock, LockError, LockGuard};
use menagerie_testkit::{CURATOR_JARS, JavaProgram, Process, ZOOKEEPER_JARS, eventually_async};
use rustix::process::Signal;
use tokio::task::JoinHandle;

use crate::lock::{DIR, dir};
use crate::world::{LONG, World};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/curator/Contender.java");

fn contender(java: &JavaProgram, world: &World, who: &str) -> Process {
    let servers = world.config(LONG).servers + "/menagerie";
    java.start(&[&servers, DIR, who])
}

fn wait_until(java: &Process, word: &str) {
    java.wait_for_line(word, |line| (line == word).then_some(()));
}

fn lock(session: &Session, who: &str) -> Lock {
    Lock::new(session, dir()).identified_by(who).in_dialect(Dialect::Curator)
}

fn contend(lock: Lock) -> JoinHandle<Result<LockGuard, LockError>> {
    tokio::spawn(async move { lock.acquire().await })
}

async fn wait_for_line(session: &Session, wanted: &[&str]) {
    eventually_async(&format!("the line is {wanted:?}"), async || {
        session.term().sync("/").await.unwrap();
        let line = lock(session, "").contenders().await.unwrap().into_iter();
        (line.map(|one| one.identifier).collect::<Vec<_>>() == wanted).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rust_and_java_hold_the_lock_in_the_order_in_which_they_came() {
    let world = World::new("curator-lock");
    let session = world.session().await;
    let java = JavaProgram::compile(Path::new(SOURCE), &[&ZOOKEEPER_JARS[..], &CURATOR_JARS].concat());
    let first = lock(&session, "rust-1").acquire().await.unwrap();
    let second = contender(&java, &world, "java-2");
    wait_for_line(&session, &["rust-1", "java-2"]).await;
    let third = contend(lock(&session, "rust-3"));
    wait_for_line(&session, &["rust-1", "java-2", "rust-3"]).await;
    let fourth = contender(&java, &world, "java-4");
    wait_for_line(&session, &["rust-1", "java-2", "rust-3", "java-4"]).await;
    first.release().await.unwrap();
    wait_until(&second, "held");
    assert!(!third.is_finished());
    second.signal(Signal::TERM);
    wait_until(&second, "released");
    let third = third.await.unwrap().unwrap();
    wait_for_line(&session, &["rust-3", "java-4"]).await;
    third.release().await.unwrap();
    wait_until(&fourth, "held");
    // It dies while it holds: its session ends, and we come next.
    let fifth = contend(lock(&session, "rust-5"));
    wait_for_line(&session, &["java-4", "rust-5"]).await;
    drop(fourth);
    fifth.await.unwrap().unwrap().release().await.unwrap();
}
