//! Two workers share a queue; one message fails.

use std::fmt::Display;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use menagerie_journal::NewMessage;
use menagerie_kernel::recipes::settle::Rule;
use menagerie_kernel::{Config, Session, guard};
use menagerie_queues::Origin;
use menagerie_queues::admin::{self, Destination, Putter, show};
use menagerie_queues::journals::{Access, Journals};
use menagerie_queues::metrics::Metrics;
use menagerie_queues::runner::exec::Exec;
use menagerie_queues::runner::{Limits, Program, lease_grace};
use menagerie_queues::worker::{self, Deps, Options, Order};
use menagerie_znodes::Name;
use menagerie_znodes::queues::{Handling, Keep, QueueName, Settings};
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;

use super::{Stopping, stop_requested};

const QUEUE: &str = "mail";
const PARTITIONS: u16 = 4;
const MESSAGES: u32 = 40;
const WORKERS: usize = 2;

/// This one fails until somebody retries it: for users to find out why, and to mend it.
const WITHOUT_STAMP: u32 = 13;

/// What a worker does with a message, with a folder as its argument: long enough to watch from another terminal. A letter
/// without a stamp gets one when it is given up, so that a retry sends it.
const TASK: &str = r#"
read -r letter
sleep 0.3
case $letter in *'without a stamp'*)
    [ -e "$1/stamped" ] && exit 0
    [ "$MENAGERIE_ATTEMPT" -ge 2 ] && : > "$1/stamped"
    echo "no stamp on: $letter" >&2
    exit 1
esac"#;

/// After the first letters, one more each time this has passed: so that there is something to see.
const TRICKLE: Duration = Duration::from_secs(3);

/// The journal of this machine registers a moment after it has started.
const PATIENCE: Duration = Duration::from_secs(30);
/// Interval between two looks at the progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Runs the demo. The workers stay until the end, for users who put more messages.
pub async fn run(
    config: Config,
    access: Access,
    root: &Path,
    menagerie: &str,
    stopping: Stopping,
) -> Result<(), String> {
    let session = Session::connect(config.clone()).await.map_err(to_text)?;
    let queue: QueueName = QUEUE.parse().map_err(to_text)?;
    let journals = tokio::select! {
        filled = fill(&session, &access, &queue, menagerie) => filled?,
        () = stop_requested(stopping.clone()) => {
            session.close().await;
            return Ok(());
        }
    };
    let work = |number| {
        tokio::spawn(work(
            config.clone(),
            access.clone(),
            queue.clone(),
            root.to_owned(),
            number,
            stopping.clone(),
        ))
    };
    let workers: Vec<_> = (1..=WORKERS).map(work).collect();
    tokio::select! {
        ended = async {
            wait_until_drained(&session, &journals, &queue, menagerie).await?;
            trickle(&session, &journals, &queue).await
        } => ended?,
        () = stop_requested(stopping) => {}
    }
    for worker in workers {
        worker.await.map_err(to_text)??;
    }
    session.close().await;
    Ok(())
}

/// Creates the queue and fills it.
async fn fill(
    session: &Session,
    access: &Access,
    queue: &QueueName,
    menagerie: &str,
) -> Result<Journals, String> {
    let journals = Journals::registered(session, access.clone()).await.map_err(to_text)?;
    let names = journals.names(PATIENCE).await;
    let journal = names.first().ok_or("there is no journal")?;
    let handling = Handling { attempts: NonZeroU32::new(2), backoff_ms: Some(500), ..Handling::default() };
    // Letters go on coming: keep no more than a day of them, also in a folder that stays.
    let keep = Keep::For(Duration::from_secs(24 * 60 * 60));
    let settings = Settings { handling, keep, ..admin::default_settings(PARTITIONS, journal) };
    admin::create_with(session, &journals, queue, &settings).await.map_err(to_text)?;
    let mut putter = Putter::open(session, &journals, queue, 0, Origin::library()).await.map_err(to_text)?;
    let letter = |number| match number {
        WITHOUT_STAMP => format!("letter {number}, without a stamp\n"),
        _ => format!("letter {number}\n"),
    };
    let messages = (1..=MESSAGES).map(|number| (Destination::Any, NewMessage::new(letter(number))));
    putter.put(messages.collect()).await.map_err(to_text)?;
    println!(
        "demo: queue {QUEUE} has {MESSAGES} messages in {PARTITIONS} partitions, and {WORKERS} workers handle them in order"
    );
    println!("demo: watch it with `{menagerie} queue show {QUEUE} --watch`");
    println!("demo: put more with `{menagerie} queue put {QUEUE} hello`");
    Ok(journals)
}

async fn wait_until_drained(
    session: &Session,
    journals: &Journals,
    queue: &QueueName,
    menagerie: &str,
) -> Result<(), String> {
    loop {
        tokio::time::sleep(PROGRESS_INTERVAL).await;
        let view = show::summary(session, journals, queue).await.map_err(to_text)?;
        if view.lag() == 0 {
            break;
        }
    }
    println!("demo: all {MESSAGES} messages of queue {QUEUE} are handled; see `{menagerie} queue workers`");
    println!("demo: one of them failed; find out why with `{menagerie} queue failed {QUEUE}`, and retry it");
    Ok(())
}

/// Puts a letter now and then, until the demo ends.
async fn trickle(session: &Session, journals: &Journals, queue: &QueueName) -> Result<(), String> {
    let mut putter = Putter::open(session, journals, queue, 0, Origin::library()).await.map_err(to_text)?;
    for number in MESSAGES + 1.. {
        tokio::time::sleep(TRICKLE).await;
        let letter = NewMessage::new(format!("letter {number}\n"));
        // Whoever deletes the queue, or stops its journal, does not want more of it.
        if putter.put(vec![(Destination::Any, letter)]).await.is_err() {
            break;
        }
    }
    std::future::pending().await
}

async fn work(
    config: Config,
    access: Access,
    queue: QueueName,
    root: PathBuf,
    number: usize,
    stopping: Stopping,
) -> Result<(), String> {
    let session = Session::connect(config).await.map_err(to_text)?;
    let journals = Journals::registered(&session, access).await.map_err(to_text)?;
    let grace = Duration::from_secs(1);
    let program = Program {
        command: ["/bin/sh".into(), "-c".into(), TASK.into(), "sh".into(), root.into_os_string()].to_vec(),
        guard: guard::this_program().to_owned(),
        grace,
        lease_grace: lease_grace(grace, session.term().timeout()),
        limits: Limits::default(),
        user: None,
    };
    let name = Name::new(format!("demo-{number}")).map_err(to_text)?;
    let quiet = Duration::from_secs(1);
    let settle = Rule { quiet, cap: quiet * 10 };
    let options = Options { settle, ..Options::new(name, vec![queue]) };
    let metrics = Metrics::new(&mut Registry::default());
    let deps = Deps { session: session.clone(), journals, task: Arc::new(Exec::new(program)), metrics };
    let (orders, received) = mpsc::channel(1);
    let stop = async {
        stop_requested(stopping).await;
        let _ = orders.send(Order::Abort).await;
    };
    // Keep the sender of orders: a worker whose orders end stops.
    let ended = tokio::select! {
        ended = worker::run(deps, options, received) => ended,
        never = async { stop.await; std::future::pending().await } => never,
    };
    session.close().await;
    ended.map(drop).map_err(to_text)
}

fn to_text(error: impl Display) -> String {
    error.to_string()
}
