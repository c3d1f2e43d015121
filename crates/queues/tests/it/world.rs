//! Fixtures: a root of its own, a journal, queues, workers, and a log of what they handled.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use menagerie_journal::{Message, MessageId, NewMessage, PartitionId, Read, Store, Topic};
use menagerie_kernel::Session;
use menagerie_kernel::recipes::settle::Rule;
use menagerie_queues::Journals;
use menagerie_queues::Origin;
use menagerie_queues::admin::{self, Destination, Putter};
use menagerie_queues::task::{Outcome, Task, Work};
use menagerie_queues::worker::{self, Deps, Ended, Options, Order, WorkerView};
use menagerie_queues::{QueueError, coordination::cursor};
pub use menagerie_testkit::{LONG, SHORT};
use menagerie_testkit::{LocalJournal, eventually_async};
use menagerie_znodes::queues::{self, Assignment, Cursor, PartitionName, QueueName};
use menagerie_znodes::{Name, Payload as _};
use prometheus_client::registry::Registry;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// A short time-out, for tests that do not depend on it.
pub const QUICK: Rule = Rule { quiet: Duration::from_millis(100), cap: Duration::from_secs(1) };
/// The journal of all queues.
pub const JOURNAL: &str = "local";

/// A world with a journal in this process.
pub struct World {
    world: menagerie_testkit::World,
    pub journal: LocalJournal,
}

impl Deref for World {
    type Target = menagerie_testkit::World;

    fn deref(&self) -> &Self::Target {
        &self.world
    }
}

impl World {
    pub fn new(name: &str) -> Self {
        Self { world: menagerie_testkit::World::new(name), journal: LocalJournal::new() }
    }

    pub fn store(&self) -> &Store {
        self.journal.store()
    }

    /// The journal, called directly within this process.
    pub fn journals(&self) -> Journals {
        Journals::from([(JOURNAL.to_owned(), Arc::new(self.store().clone()) as _)])
    }

    pub async fn create(&self, session: &Session, queue: &str, partitions: u16) {
        admin::create(session, &self.journals(), &queue.parse().unwrap(), partitions, JOURNAL).await.unwrap();
    }

    pub async fn putter(&self, session: &Session, queue: &str) -> Putter {
        let queue = queue.parse().unwrap();
        Putter::open(session, &self.journals(), &queue, 0, Origin::library()).await.unwrap()
    }

    /// Puts numbered messages, round robin.
    pub async fn put(&self, session: &Session, queue: &str, numbers: std::ops::Range<u32>) {
        let messages =
            numbers.map(|number| (Destination::Any, NewMessage::new(number.to_string()))).collect();
        self.putter(session, queue).await.put(messages).await.unwrap();
    }

    pub async fn put_to(&self, session: &Session, partition: &str, bodies: &[&str]) {
        let partition: PartitionName = partition.parse().unwrap();
        let place = Destination::Partition(partition.number());
        let message = |body: &&str| (place.clone(), NewMessage::new(body.to_string()));
        let mut putter = self.putter(session, &partition.queue().to_string()).await;
        putter.put(bodies.iter().map(message).collect()).await.unwrap();
    }

    /// All messages of a partition.
    pub async fn messages(&self, topic: &str, partition: u32) -> Vec<Message> {
        use menagerie_journal::Journal as _;
        let partition = PartitionId::new(Topic::new(topic).unwrap(), partition);
        self.store().read(Read::after(partition, MessageId::ZERO)).await.unwrap().messages
    }

    /// Waits until everything in a queue is recorded as processed.
    pub async fn drained(&self, session: &Session, queue: &str, partitions: u16) {
        for number in 1..=partitions {
            let last = self.messages(queue, u32::from(number)).await.last().map(|message| message.id);
            let name: QueueName = queue.parse().unwrap();
            let partition = name.partition(number);
            let what = format!("{partition} is processed");
            eventually_async(&what, async || {
                let stored = cursor_of(session, &partition).await;
                (cursor::to_message(stored) >= last.unwrap_or(MessageId::ZERO)).then_some(())
            })
            .await;
        }
    }

    pub fn start(&self, session: &Session, options: Options, task: impl Task) -> Running {
        self.start_with(session, options, task, self.journals())
    }

    pub fn start_with(
        &self,
        session: &Session,
        options: Options,
        task: impl Task,
        journals: Journals,
    ) -> Running {
        let (orders, received) = mpsc::channel(8);
        let (session, name) = (session.clone(), options.name.clone());
        let registry = Arc::new(Mutex::new(Registry::default()));
        let kept = registry.clone();
        let run = {
            let session = session.clone();
            let mut registry = Registry::default();
            let metrics = menagerie_queues::metrics::Metrics::new(&mut registry);
            *kept.lock().unwrap() = registry;
            let deps = Deps { session, journals, task: Arc::new(task), metrics };
            worker::run(deps, options, received)
        };
        Running { name, session, orders, registry, run: tokio::spawn(run) }
    }
}

pub async fn cursor_of(session: &Session, partition: &PartitionName) -> Cursor {
    let term = session.term();
    let znode = queues::cursor(partition);
    term.sync(znode.path()).await.unwrap();
    term.read(&znode).await.unwrap().unwrap().value
}

/// Sets a cursor as the partition's owner would.
pub async fn set_cursor(session: &Session, partition: &PartitionName, position: MessageId) {
    let cursor = cursor::of_message(position).encode();
    session.term().set(queues::cursor(partition).path(), &cursor, None).await.unwrap();
}

pub async fn assignment(session: &Session) -> Assignment {
    let term = session.term();
    let path = queues::assignment();
    term.sync(path.path()).await.unwrap();
    match term.get(path.path()).await {
        Ok((data, _)) => Assignment::decode(&data).unwrap(),
        Err(_) => Assignment::default(),
    }
}

pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A worker that settles quickly.
pub fn options(worker: &str, served: &[&str]) -> Options {
    let served = served.iter().map(|queue| queue.parse().unwrap()).collect();
    let mut options = Options::new(name(worker), served);
    options.settle = QUICK;
    options.failure.backoff = Some(Duration::from_millis(10));
    options
}

/// A worker running in this process.
pub struct Running {
    pub name: Name,
    pub session: Session,
    pub orders: mpsc::Sender<Order>,
    registry: Arc<Mutex<Registry>>,
    pub run: JoinHandle<Result<Ended, QueueError>>,
}

impl Running {
    pub async fn view(&self) -> WorkerView {
        let (answer, view) = oneshot::channel();
        self.orders.send(Order::Show(answer)).await.unwrap();
        view.await.unwrap()
    }

    /// Its metrics as served at `/metrics`.
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry.lock().unwrap()).unwrap();
        text
    }

    pub async fn finish(self) -> Ended {
        self.orders.send(Order::Finish).await.unwrap();
        self.run.await.unwrap().unwrap()
    }

    pub async fn abort(self) -> Ended {
        self.orders.send(Order::Abort).await.unwrap();
        self.run.await.unwrap().unwrap()
    }

    /// Ends it as if its process were killed and the server had noticed at once.
    pub async fn kill(self) {
        self.run.abort();
        let _ = self.run.await;
        self.session.close().await;
    }

    /// Waits until it owns this many partitions.
    pub async fn has(&self, partitions: usize) -> WorkerView {
        eventually_async(&format!("{} has {partitions} partitions", self.name), async || {
            let view = self.view().await;
            (view.partitions.len() == partitions && view.waiting_for.is_empty()).then_some(view)
        })
        .await
    }
}

/// One run of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handled {
    pub worker: String,
    pub partition: String,
    pub body: String,
    pub attempt: u32,
    pub began: Instant,
    pub ended: Option<Instant>,
}

/// All runs of a test, in order. Panics at once if two run concurrently in one partition.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    handled: Vec<Handled>,
    running: BTreeMap<String, (String, menagerie_kernel::Fence)>,
    fences: BTreeMap<String, menagerie_kernel::Fence>,
}

/// A running message; dropping it logs its end, however that happens.
pub struct Entry {
    log: Log,
    place: usize,
    partition: String,
}

impl Log {
    pub fn begin(&self, worker: &str, work: &Work) -> Entry {
        let mut inner = self.0.lock().unwrap();
        let partition = work.partition.to_string();
        let me = (worker.to_owned(), work.fence);
        if let Some(other) = inner.running.insert(partition.clone(), me.clone()) {
            panic!("{partition} is handled by {other:?} and by {me:?}");
        }
        let last = inner.fences.insert(partition.clone(), work.fence);
        assert!(last.is_none_or(|last| last <= work.fence), "{partition}: a fence has gone back");
        let body =
            work.messages.iter().map(|message| String::from_utf8_lossy(&message.body)).collect::<Vec<_>>();
        inner.handled.push(Handled {
            worker: worker.to_owned(),
            partition: partition.clone(),
            body: body.join(","),
            attempt: work.attempt_of(0),
            began: Instant::now(),
            ended: None,
        });
        Entry { log: self.clone(), place: inner.handled.len() - 1, partition }
    }

    pub fn handled(&self) -> Vec<Handled> {
        self.0.lock().unwrap().handled.clone()
    }

    pub fn bodies(&self) -> Vec<String> {
        self.handled().into_iter().map(|handled| handled.body).collect()
    }

    /// A task that logs its messages and succeeds.
    pub fn task(&self, worker: &str) -> impl Task {
        self.task_with(worker, |_| Outcome::Done)
    }

    /// A task that logs its messages and returns these outcomes.
    pub fn task_with<F>(&self, worker: &str, outcome: F) -> impl Task + use<F>
    where
        F: Fn(&str) -> Outcome + Send + Sync + 'static,
    {
        let (log, worker) = (self.clone(), worker.to_owned());
        let outcome = Arc::new(outcome);
        move |work: Work| {
            let entry = log.begin(&worker, &work);
            let outcome = outcome.clone();
            async move {
                let body = |message: &Message| outcome(&String::from_utf8_lossy(&message.body));
                let outcomes = work.messages.iter().map(body).collect();
                drop(entry);
                outcomes
            }
        }
    }

    /// A task that runs until stopped; for ever unless `obedient`.
    pub fn endless(&self, worker: &str, obedient: bool) -> impl Task + use<> {
        let (log, worker) = (self.clone(), worker.to_owned());
        move |work: Work| {
            let entry = log.begin(&worker, &work);
            async move {
                let _entry = entry;
                if !obedient {
                    std::future::pending::<()>().await;
                }
                work.lease.stopped().await;
                vec![Outcome::Stopped]
            }
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut inner = self.log.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        inner.running.remove(&self.partition);
        inner.handled[self.place].ended = Some(Instant::now());
    }
}
