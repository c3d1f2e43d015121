//! Workers in processes of their own, killed and frozen. The processes run this very binary.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

use menagerie_journal::client::{Address, Client};
use menagerie_journal::token::Token;
use menagerie_kernel::{Config, Session};
use menagerie_queues::Journals;
use menagerie_queues::metrics::Metrics;
use menagerie_queues::runner::exec::Exec;
use menagerie_queues::runner::{Limits, Program};
use menagerie_queues::task::{Outcome, Work};
use menagerie_queues::worker::{self, Deps};
use menagerie_testkit::{Process, binary, eventually_async};
use rustix::process::Signal;
use tokio::sync::mpsc;

use crate::runners::runs;
use crate::world::{JOURNAL, LONG, Log, World, cursor_of, options};

/// Settings of the other process, as JSON; set only there.
const WORKER: &str = "MENAGERIE_TEST_WORKER";

/// Writes down its pid and that of a child outside its process group; never ends on the first message.
const SCRIPT: &str = r#"read -r body || true
    setsid sleep 1000 & echo $! > "$1/child"; echo $$ > "$1/new"; mv "$1/new" "$1/pid"
    [ "$body" != slow ] || sleep 1000"#;

fn start(world: &World, folder: &Path) -> Process {
    let settings = BTreeMap::from([
        ("servers", world.connect_string().to_owned()),
        ("journal", world.journal.address().to_string()),
        ("token", world.journal.token_file().display().to_string()),
        ("folder", folder.display().to_string()),
        ("guard", binary().display().to_string()),
    ]);
    Process::spawn(
        Command::new(env::current_exe().unwrap())
            .args(["--exact", "processes::other_process", "--nocapture"])
            .env(WORKER, serde_json::to_string(&settings).unwrap()),
    )
}

/// The other process; does nothing as a test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_process() {
    let Ok(settings) = env::var(WORKER) else { return };
    let settings: BTreeMap<String, String> = serde_json::from_str(&settings).unwrap();
    let mut config = Config::new(settings["servers"].clone(), "/menagerie");
    // Long enough for the guard to act between the ends of lease and session, even on a busy machine.
    config.timeout = LONG;
    let session = Session::connect(config).await.unwrap();
    let token = Token::read(Path::new(&settings["token"])).unwrap();
    let address = Address::plain(settings["journal"].clone(), token);
    let journals = Journals::from([(JOURNAL.to_owned(), Arc::new(Client::new(address)) as _)]);
    let command = ["sh", "-c", SCRIPT, "sh", &settings["folder"]].map(Into::into).to_vec();
    let (guard, grace) = (settings["guard"].clone().into(), Duration::from_millis(300));
    let task = Arc::new(Exec::new(Program {
        command,
        guard,
        grace,
        lease_grace: grace.min(Duration::from_millis(250)),
        limits: Limits::default(),
        user: None,
    }));
    let metrics = Metrics::new(&mut prometheus_client::registry::Registry::default());
    let (_orders, received) = mpsc::channel(1);
    let deps = Deps { session, journals, task, metrics };
    worker::run(deps, options("process", &["mail"]), received).await.unwrap();
}

async fn taken_over(name: &str, end: impl FnOnce(&mut Process), back: impl FnOnce(&mut Process)) {
    binary();
    let mut world = World::new(name);
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.journal.serve();
    let folder = tempfile::tempdir().unwrap();
    let mut process = start(&world, folder.path());
    world.put_to(&session, "mail-1", &["slow", "two", "three"]).await;
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).ok();
    eventually_async("its program runs", async || read("pid")).await;
    let pids = [read("pid"), read("child")].map(|pid| pid.unwrap().trim().to_owned());
    let log = Log::default();
    let noted = log.clone();
    let second = world.start(&session, options("w2", &["mail"]), move |work: Work| {
        assert!(!pids.iter().any(|pid| runs(pid)), "the program of the owner before still runs");
        let entry = noted.begin("w2", &work);
        async move {
            drop(entry);
            vec![Outcome::Done]
        }
    });
    end(&mut process);
    world.drained(&session, "mail", 1).await;
    let handled: Vec<_> = log.handled().into_iter().map(|handled| (handled.body, handled.attempt)).collect();
    // The second may have begun while the record of the first was in flight.
    assert_eq!(
        handled,
        [("slow", 2), ("two", 2), ("three", 1)].map(|(body, attempt)| (body.to_owned(), attempt))
    );
    let cursor = cursor_of(&session, &"mail-1".parse().unwrap()).await;
    back(&mut process);
    // Whatever it does once it is back: the cursor only advances, and nothing done is repeated.
    world.put_to(&session, "mail-1", &["four"]).await;
    world.drained(&session, "mail", 1).await;
    assert!(cursor_of(&session, &"mail-1".parse().unwrap()).await > cursor);
    second.finish().await;
    process.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_killed_worker_runs_beside_the_next_one() {
    let kill = |process: &mut Process| {
        process.kill();
    };
    taken_over("killed", kill, |_| {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_frozen_worker_runs_beside_the_next_one_and_thawed_it_does_no_harm() {
    let freeze = |process: &mut Process| process.signal(Signal::STOP);
    taken_over("frozen", freeze, |process| process.signal(Signal::CONT)).await;
}
