//! Holders whose machine was suspended for longer than their session time-out. They run in a separate process: this
//! binary, started again.

use std::cell::{Cell, RefCell};
use std::env;
use std::process::Command;
use std::time::Duration;

use menagerie_kernel::recipes::election::Election;
use menagerie_kernel::recipes::grant::Grant;
use menagerie_kernel::recipes::lock::Lock;
use menagerie_kernel::{Config, Session};
use menagerie_testkit::{Machine, Process, boottime};
use menagerie_znodes::{Dir, Kind, Znode};

use crate::lock::dir;
use crate::world::{LONG, World};

/// Where the holder finds the servers; set only for that process.
const SERVERS: &str = "MENAGERIE_TEST_SUSPENDED_HOLDER";
/// Between two acts of a holder.
const PAUSE: Duration = Duration::from_millis(10);

fn election(session: &Session, who: &str) -> Election {
    let dir: Znode<Dir> = Znode::foreign("/election", Kind::Persistent);
    Election::new(session, dir, who)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspended_holders_do_nothing_under_what_another_has_by_then() {
    let world = World::new("suspended");
    let session = world.session().await;
    let (config, proxy) = world.config_through_proxy(LONG);
    let machine = Machine::new();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "suspended::holder", "--nocapture"]).env(SERVERS, config.servers);
    let holder = Process::spawn(machine.host(&mut command));
    let acted = |line: &str| {
        let (what, when) = line.strip_prefix("acted ")?.split_once(' ')?;
        Some((what.to_owned(), when.parse::<u128>().ok()?))
    };
    for wanted in ["lock", "election"] {
        holder.wait_for_line(wanted, |line| acted(line).filter(|(what, _)| what == wanted));
    }
    let suspended = machine.suspend(&holder);
    // The network comes back later than the machine, so the server cannot tell the holders what has happened.
    proxy.partition();
    let _held = Lock::new(&session, dir()).acquire().await.unwrap();
    let _leads = election(&session, "next").campaign().await.unwrap();
    let taken = boottime().as_millis();
    suspended.resume();
    let (late, lost) = (RefCell::new(Vec::new()), Cell::new(0));
    holder.wait_for_line("that it has lost both", |line| {
        late.borrow_mut().extend(acted(line).filter(|(_, when)| *when >= taken));
        lost.set(lost.get() + usize::from(line.starts_with("lost ")));
        (lost.get() == 2).then_some(())
    });
    assert!(late.borrow().is_empty(), "acted after {taken}, when others held: {:?}", late.borrow());
}

/// Acts as long as the lease is valid, and prints when.
async fn act(what: &str, grant: Grant) {
    let acts = async {
        loop {
            // Before the check, because the machine may be suspended between the two.
            let now = boottime().as_millis();
            if grant.is_valid() {
                println!("acted {what} {now}");
            }
            // The pace at which it acts: the witness waits for its lines, and for nothing else.
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::select! {
        () = acts => {}
        _ = grant.lost() => println!("lost {what}"),
    }
}

/// The other process; a test that does nothing otherwise.
#[tokio::test]
async fn holder() {
    let Ok(servers) = env::var(SERVERS) else { return };
    println!();
    let mut config = Config::new(servers, "/menagerie");
    config.timeout = LONG;
    let session = Session::connect(config).await.unwrap();
    let held = Lock::new(&session, dir()).acquire().await.unwrap();
    let leads = election(&session, "first").campaign().await.unwrap();
    let (lock, election): (&Grant, &Grant) = (&held, &leads);
    tokio::join!(act("lock", lock.clone()), act("election", election.clone()));
}
