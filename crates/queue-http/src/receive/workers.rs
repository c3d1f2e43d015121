//! The workers behind the boards: one for each queue that somebody receives from, as long as somebody does.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use menagerie_kernel::recipes::settle::Rule;
use menagerie_kernel::recipes::tree_cache::{TreeCache, TreeCacheError};
use menagerie_kernel::{Session, whole};
use menagerie_queues::QueueError;
use menagerie_queues::journals::Journals;
use menagerie_queues::metrics::Metrics;
use menagerie_queues::worker::{self, Begins, Deps, Ended, Order};
use menagerie_znodes::queues::{self, QueueName};
use menagerie_znodes::{Name, NameError};
use prometheus_client::registry::Registry;
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use super::board::{Board, BoardTask};
use crate::reply::Reply;

/// Most messages of one queue that are on its board and out.
const IN_FLIGHT_MAX: usize = 256;

/// Most queues that clients receive from at once: each costs a worker and what it reads ahead.
const QUEUES_MAX: usize = 64;

/// Most of these for one application, 1/2: it leaves the rest to others.
const APPLICATION_QUEUES_MAX: usize = QUEUES_MAX / 2;

/// Most bytes that all workers together read ahead, besides one message of each partition.
const READ_AHEAD_BYTES: usize = 256 << 20;

/// Bound of a worker's orders: it gets one.
const ORDERS_MAX: usize = 1;

/// On stop, how long the workers may take to give their partitions back.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Tells the workers of one process apart.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A board, and the worker behind it.
struct Open {
    board: Arc<Board>,
    worker: Name,
}

type Boards = HashMap<QueueName, Open>;

/// How clients receive messages.
#[derive(Debug, Clone)]
pub struct ReceiveOptions {
    /// Prefix of the workers' names: host and process id, as a rule.
    pub name: String,
    /// Give a queue's partitions back after this time without a receive.
    pub idle: Duration,
    /// When joining and leaving workers count as settled.
    pub settle: Rule,
    /// Metrics of the workers.
    pub metrics: Metrics,
}

impl Default for ReceiveOptions {
    fn default() -> Self {
        Self {
            name: format!("process-{}", std::process::id()),
            idle: Duration::from_secs(60),
            settle: Rule::default(),
            metrics: Metrics::new(&mut Registry::default()),
        }
    }
}

/// The boards of all queues that clients receive from. Clones share them.
#[derive(Clone)]
pub struct Receiving {
    session: Session,
    journals: Journals,
    options: ReceiveOptions,
    /// Tells our receipts from those of other servers, and of those before a restart.
    server: u64,
    pauses: TreeCache,
    boards: Arc<Mutex<Boards>>,
    /// Set when the server stops. Its receivers are the workers.
    stopping: Arc<watch::Sender<bool>>,
}

impl Receiving {
    pub(crate) async fn new(
        session: &Session,
        journals: Journals,
        options: ReceiveOptions,
    ) -> Result<Self, TreeCacheError> {
        let pauses = TreeCache::start(session, &queues::pauses());
        pauses.ready().await?;
        let (session, stopping) = (session.clone(), Arc::new(watch::Sender::new(false)));
        // Without randomness there are no nonces either, so nothing is received.
        let server = getrandom::u64().unwrap_or_default();
        Ok(Self { session, journals, options, server, pauses, boards: Arc::default(), stopping })
    }

    fn boards(&self) -> MutexGuard<'_, Boards> {
        self.boards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this receipt's number is ours.
    pub(crate) fn is_ours(&self, server: u64) -> bool {
        self.server == server
    }

    /// Whether nobody is to take messages of this queue, or our worker is not.
    pub(crate) fn is_paused(&self, queue: &QueueName) -> bool {
        let worker = self.boards().get(queue).map(|open| queues::pause_of_worker(&open.worker));
        let pauses = [Some(queues::pause_of_queue(queue)), worker];
        pauses.iter().flatten().any(|pause| self.pauses.contains(pause))
    }

    /// Counts changes of pauses.
    pub(crate) fn pauses(&self) -> watch::Receiver<u64> {
        self.pauses.subscribe()
    }

    /// The board of a queue, if somebody receives from it.
    pub(crate) fn board(&self, queue: &QueueName) -> Option<Arc<Board>> {
        self.boards().get(queue).map(|open| open.board.clone())
    }

    /// The board of a queue; starts a worker for it if there is none.
    pub(crate) fn open_board(&self, queue: &QueueName) -> Result<Arc<Board>, Reply> {
        let mut boards = self.boards();
        if let Some(open) = boards.get(queue) {
            return Ok(open.board.clone());
        }
        if !has_room(boards.keys(), queue) {
            return Err(Reply::too_many_received());
        }
        if *self.stopping.borrow() {
            return Err(Reply::busy());
        }
        let name = worker_name(&self.options.name, queue);
        let name = name.map_err(|error| Reply::storage_down(&error.to_string()))?;
        let board = Arc::new(Board::new(self.server));
        boards.insert(queue.clone(), Open { board: board.clone(), worker: name.clone() });
        let options = worker::Options {
            concurrency: IN_FLIGHT_MAX,
            read_ahead_bytes: READ_AHEAD_BYTES / QUEUES_MAX,
            settle: self.options.settle,
            // What nobody has received does not run.
            begins: Begins::WhenToldSo,
            ..worker::Options::new(name, vec![queue.clone()])
        };
        let deps = Deps {
            session: self.session.clone(),
            journals: self.journals.clone(),
            task: Arc::new(BoardTask(board.clone())),
            metrics: self.options.metrics.clone(),
        };
        let work = Work {
            queue: queue.clone(),
            board: board.clone(),
            boards: self.boards.clone(),
            idle: self.options.idle,
            stopping: self.stopping.subscribe(),
        };
        tokio::spawn(work.run(deps, options));
        Ok(board)
    }

    /// Stops all workers: their messages are stopped, and their partitions given back.
    pub async fn stop(&self) {
        self.stopping.send_replace(true);
        let _ = tokio::time::timeout(STOP_TIMEOUT, self.stopping.closed()).await;
    }
}

/// The worker behind one board. Ends by itself when the server is gone.
struct Work {
    queue: QueueName,
    board: Arc<Board>,
    boards: Arc<Mutex<Boards>>,
    idle: Duration,
    stopping: watch::Receiver<bool>,
}

impl Work {
    /// Runs until nobody receives any more, or the server stops.
    async fn run(self, deps: Deps, options: worker::Options) {
        let name = options.name.clone();
        let (orders, received) = mpsc::channel(ORDERS_MAX);
        self.watch(name, orders, worker::run(deps, options, received)).await;
    }

    /// Sees to a worker that runs. If it panics, we are dropped.
    async fn watch(
        self,
        name: Name,
        orders: mpsc::Sender<Order>,
        work: impl Future<Output = Result<Ended, QueueError>>,
    ) {
        let mut stopping = self.stopping.clone();
        let queue = &self.queue;
        tokio::pin!(work);
        let order = tokio::select! {
            ended = &mut work => {
                self.close();
                if let Err(error) = ended {
                    warn!(%queue, worker = %name, error = %whole(&error), "messages cannot be received for now");
                }
                return;
            }
            () = self.board.close_when_idle(self.idle) => {
                info!(%queue, worker = %name, "nobody receives any more; partitions are given back");
                Order::Finish
            }
            _ = stopping.wait_for(|stopping| *stopping) => Order::Abort,
        };
        self.close();
        // Only a worker that has ended does not take it.
        let _ = orders.send(order).await;
        if let Err(error) = work.await {
            warn!(%queue, worker = %name, error = %whole(&error), "partitions were not given back");
        }
    }

    /// Makes room for another worker.
    fn close(&self) {
        let mut boards = self.boards.lock().unwrap_or_else(PoisonError::into_inner);
        boards.retain(|_, open| !Arc::ptr_eq(&open.board, &self.board));
        self.board.close();
    }
}

impl Drop for Work {
    /// However it ends: clients would wait for ever at a board without a worker.
    fn drop(&mut self) {
        self.close();
    }
}

/// Whether clients may receive from one more queue, beside these.
fn has_room<'a>(open: impl Iterator<Item = &'a QueueName>, queue: &QueueName) -> bool {
    let (mut all, mut own) = (0, 0);
    for other in open {
        all += 1;
        own += usize::from(other.application() == queue.application());
    }
    all < QUEUES_MAX && own < APPLICATION_QUEUES_MAX
}

/// Unique in the fleet, and tells what it is. A queue's name may be too long to be part of it.
fn worker_name(process: &str, queue: &QueueName) -> Result<Name, NameError> {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let short = format!("{process}-http-{number}");
    Name::new(format!("{short}-{queue}")).or_else(|_| Name::new(short))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_application_leaves_room_to_others() {
        let queue = |application: &str, number: usize| -> QueueName {
            format!("{application}:q{number}").parse().unwrap()
        };
        let mut open: Vec<_> = (0..31).map(|number| queue("notes", number)).collect();
        assert!(has_room(open.iter(), &queue("notes", 99)));
        open.push(queue("notes", 31));
        assert!(!has_room(open.iter(), &queue("notes", 99)));
        assert!(has_room(open.iter(), &queue("other", 99)));
        open.extend((0..16).flat_map(|number| [queue("a", number), queue("b", number)]));
        assert!(!has_room(open.iter(), &queue("other", 99)), "all places are taken");
    }

    #[tokio::test]
    async fn the_board_of_a_worker_that_panics_makes_room_for_another() {
        let (queue, board): (QueueName, _) = ("notes:mail".parse().unwrap(), Arc::new(Board::new(1)));
        let name = Name::new("w").unwrap();
        let open = Open { board: board.clone(), worker: name.clone() };
        let boards = Arc::new(Mutex::new(HashMap::from([(queue.clone(), open)])));
        let stopping = watch::Sender::new(false);
        let idle = Duration::from_secs(3_600);
        let work = Work {
            queue,
            board: board.clone(),
            boards: boards.clone(),
            idle,
            stopping: stopping.subscribe(),
        };
        let (orders, _received) = mpsc::channel(ORDERS_MAX);
        let ended = tokio::spawn(work.watch(name, orders, async { panic!("a bug") })).await;
        assert!(ended.unwrap_err().is_panic());
        assert!(boards.lock().unwrap().is_empty());
        assert!(board.enter().is_none(), "it is closed");
    }
}
