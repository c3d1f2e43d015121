//! A holder that is frozen beyond its time-out and woken. It runs in a separate process: this binary, started again.

use std::env;
use std::process::Command;

use menagerie_kernel::recipes::lock::Lock;
use menagerie_kernel::{Config, Session, retry};
use menagerie_testkit::Process;
use menagerie_znodes::{Kind, Raw, Znode};
use rustix::process::Signal;

use crate::lock::dir;
use crate::world::{SHORT, World};

/// Where the holder finds its lock; set only for that process.
const SERVERS: &str = "MENAGERIE_TEST_FROZEN_HOLDER";

fn place() -> Znode<Raw> {
    Znode::foreign("/place", Kind::Persistent)
}

#[tokio::test]
async fn frozen_holder_wakes_up_stopped_and_its_write_is_refused() {
    let world = World::new("frozen");
    let session = world.session().await;
    retry::ensure(&session.term(), place().path(), b"").await.unwrap();
    let holder = Process::spawn(
        Command::new(env::current_exe().unwrap())
            .args(["--exact", "frozen::holder", "--nocapture"])
            .env(SERVERS, world.config(SHORT).servers),
    );
    let said =
        |what: &'static str| move |line: &str| line.split_once(what).map(|(_, rest)| rest.trim().to_owned());
    let old = holder.wait_for_line("that it holds", said("held "));
    holder.signal(Signal::STOP);
    let held = Lock::new(&session, dir()).acquire().await.unwrap();
    assert!(old.parse::<menagerie_kernel::Fence>().unwrap() < held.fence());
    held.transaction().set(&place(), &Raw(b"next".to_vec()), None).commit().await.unwrap();
    holder.signal(Signal::CONT);
    // Whether it learns it from the server or from its own clock: its lease was over by then.
    assert_eq!(holder.wait_for_line("that it stopped", said("stopped, lease over: ")), "true");
    assert_eq!(holder.wait_for_line("what became of its write", said("write: ")), "refused");
    assert_eq!(session.term().get(place().path()).await.unwrap().0, b"next");
}

/// The other process; a test that does nothing otherwise.
#[tokio::test]
async fn holder() {
    let Ok(servers) = env::var(SERVERS) else { return };
    let mut config = Config::new(servers, "/menagerie");
    config.timeout = SHORT;
    let session = Session::connect(config).await.unwrap();
    let held = Lock::new(&session, dir()).acquire().await.unwrap();
    println!("\nheld {}", held.fence());
    held.lost().await;
    println!("\nstopped, lease over: {}", held.valid_until().borrow().has_passed());
    // A zombie that does not care that it was stopped.
    let written = held.transaction().set(&place(), &Raw(b"zombie".to_vec()), None).commit().await;
    println!("\nwrite: {}", if written.is_err() { "refused" } else { "done" });
}
