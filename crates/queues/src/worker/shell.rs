//! The loop: wait, gather, step, perform.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use menagerie_journal::Ticks;
use menagerie_kernel::recipes::presence::Presence;
use menagerie_kernel::session::State;
use menagerie_kernel::{CallError, Session, whole};
use menagerie_znodes::queues::{self, PartitionName};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tracing::{error, warn};

use super::background::Event;
use super::happenings;
use super::holdings::{AbortOnDrop, Holdings};
use super::records::Records;
use super::{Deps, Ended, Options, Order, Stats, WorkerView};
use crate::coordination::claim;
use crate::coordination::instructions::{Instructions, Listener, News};
use crate::core::machine::{Fact, Machine, Now};
use crate::core::window::RunId;
use crate::error::QueueError;
use crate::journals::Journals;
use crate::metrics::Metrics;
use crate::story::Pen;
use crate::task::Task;

/// How often to report positions to the journals, which only display them.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// How often to ask the journals for the lag of all partitions, and to trim.
const LAG_INTERVAL: Duration = Duration::from_secs(10);

/// How often to log what came of messages.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(60);

/// What the machine's effects need.
pub(super) struct Shell {
    pub machine: Machine,
    pub session: Session,
    pub journals: Journals,
    pub task: Arc<dyn Task>,
    pub metrics: Metrics,
    pub instructions: Instructions,
    /// Epoch of the last assignment that could be read.
    epoch: u64,
    pub presence: Presence<queues::Worker>,
    pub holdings: Holdings,
    pub claims: BTreeMap<PartitionName, AbortOnDrop>,
    pub records: Records,
    /// Tells each run to stop.
    pub runs: HashMap<RunId, watch::Sender<bool>>,
    /// Background work.
    pub events: JoinSet<Event>,
    /// Tells background work that the worker is stopping.
    pub stopping: watch::Sender<bool>,
    /// Writes outcomes.
    pub pen: Pen,
}

impl Shell {
    pub fn new(
        deps: Deps,
        options: Options,
        instructions: Instructions,
        presence: Presence<queues::Worker>,
    ) -> Self {
        let Deps { session, journals, task, metrics } = deps;
        let known = instructions.clone();
        let pen = Pen::new(options.name.to_string(), Box::new(move |topic| known.story_config(topic)));
        Self {
            machine: Machine::new(options),
            session,
            journals,
            task,
            metrics,
            instructions,
            epoch: 0,
            presence,
            holdings: Holdings::default(),
            claims: BTreeMap::new(),
            records: Records::default(),
            runs: HashMap::new(),
            events: JoinSet::new(),
            stopping: watch::Sender::new(false),
            pen,
        }
    }

    /// Runs until an order or a failure stops the worker, and everything is released.
    pub async fn run(mut self, mut orders: mpsc::Receiver<Order>) -> Result<Ended, QueueError> {
        let mut state = self.session.state();
        let mut report = interval(REPORT_INTERVAL);
        let mut lag = interval(LAG_INTERVAL);
        let (mut summary, mut summed) = (interval(SUMMARY_INTERVAL), Stats::default());
        let mut has_orders = true;
        self.watch_lease();
        self.listen(self.instructions.listen());
        self.instruct();
        self.assign();
        loop {
            if let Some(ended) = self.machine.finished() {
                happenings::summarise(&mut summed, self.machine.stats());
                self.leave().await;
                return Ok(ended);
            }
            let timer = self.machine.next_timer();
            tokio::select! {
                Some(event) = self.events.join_next() => self.on_event(event),
                changed = state.changed() => match changed {
                    Ok(()) => {
                        let is_connected = *state.borrow_and_update() == State::Connected;
                        self.step(Fact::Connected(is_connected));
                    }
                    Err(_) => return Err(CallError::Closed.into()),
                },
                order = orders.recv(), if has_orders => {
                    // The channel is closed; polling it again would spin.
                    has_orders = order.is_some();
                    self.on_order(order.unwrap_or(Order::Finish));
                }
                () = sleep_until(timer) => self.step(Fact::Timer),
                // An idle worker has nothing to report, and sleeps.
                _ = report.tick(), if self.machine.has_unreported() => self.step(Fact::ReportDue { all: false }),
                // Lag grows without us, most of all where nothing is handled.
                _ = summary.tick() => happenings::summarise(&mut summed, self.machine.stats()),
                _ = lag.tick(), if self.machine.owns_partitions() => self.step(Fact::ReportDue { all: true }),
            }
            // Whatever has ended meanwhile, so that records of one round share a request.
            while let Some(Some(event)) = self.events.join_next().now_or_never() {
                self.on_event(event);
            }
            self.write_records();
        }
    }

    /// Steps the machine, and performs its effects.
    pub fn step(&mut self, fact: Fact) {
        let now = Now { instant: Instant::now(), ticks: Ticks::now() };
        for effect in self.machine.step(fact, now) {
            self.perform(effect);
        }
        if self.machine.is_stopping() && !*self.stopping.borrow() {
            self.stopping.send_replace(true);
        }
    }

    fn on_event(&mut self, event: Result<Event, JoinError>) {
        match event {
            Ok(event) => self.gather(event),
            Err(error) => {
                // Nobody waits for what was aborted; a panic is a bug of ours.
                if let Ok(panic) = error.try_into_panic() {
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }

    fn on_order(&mut self, order: Order) {
        match order {
            Order::Show(answer) => self.show(answer),
            Order::Adjust(adjustment) => self.step(Fact::Adjust(adjustment)),
            Order::Finish => self.step(Fact::Finish),
            Order::Abort => self.step(Fact::Abort),
        }
    }

    /// Sends a snapshot.
    pub fn show(&self, answer: oneshot::Sender<WorkerView>) {
        let _ = answer.send(self.machine.view(Instant::now()));
    }

    /// Reads the assignment. A missing one does not mean "release everything": the leader writes it again, and the locks
    /// keep us safe.
    fn assign(&mut self) {
        let epoch = self.epoch;
        match self.instructions.assigned() {
            Ok(Some(assigned)) => {
                self.epoch = assigned.epoch;
                let (epoch, partitions) = (assigned.epoch, assigned.partitions);
                self.step(Fact::Assigned { epoch, partitions });
            }
            Ok(None) if epoch == 0 => {}
            Ok(None) => error!(epoch, "assignment is missing; keeping the last one"),
            Err(error) => error!(epoch, %error, "assignment cannot be read; keeping the last one"),
        }
    }

    /// Reads pauses and settings.
    fn instruct(&mut self) {
        let instructed = self.instructions.instructed(&self.machine.options().queues);
        self.step(Fact::Instructed(instructed));
    }

    /// Listens beside the loop: to listen anew in each of its rounds takes as long as the rest of a round.
    pub fn listen(&mut self, mut listener: Listener) {
        self.events.spawn(async move {
            let news = listener.next().await;
            Event::Told(news, listener)
        });
    }

    pub fn on_news(&mut self, news: News) {
        match news {
            News::Assigned => self.assign(),
            News::Instructed => self.instruct(),
        }
    }

    /// Watches the lease for all partitions.
    pub fn watch_lease(&mut self) {
        let session = self.session.clone();
        self.events.spawn(async move { Event::Lapsed(claim::wait_until_lapsed(&session).await) });
    }

    async fn leave(self) {
        let Self { session, presence, mut events, pen, .. } = self;
        events.shutdown().await;
        pen.close().await;
        // If ZooKeeper is down, our presence ends with the session.
        let patience = session.term().timeout();
        match tokio::time::timeout(patience, presence.leave()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(error = %whole(&error), "could not remove our presence"),
            Err(_) => {
                warn!("our presence stays until the session ends: ZooKeeper does not answer")
            }
        }
    }
}

fn interval(period: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    interval
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}
