//! The worker claims the partitions assigned to it and handles their messages.
//!
//! [`Machine`](crate::core::machine::Machine) decides; this module does. One loop waits for something to happen, gathers it
//! as a fact, steps the machine, and performs its effects, most of them in the background: each ends as another fact.
//!
//! - this file: orders and the life of a worker. `shell`: the loop. `perform`: its effects. `background`: the work behind
//!   them. `holdings`: locks and journals of the partitions we own. `records`: records in flight. `report`: reports to
//!   journals. `trim`: dropping handled messages. `happenings`: logs and metrics.

mod background;
mod happenings;
mod holdings;
mod perform;
mod records;
mod report;
mod shell;
mod trim;

use std::sync::Arc;

use menagerie_kernel::recipes::presence::Presence;
use menagerie_kernel::{Session, whole};
use menagerie_znodes::queues::{self, QueueName};
use tokio::sync::{mpsc, oneshot};
use tracing::{info, warn};

use crate::coordination::assigner::Assigner;
use crate::coordination::instructions::Instructions;
use crate::error::QueueError;
use crate::journals::Journals;
use crate::metrics::Metrics;
use crate::task::Task;
use holdings::AbortOnDrop;
use shell::Shell;

pub use crate::core::machine::Ended;
pub use crate::core::options::{Adjustment, Begins, Options};
pub use crate::core::view::{LaneView, RunningView, Stats, WorkerView};

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
    let shell = Shell::new(deps, options, followed, presence);
    shown.into_iter().for_each(|asked| shell.show(asked));
    // A tokio task of its own, so that partition events do not poll the assigner. Dropping our future aborts it.
    let mut work = tokio::spawn(shell.run(orders));
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
