//! The worker: takes the partitions that it is assigned, and handles their messages.
//!
//! One loop owns all of it. It waits for something to happen, takes note of it, and then lets every partition that was
//! touched go on as far as it can: record, read ahead, release. Whose message is next is [`Turn`]'s to say.
//!
//! - this file: what an operator chooses, and the life of a worker. `looping`: the loop. `advance`: how a partition goes on.
//!   `react`: what the loop is told. `lane`: one partition. `ahead`: how much of it is read. `effects`: what is begun and ends
//!   later. `records`: what is being recorded. `report`: what journals are told. `trim`: what they may drop. `view`: what it shows.

mod advance;
mod ahead;
mod effects;
mod lane;
mod looping;
mod react;
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
use crate::coordination::orders::Orders;
use crate::core::failure;
use crate::core::ledger::{Ack, Commit};
use crate::core::turn;
use crate::error::QueueError;
use crate::journals::Journals;
use crate::metrics::Metrics;
use crate::task::{Failed, Task};
use lane::Begun;
use looping::Loop;

pub use view::{LaneView, Stats, WorkerView};

/// What an operator chooses.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the worker is called: host and process number, as a rule.
    pub name: Name,
    /// Which queues it serves, in this order.
    pub queues: Vec<QueueName>,
    /// Which of them comes next.
    pub policy: turn::Policy,
    /// Messages that are handled at once, each of another partition.
    pub concurrency: usize,
    /// Messages that are given to a task together, at most.
    pub batch: usize,
    /// When what is done is recorded; before it begins, it is each message by itself.
    pub commit: Commit,
    /// Whether after it is done, or before it begins.
    pub ack: Ack,
    /// What becomes of failures.
    pub failure: failure::Policy,
    /// When those who come and go have stopped doing so.
    pub settle: Rule,
    /// At the start, so long it is waited until all partitions were looked into, so that the first queue comes first. A
    /// partition that another has to give back, or whose journal is away, is not waited for any longer.
    pub first_look: Duration,
    /// A task that is told to stop and does not is dropped after this; programs have their own grace, and are waited for.
    pub stop_patience: Duration,
}

impl Options {
    /// What can be kept. At most once means one attempt, and one message at a time, recorded right before it begins: of several,
    /// some may have been handled when one fails, or none when we end.
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

    /// As most want it: one message at a time, each recorded by itself.
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
            first_look: Duration::from_secs(1),
            stop_patience: Duration::from_secs(30),
        }
    }
}

/// What can be changed while a worker runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adjustment {
    /// Which queue comes next.
    pub policy: turn::Policy,
    /// Messages that are handled at once, each of another partition.
    pub concurrency: usize,
    /// What becomes of failures.
    pub failure: failure::Policy,
}

/// What a worker can be told.
#[derive(Debug)]
pub enum Order {
    /// Finish what runs, record it, and end.
    Finish,
    /// Stop what runs, and end cleanly.
    Abort,
    /// From now on it is like this; what runs goes on as it began.
    Adjust(Adjustment),
    /// Say how it is.
    Show(oneshot::Sender<WorkerView>),
}

/// Why a worker has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It was told to.
    Told,
    /// A message failed, and the operator wants it to stop then.
    Failed(Failed),
}

/// What a worker works with.
#[derive(Clone)]
pub struct Means {
    /// Where it is coordinated.
    pub session: Session,
    /// Where messages are.
    pub journals: Journals,
    /// What is done with them.
    pub task: Arc<dyn Task>,
    /// What is counted.
    pub metrics: Metrics,
}

/// Runs a worker until it is told to end. Whoever drops the future has not released anything: it is as if it were killed.
pub async fn run(
    means: Means,
    options: Options,
    mut orders: mpsc::Receiver<Order>,
) -> Result<Ended, QueueError> {
    let (session, mut options) = (&means.session.clone(), options.consistent());
    let me = queues::Worker { queues: Vec::new(), serves: Some(options.queues.clone()), paused: false };
    let name = options.name.clone();
    let listed = async {
        let presence = Presence::begin(session, &queues::worker(&name), &me).await?;
        Ok::<_, QueueError>((presence, Orders::follow(session, &name).await?))
    };
    let mut shown = Vec::new();
    let (presence, followed) = tokio::select! {
        listed = listed => listed?,
        // Its name may be another's for long, and there is nothing to finish.
        () = told_to_end(&mut orders, &mut options, &mut shown) => return Ok(Ended::Told),
    };
    let mut assigner = Assigner::new(session, &options.name, options.settle, means.metrics.clone());
    info!(worker = %options.name, queues = ?names(&options.queues), "worker listed");
    let mut work = Loop::new(means, options, followed, presence);
    shown.into_iter().for_each(|asked| work.hear(Order::Show(asked)));
    // A task of its own: what happens to partitions wakes nothing else. Dropped, we take it along.
    let mut work = tokio::spawn(work.run(orders));
    let _ours = Begun(work.abort_handle());
    let ended = tokio::select! {
        ended = &mut work => ended,
        // Others may still be able to assign; what we have, we can handle.
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

/// What a worker hears that is not listed yet. Who asks how it is is answered when it works.
async fn told_to_end(
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
