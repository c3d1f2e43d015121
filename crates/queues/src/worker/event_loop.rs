//! The worker's loop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use menagerie_kernel::recipes::presence::Presence;
use menagerie_kernel::session::State;
use menagerie_kernel::{CallError, Session, whole};
use menagerie_znodes::queues::{self, PartitionName, QueueName};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tracing::{info, warn};

use super::effects::Event;
use super::lane::{AbortOnDrop, Lane, LostLane};
use super::records::Records;
use super::report::{self, Position, Report};
use super::{Deps, Ended, Options, Order, Stats};
use crate::coordination::claim;
use crate::coordination::instructions::{AssignedPartitions, Instructions};
use crate::core::turn::Turn;
use crate::error::QueueError;
use crate::journals::Journals;
use crate::metrics::Metrics;
use crate::task::Task;

/// How often to report positions to the journals, which only display them.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// How often to ask the journals for the lag of all partitions, and to trim.
const LAG_INTERVAL: Duration = Duration::from_secs(10);

/// Whether the worker is running or stopping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    /// Finishes what runs, then ends.
    Stopping(Ended),
}

/// All state of a worker.
pub(super) struct EventLoop {
    pub session: Session,
    pub journals: Journals,
    pub task: Arc<dyn Task>,
    pub metrics: Metrics,
    pub options: Options,
    pub instructions: Instructions,
    pub assigned: AssignedPartitions,
    pub presence: Presence<queues::Worker>,
    pub published: queues::Worker,
    /// `published` may be out of date.
    pub presence_dirty: bool,
    pub lanes: BTreeMap<PartitionName, Lane>,
    /// Partitions that we lost, and may own again before anybody else does.
    pub lost_lanes: BTreeMap<PartitionName, LostLane>,
    /// Claims in progress.
    pub claims: BTreeMap<PartitionName, AbortOnDrop>,
    pub turn: Turn,
    /// Until then, queues wait for the first reads of those before them. `None` before the first assignment.
    pub first_read_until: Option<Instant>,
    pub timers: BTreeSet<(Instant, PartitionName)>,
    /// Partitions to advance.
    pub dirty: BTreeSet<PartitionName>,
    pub events: JoinSet<Event>,
    pub records: Records,
    /// Releases in flight.
    pub releasing: usize,
    /// A report to the journals is in flight.
    pub is_reporting: bool,
    /// Some position has not been reported yet.
    pub has_unreported: bool,
    pub is_connected: bool,
    pub phase: Phase,
    /// Tells background work that the worker is stopping.
    pub stopping: watch::Sender<bool>,
    pub stats: Stats,
}

impl EventLoop {
    pub fn new(
        deps: Deps,
        options: Options,
        instructions: Instructions,
        presence: Presence<queues::Worker>,
    ) -> Self {
        let Deps { session, journals, task, metrics } = deps;
        let turn = Turn::new(&options.queues, options.policy, options.concurrency);
        Self {
            session,
            journals,
            task,
            metrics,
            options,
            instructions,
            assigned: AssignedPartitions::default(),
            presence,
            published: queues::Worker::default(),
            presence_dirty: false,
            lanes: BTreeMap::new(),
            lost_lanes: BTreeMap::new(),
            claims: BTreeMap::new(),
            turn,
            first_read_until: None,
            timers: BTreeSet::new(),
            dirty: BTreeSet::new(),
            events: JoinSet::new(),
            records: Records::default(),
            releasing: 0,
            is_reporting: false,
            has_unreported: false,
            is_connected: true,
            phase: Phase::Running,
            stopping: watch::Sender::new(false),
            stats: Stats::default(),
        }
    }

    /// Runs until an order or a failure stops the worker, and everything is released.
    pub async fn run(mut self, mut orders: mpsc::Receiver<Order>) -> Result<Ended, QueueError> {
        let (mut assignments, mut pauses) = (self.instructions.assignments(), self.instructions.pauses());
        let mut state = self.session.state();
        let mut report = tokio::time::interval(REPORT_INTERVAL);
        report.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut lag = tokio::time::interval(LAG_INTERVAL);
        lag.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut has_orders = true;
        self.presence_dirty = true;
        self.watch_lease();
        self.apply_assignment();
        loop {
            self.advance();
            if let Some(ended) = self.finished() {
                self.leave().await;
                return Ok(ended);
            }
            let first_read_until = self.first_read_until.filter(|_| self.turn.awaits_first_reads());
            let timer = self.timers.first().map(|(due, _)| *due).into_iter().chain(first_read_until).min();
            tokio::select! {
                Some(event) = self.events.join_next() => self.on_event(event),
                Ok(()) = assignments.changed() => self.apply_assignment(),
                Ok(()) = pauses.changed() => {
                    self.presence_dirty = true;
                    self.mark_all_dirty();
                }
                changed = state.changed() => match changed {
                    Ok(()) => {
                        self.is_connected = *state.borrow_and_update() == State::Connected;
                        self.mark_all_dirty();
                    }
                    Err(_) => return Err(CallError::Closed.into()),
                },
                order = orders.recv(), if has_orders => {
                    // The channel is closed; polling it again would spin.
                    has_orders = order.is_some();
                    self.on_order(order.unwrap_or(Order::Finish));
                }
                () = sleep_until(timer) => self.on_timer(),
                // An idle worker has nothing to report, and sleeps.
                _ = report.tick(), if self.has_unreported => self.report(false),
                // Lag grows without us, most of all where nothing is handled.
                _ = lag.tick(), if !self.lanes.is_empty() => self.report(true),
            }
            // One round for all events that are ready.
            while let Some(Some(event)) = self.events.join_next().now_or_never() {
                self.on_event(event);
            }
        }
    }

    fn on_event(&mut self, event: Result<Event, JoinError>) {
        match event {
            Ok(event) => self.handle(event),
            Err(error) => {
                // Nobody waits for what was aborted; a panic is a bug of ours.
                if let Ok(panic) = error.try_into_panic() {
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }

    pub fn on_order(&mut self, order: Order) {
        match order {
            Order::Show(answer) => drop(answer.send(self.view())),
            Order::Adjust(adjustment) => {
                self.options.adjust(adjustment);
                self.turn.adjust(self.options.policy, self.options.concurrency);
                self.mark_all_dirty();
            }
            Order::Finish => self.stop(Ended::AskedToStop),
            Order::Abort => {
                self.stop(Ended::AskedToStop);
                for lane in self.lanes.values_mut() {
                    lane.stop.send_replace(true);
                }
            }
        }
    }

    /// Begins no more messages and claims no more partitions.
    pub fn stop(&mut self, reason: Ended) {
        if self.phase == Phase::Running {
            info!(worker = %self.options.name, reason = reason.label(), "worker stopping");
            self.phase = Phase::Stopping(reason);
            self.stopping.send_replace(true);
        }
        self.claims.clear();
        for lane in self.lanes.values_mut() {
            lane.ledger.close();
        }
        self.mark_all_dirty();
    }

    fn finished(&self) -> Option<Ended> {
        match &self.phase {
            Phase::Stopping(ended) if self.lanes.is_empty() && self.releasing == 0 => Some(ended.clone()),
            Phase::Stopping(_) | Phase::Running => None,
        }
    }

    async fn leave(self) {
        let Self { session, presence, mut events, .. } = self;
        events.shutdown().await;
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

    /// Watches the lease for all partitions.
    pub fn watch_lease(&mut self) {
        let session = self.session.clone();
        self.events.spawn(async move { Event::Lapsed(claim::wait_until_lapsed(&session).await) });
    }

    pub fn mark_all_dirty(&mut self) {
        self.dirty.extend(self.lanes.keys().cloned());
    }

    /// Reports positions to the journals and asks for lags: of all partitions, or only of those that have advanced.
    /// With all of them it also trims handled messages.
    fn report(&mut self, all: bool) {
        if std::mem::replace(&mut self.is_reporting, true) {
            return;
        }
        self.has_unreported = false;
        let at = |lane: &Lane| {
            let position = lane.ledger.confirmed();
            // With at-most-once delivery, a recorded message may still run.
            let handled = position.min(lane.ledger.done());
            let (partition, fenced) = (lane.partition.clone(), lane.fenced.clone());
            Position { partition, fenced, position, handled, is_reported: lane.reported >= position }
        };
        let lanes = self.lanes.values().filter(|lane| !lane.is_lost);
        let positions = lanes.map(at).filter(|at| all || !at.is_reported).collect();
        // While disconnected we may miss a longer retention, so drop nothing.
        let (metrics, instructions, drops) =
            (self.metrics.clone(), self.instructions.clone(), all && self.is_connected);
        let keep = move |queue: &QueueName| instructions.keep(queue).filter(|_| drops);
        self.events.spawn(async move { Event::Reported(report::report(positions, keep, &metrics).await) });
    }

    /// Applies a report. Positions that a journal did not take are reported again, unless it knows another owner.
    pub fn on_reported(&mut self, Report { known, lost, lags }: Report) {
        self.is_reporting = false;
        for (partition, fence) in lost {
            let lane =
                self.lanes.get_mut(&partition).filter(|lane| lane.fenced.fence == fence && !lane.is_lost);
            if let Some(lane) = lane {
                warn!(%partition, %fence, "the journal knows another owner: partition lost");
                lane.lose();
                self.dirty.insert(partition);
            }
        }
        // The next owner reports the lag of what we have released.
        for (partition, lag) in lags.iter().filter(|(partition, _)| self.lanes.contains_key(partition)) {
            self.metrics.lag(partition, *lag);
        }
        for (partition, position) in known {
            if let Some(lane) = self.lanes.get_mut(&partition) {
                lane.reported = lane.reported.max(position);
            }
        }
        self.has_unreported |=
            self.lanes.values().any(|lane| !lane.is_lost && lane.reported < lane.ledger.confirmed());
    }

    /// Marks the partitions dirty whose timers have expired.
    fn on_timer(&mut self) {
        let now = Instant::now();
        while let Some((due, partition)) = self.timers.first().cloned().filter(|(due, _)| *due <= now) {
            self.timers.remove(&(due, partition.clone()));
            if let Some(lane) = self.lanes.get_mut(&partition) {
                lane.timer = None;
            }
            self.dirty.insert(partition);
        }
    }
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}
