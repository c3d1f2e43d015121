//! The worker claims the partitions assigned to it and handles their messages.
//!
//! One loop owns all state. It waits for an event, applies it, and then advances every dirty partition as far as
//! possible: record, read ahead, release. [`Turn`](crate::core::turn::Turn) decides which message comes next.
//!
//! - this file: options, orders and the life of a worker. `event_loop`: the loop. `events`: what it does on each event.
//!   `advance`: advancing partitions. `lane`: one partition. `read_ahead`: how much of it to read. `effects`:
//!   background work. `records`: records in flight. `report`: reports to journals. `trim`: dropping handled messages.
//!   `view`: what a worker shows.

mod advance;
mod effects;
mod event_loop;
mod events;
mod lane;
mod read_ahead;
mod records;
mod report;
mod trim;
mod view;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use menagerie_kernel::recipes::presence::Presence;
use menagerie_kernel::recipes::settle::Rule;
use menagerie_kernel::{Session, whole};
use menagerie_znodes::Name;
use menagerie_znodes::queues::{self, QueueName};
use tokio::sync::{mpsc, oneshot};
use tracing::{info, warn};

use crate::coordination::assigner::Assigner;
use crate::coordination::instructions::Instructions;
use crate::core::failure;
use crate::core::ledger::{Ack, Commit};
use crate::core::turn;
use crate::error::QueueError;
use crate::journals::Journals;
use crate::metrics::Metrics;
use crate::task::{Failed, Task};
use event_loop::EventLoop;
use lane::AbortOnDrop;

pub use view::{LaneView, Stats, WorkerView};

/// Options chosen by the operator.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name of the worker: host and process id, as a rule.
    pub name: Name,
    /// Queues it serves, in this order.
    pub queues: Vec<QueueName>,
    /// Which queue comes next.
    pub policy: turn::Policy,
    /// Messages handled concurrently, each from another partition.
    pub concurrency: usize,
    /// Most messages given to a task together.
    pub batch: usize,
    /// When to record; ignored with [`Ack::Before`], which records each message by itself.
    pub commit: Commit,
    /// Whether to record messages when they are done or before they begin.
    pub ack: Ack,
    /// Retries, and what happens to failed messages.
    pub failure: failure::Policy,
    /// When joining and leaving workers count as settled.
    pub settle: Rule,
    /// How long to wait at the start for a first read of every partition, so that the first queue comes first. After
    /// that, do not wait for partitions that another worker still owns or whose journal is down.
    pub first_read_wait: Duration,
    /// Drop a task that has not stopped after this time; programs have their own grace.
    pub stop_timeout: Duration,
}

impl Options {
    /// Resolves contradictions. At-most-once delivery means one attempt, and one message at a time, recorded right
    /// before it begins: of several recorded together, some would be lost if one fails or we stop.
    fn consistent(mut self) -> Self {
        if self.ack == Ack::Before {
            self.failure.attempts = NonZeroU32::MIN;
            self.batch = 1;
            self.commit = Commit::EACH;
        }
        self
    }

    fn adjust(&mut self, adjustment: Adjustment) {
        let Adjustment { policy, concurrency, failure } = adjustment;
        *self = Self { policy, concurrency, failure, ..self.clone() }.consistent();
    }

    /// Defaults: one message at a time, each recorded by itself.
    pub fn new(name: Name, queues: Vec<QueueName>) -> Self {
        Self {
            name,
            queues,
            policy: turn::Policy::default(),
            concurrency: 1,
            batch: 1,
            commit: Commit::EACH,
            ack: Ack::default(),
            failure: failure::Policy::default(),
            settle: Rule::default(),
            first_read_wait: Duration::from_secs(1),
            stop_timeout: Duration::from_secs(30),
        }
    }
}

/// Options that can change while a worker runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adjustment {
    /// Which queue comes next.
    pub policy: turn::Policy,
    /// Messages handled concurrently, each from another partition.
    pub concurrency: usize,
    /// Retries, and what happens to failed messages.
    pub failure: failure::Policy,
}

/// Orders to a running worker.
#[derive(Debug)]
pub enum Order {
    /// Finish and record the running messages, then end.
    Finish,
    /// Stop the running messages, and end cleanly.
    Abort,
    /// Change options; running messages keep the old ones.
    Adjust(Adjustment),
    /// Send a snapshot.
    Show(oneshot::Sender<WorkerView>),
}

/// Why a worker has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// By an order, or because nobody can send orders any more.
    AskedToStop,
    /// A message failed, and the policy is to stop then.
    Failed(Failed),
}

impl Ended {
    /// The reason as logs name it.
    fn label(&self) -> &'static str {
        match self {
            Self::AskedToStop => "signal",
            Self::Failed(_) => "failure",
        }
    }
}

/// What a worker depends on.
#[derive(Clone)]
pub struct Deps {
    /// Coordinates workers.
    pub session: Session,
    /// Store the messages.
    pub journals: Journals,
    /// Handles the messages.
    pub task: Arc<dyn Task>,
    /// Counts and times them.
    pub metrics: Metrics,
}

/// Runs a worker until it is asked to stop. Dropping the future releases nothing, as if the worker were killed.
pub async fn run(
    deps: Deps,
    options: Options,
    mut orders: mpsc::Receiver<Order>,
) -> Result<Ended, QueueError> {
    let (session, mut options) = (&deps.session.clone(), options.consistent());
    let me = queues::Worker { queues: Vec::new(), serves: Some(options.queues.clone()), paused: false };
    let name = options.name.clone();
    let listed = async {
        let presence = Presence::begin(session, &queues::worker(&name), &me).await?;
        Ok::<_, QueueError>((presence, Instructions::follow(session, &name).await?))
    };
    let mut shown = Vec::new();
    let (presence, followed) = tokio::select! {
        listed = listed => listed?,
        // Another worker may hold our name for long, and there is nothing to finish.
        () = wait_for_stop(&mut orders, &mut options, &mut shown) => return Ok(Ended::AskedToStop),
    };
    let mut assigner = Assigner::new(session, &options.name, options.settle, deps.metrics.clone());
    info!(worker = %options.name, queues = ?names(&options.queues), "worker listed");
    let mut work = EventLoop::new(deps, options, followed, presence);
    shown.into_iter().for_each(|asked| work.on_order(Order::Show(asked)));
    // A tokio task of its own, so that partition events do not poll the assigner. Dropping our future aborts it.
    let mut work = tokio::spawn(work.run(orders));
    let _ours = AbortOnDrop(work.abort_handle());
    let ended = tokio::select! {
        ended = &mut work => ended,
        // Other workers can still assign, and we can handle what we own.
        () = assigner.run() => {
            warn!("this worker does not stand for election any more");
            work.await
        }
    };
    let ended = ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
    if let Err(error) = assigner.withdraw().await {
        warn!(error = %whole(&error), "could not withdraw from the election");
    }
    Ok(ended)
}

/// Takes orders until one asks to stop, while the worker is not registered yet. Keeps requests for snapshots for later.
async fn wait_for_stop(
    orders: &mut mpsc::Receiver<Order>,
    options: &mut Options,
    shown: &mut Vec<oneshot::Sender<WorkerView>>,
) {
    while let Some(order) = orders.recv().await {
        match order {
            Order::Finish | Order::Abort => return,
            Order::Adjust(adjustment) => options.adjust(adjustment),
            Order::Show(answer) => shown.push(answer),
        }
    }
}

fn names(queues: &[QueueName]) -> Vec<String> {
    queues.iter().map(QueueName::to_string).collect()
}
