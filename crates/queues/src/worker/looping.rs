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
use super::lane::{Begun, Lane, Remains};
use super::records::Records;
use super::report::{self, Position, Report};
use super::{Ended, Means, Options, Order, Stats};
use crate::coordination::claim;
use crate::coordination::orders::{Ordered, Orders};
use crate::core::turn::Turn;
use crate::error::QueueError;
use crate::journals::Journals;
use crate::metrics::Metrics;
use crate::task::Task;

/// How often journals are told how far we have come: it is only for who looks.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// How often they are asked how much waits, also where nothing is done.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Whether it goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Course {
    Work,
    /// What runs is finished first.
    End(Ended),
}

/// Everything that a worker has.
pub(super) struct Loop {
    pub session: Session,
    pub journals: Journals,
    pub task: Arc<dyn Task>,
    pub metrics: Metrics,
    pub options: Options,
    pub orders: Orders,
    pub ordered: Ordered,
    pub presence: Presence<queues::Worker>,
    pub said: queues::Worker,
    /// What is said may not be true any more.
    pub unsaid: bool,
    pub lanes: BTreeMap<PartitionName, Lane>,
    /// Partitions that were ours, and may be again before anybody else has them.
    pub lost: BTreeMap<PartitionName, Remains>,
    /// Partitions that we wait for.
    pub claims: BTreeMap<PartitionName, Begun>,
    pub turn: Turn,
    /// Until then the first queue is waited for. Nothing was assigned before.
    pub first_look: Option<Instant>,
    pub timers: BTreeSet<(Instant, PartitionName)>,
    /// Partitions that may be able to go on.
    pub touched: BTreeSet<PartitionName>,
    pub events: JoinSet<Event>,
    pub records: Records,
    /// Partitions on their way back.
    pub releasing: usize,
    /// A report to the journals is on its way.
    pub reporting: bool,
    /// There is something to report.
    pub unreported: bool,
    pub connected: bool,
    pub course: Course,
    /// Tells what waits that the worker ends.
    pub ending: watch::Sender<bool>,
    pub stats: Stats,
}

impl Loop {
    pub fn new(means: Means, options: Options, orders: Orders, presence: Presence<queues::Worker>) -> Self {
        let Means { session, journals, task, metrics } = means;
        let turn = Turn::new(&options.queues, options.policy, options.concurrency);
        Self {
            session,
            journals,
            task,
            metrics,
            options,
            orders,
            ordered: Ordered::default(),
            presence,
            said: queues::Worker::default(),
            unsaid: false,
            lanes: BTreeMap::new(),
            lost: BTreeMap::new(),
            claims: BTreeMap::new(),
            turn,
            first_look: None,
            timers: BTreeSet::new(),
            touched: BTreeSet::new(),
            events: JoinSet::new(),
            records: Records::default(),
            releasing: 0,
            reporting: false,
            unreported: false,
            connected: true,
            course: Course::Work,
            ending: watch::Sender::new(false),
            stats: Stats::default(),
        }
    }

    /// Until it is told to end, and has.
    pub async fn run(mut self, mut told: mpsc::Receiver<Order>) -> Result<Ended, QueueError> {
        let (mut assigned, mut paused) = (self.orders.assignments(), self.orders.pauses());
        let mut state = self.session.state();
        let mut report = tokio::time::interval(REPORT_INTERVAL);
        report.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut look = tokio::time::interval(LOOK_INTERVAL);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut told_more = true;
        self.unsaid = true;
        self.watch_lease();
        self.obey();
        loop {
            self.advance();
            if let Some(ended) = self.ended() {
                self.leave().await;
                return Ok(ended);
            }
            let first_look = self.first_look.filter(|_| self.turn.expects());
            let timer = self.timers.first().map(|(due, _)| *due).into_iter().chain(first_look).min();
            tokio::select! {
                Some(event) = self.events.join_next() => self.take_note(event),
                Ok(()) = assigned.changed() => self.obey(),
                Ok(()) = paused.changed() => {
                    self.unsaid = true;
                    self.touch_all();
                }
                changed = state.changed() => match changed {
                    Ok(()) => {
                        self.connected = *state.borrow_and_update() == State::Connected;
                        self.touch_all();
                    }
                    Err(_) => return Err(CallError::Closed.into()),
                },
                order = told.recv(), if told_more => {
                    // Nobody is left who could say more, and asking again would be answered at once, for ever.
                    told_more = order.is_some();
                    self.hear(order.unwrap_or(Order::Finish));
                }
                () = sleep_until(timer) => self.ring(),
                // An idle worker sleeps.
                _ = report.tick(), if self.unreported => self.report(false),
                // What waits grows without us, most of all where nothing goes on.
                _ = look.tick(), if !self.lanes.is_empty() => self.report(true),
            }
            // One round for all that has happened by now.
            while let Some(Some(event)) = self.events.join_next().now_or_never() {
                self.take_note(event);
            }
        }
    }

    fn take_note(&mut self, event: Result<Event, JoinError>) {
        match event {
            Ok(event) => self.react(event),
            Err(error) => {
                // What was aborted is not awaited by anybody; a panic is a bug of ours.
                if let Ok(panic) = error.try_into_panic() {
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }

    pub fn hear(&mut self, order: Order) {
        match order {
            Order::Show(answer) => drop(answer.send(self.view())),
            Order::Adjust(adjustment) => {
                self.options.adjust(adjustment);
                self.turn.adjust(self.options.policy, self.options.concurrency);
                self.touch_all();
            }
            Order::Finish => self.end(Ended::Told),
            Order::Abort => {
                self.end(Ended::Told);
                for lane in self.lanes.values_mut() {
                    lane.stop.send_replace(true);
                }
            }
        }
    }

    /// No other message begins, and nothing more is taken.
    pub fn end(&mut self, why: Ended) {
        if self.course == Course::Work {
            info!(worker = %self.options.name, ?why, "worker ends");
            self.course = Course::End(why);
            self.ending.send_replace(true);
        }
        self.claims.clear();
        for lane in self.lanes.values_mut() {
            lane.ledger.close();
        }
        self.touch_all();
    }

    fn ended(&self) -> Option<Ended> {
        match &self.course {
            Course::End(ended) if self.lanes.is_empty() && self.releasing == 0 => Some(ended.clone()),
            Course::End(_) | Course::Work => None,
        }
    }

    async fn leave(self) {
        let Self { session, presence, mut events, .. } = self;
        events.shutdown().await;
        // If ZooKeeper is away, our name goes with the session.
        let patience = session.term().timeout();
        match tokio::time::timeout(patience, presence.leave()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(error = %whole(&error), "could not take our name off the list"),
            Err(_) => {
                warn!("our name stays on the list until the session is over: ZooKeeper does not answer")
            }
        }
    }

    /// Looks at the lease clock for all partitions.
    pub fn watch_lease(&mut self) {
        let session = self.session.clone();
        self.events.spawn(async move { Event::Lapsed(claim::lapsed(&session).await) });
    }

    pub fn touch_all(&mut self) {
        self.touched.extend(self.lanes.keys().cloned());
    }

    /// Tells the journals how far we have come, and asks what waits: for partitions that have come further, or for all; then what
    /// was kept for long enough goes, too.
    fn report(&mut self, all: bool) {
        if std::mem::replace(&mut self.reporting, true) {
            return;
        }
        self.unreported = false;
        let at = |lane: &Lane| {
            let position = lane.ledger.confirmed();
            // What was recorded before it began may still run.
            let handled = position.min(lane.ledger.done());
            let (partition, books) = (lane.partition.clone(), lane.books.clone());
            Position { partition, books, position, handled, told: lane.reported >= position }
        };
        let lanes = self.lanes.values().filter(|lane| !lane.lost);
        let positions = lanes.map(at).filter(|at| all || !at.told).collect();
        // While ZooKeeper is away, somebody may have said that it is to be kept for longer.
        let (metrics, orders, drops) = (self.metrics.clone(), self.orders.clone(), all && self.connected);
        let keep = move |queue: &QueueName| orders.keep(queue).filter(|_| drops);
        self.events.spawn(async move { Event::Reported(report::report(positions, keep, &metrics).await) });
    }

    /// Journals know so much. What they did not take is said again, unless they know another owner.
    pub fn reported(&mut self, Report { known, lost, lags }: Report) {
        self.reporting = false;
        for (partition, fence) in lost {
            let lane = self.lanes.get_mut(&partition).filter(|lane| lane.books.fence == fence && !lane.lost);
            if let Some(lane) = lane {
                warn!(%partition, %fence, "the journal knows another owner: partition lost");
                lane.lose();
                self.touched.insert(partition);
            }
        }
        // What was given back meanwhile is another's to tell.
        for (partition, lag) in lags.iter().filter(|(partition, _)| self.lanes.contains_key(partition)) {
            self.metrics.lag(partition, *lag);
        }
        for (partition, position) in known {
            if let Some(lane) = self.lanes.get_mut(&partition) {
                lane.reported = lane.reported.max(position);
            }
        }
        self.unreported |=
            self.lanes.values().any(|lane| !lane.lost && lane.reported < lane.ledger.confirmed());
    }

    /// Time has come for some.
    fn ring(&mut self) {
        let now = Instant::now();
        while let Some((due, partition)) = self.timers.first().cloned().filter(|(due, _)| *due <= now) {
            self.timers.remove(&(due, partition.clone()));
            if let Some(lane) = self.lanes.get_mut(&partition) {
                lane.timer = None;
            }
            self.touched.insert(partition);
        }
    }
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}
