//! What happens to messages on a board, without a worker.

use bytes::Bytes;
use menagerie_journal::MessageId;
use menagerie_kernel::{Fence, Moment};
use menagerie_queues::task::Failed;
use menagerie_testkit::eventually_async;

use super::*;

const LONG: Duration = Duration::from_secs(3600);

/// A worker's side: what it can do to its tasks.
struct Worker {
    valid_until: watch::Sender<Moment>,
    timeout: watch::Sender<Duration>,
    stop: watch::Sender<bool>,
}

impl Worker {
    fn new() -> Self {
        let (valid_until, timeout) = (watch::Sender::new(Moment::after(LONG)), watch::Sender::new(LONG));
        Self { valid_until, timeout, stop: watch::Sender::new(false) }
    }

    fn work(&self, body: &'static str) -> Work {
        let message = Message {
            id: MessageId(Ticks::now()),
            meta: Bytes::new(),
            body: Bytes::from_static(body.as_bytes()),
            expires: None,
        };
        Work {
            partition: "mail-1".parse().unwrap(),
            messages: vec![message],
            attempts: vec![1],
            time_limit: None,
            fence: Fence::new(1, 2),
            lease: Lease::new(self.valid_until.subscribe(), self.timeout.subscribe(), self.stop.subscribe()),
            begun: Begun::default(),
        }
    }

    /// Puts a message on the board, as the worker's loop does, and waits until it is there.
    async fn begin(
        &self,
        board: &Arc<Board>,
        body: &'static str,
        nonce: u64,
    ) -> tokio::task::JoinHandle<Outcome> {
        let (on, work) = (board.clone(), self.work(body));
        let running = tokio::spawn(async move { on.offer(work, nonce).await });
        board.wait_for_message().await;
        running
    }
}

fn board() -> Arc<Board> {
    Arc::new(Board::new(7))
}

fn take_one(board: &Board, visible_after: Duration) -> Delivery {
    board.take(1, visible_after, |_| true).pop().expect("there is one")
}

#[tokio::test]
async fn a_receipt_counts_once() {
    let (board, worker) = (board(), Worker::new());
    let running = worker.begin(&board, "a", 1).await;
    let taken = take_one(&board, LONG);
    assert_eq!((&taken.message.body[..], taken.attempt, taken.receipt.server), (&b"a"[..], 1, 7));
    assert!(board.take(9, LONG, |_| true).is_empty(), "nobody else gets it");
    assert_eq!(board.extend(&taken.receipt, LONG), Ok(()));
    assert_eq!(board.answer(&taken.receipt, Outcome::Done), Ok(()));
    assert_eq!(running.await.unwrap(), Outcome::Done);
    assert_eq!(board.answer(&taken.receipt, Outcome::Done), Err(Some(Ended::Answered)));
    assert_eq!(board.extend(&taken.receipt, LONG), Err(Some(Ended::Answered)));
}

#[tokio::test]
async fn higher_priorities_are_received_first_and_then_older_messages() {
    let (board, worker) = (board(), Worker::new());
    let mut running = Vec::new();
    // In the order in which a busy machine happened to run their tasks.
    for (nonce, position, priority) in [(1, 30, 0), (2, 10, 0), (3, 40, 9), (4, 20, -9)] {
        let mut work = worker.work("");
        work.messages[0].id = MessageId(Ticks(position));
        work.messages[0].meta = Meta { priority, ..Meta::default() }.encode();
        let on = board.clone();
        running.push(tokio::spawn(async move { on.offer(work, nonce).await }));
    }
    eventually_async("all are there", async || (board.lock().waiting.len() == 4).then_some(())).await;
    let mut positions = Vec::new();
    while let Some(taken) = board.take(1, LONG, |_| true).pop() {
        positions.push(taken.message.id.0.0);
    }
    assert_eq!(positions, [40, 10, 30, 20]);
}

#[tokio::test]
async fn a_receipt_is_for_one_delivery_under_one_fence() {
    let (board, worker) = (board(), Worker::new());
    let running = worker.begin(&board, "a", 1).await;
    let on_board = Receipt { nonce: 1, ..take_one(&board, LONG).receipt };
    for wrong in [
        Receipt { fence: Fence::new(1, 3), ..on_board },
        Receipt { partition: 2, ..on_board },
        Receipt { message: MessageId::ZERO, ..on_board },
        Receipt { nonce: 2, ..on_board },
        Receipt { server: 8, ..on_board },
    ] {
        assert_eq!(board.answer(&wrong, Outcome::Done), Err(None), "{wrong:?}");
    }
    let failed = Outcome::Failed(Failed { error: "no".into(), output: Vec::new(), retry: false });
    assert_eq!(board.answer(&on_board, failed.clone()), Ok(()));
    assert_eq!(running.await.unwrap(), failed);
}

/// The second message is the clock of the test: when its time has passed, so has that of the first, unless extended.
#[tokio::test]
async fn what_is_out_fails_in_time_unless_it_is_extended() {
    let (board, worker) = (board(), Worker::new());
    let extended = worker.begin(&board, "a", 1).await;
    let kept = take_one(&board, Duration::from_millis(50));
    assert_eq!(board.extend(&kept.receipt, LONG), Ok(()));
    let late = worker.begin(&board, "b", 2).await;
    let lost = take_one(&board, Duration::from_millis(100));
    let untaken = worker.begin(&board, "c", 3).await;
    assert_eq!(late.await.unwrap(), Outcome::retry("not acknowledged within 0 s"));
    assert_eq!(board.answer(&lost.receipt, Outcome::Done), Err(Some(Ended::Late)));
    assert!(!extended.is_finished() && !untaken.is_finished(), "what nobody has taken just waits");
    assert_eq!(board.extend(&kept.receipt, Duration::ZERO), Ok(()));
    assert!(matches!(extended.await.unwrap(), Outcome::Failed(why) if why.retry));
    untaken.abort();
}

#[tokio::test]
async fn a_worker_that_must_stop_withdraws_its_messages() {
    let (board, worker) = (board(), Worker::new());
    let (out, waiting) = (worker.begin(&board, "a", 1).await, worker.work("b"));
    let taken = take_one(&board, LONG);
    let waiting = tokio::spawn({
        let board = board.clone();
        async move { board.offer(waiting, 2).await }
    });
    board.wait_for_message().await;
    worker.stop.send_replace(true);
    assert_eq!((out.await.unwrap(), waiting.await.unwrap()), (Outcome::Stopped, Outcome::Stopped));
    assert_eq!(board.answer(&taken.receipt, Outcome::Done), Err(Some(Ended::Withdrawn)));
    assert!(board.take(1, LONG, |_| true).is_empty());
}

#[tokio::test]
async fn dropping_a_task_withdraws_its_message() {
    let (board, worker) = (board(), Worker::new());
    let running = worker.begin(&board, "a", 1).await;
    let taken = take_one(&board, LONG);
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    assert_eq!(board.answer(&taken.receipt, Outcome::Done), Err(Some(Ended::Withdrawn)));
}

#[tokio::test]
async fn nothing_is_delivered_or_answered_without_a_lease() {
    let (board, worker) = (board(), Worker::new());
    let out = worker.begin(&board, "a", 1).await;
    let taken = take_one(&board, LONG);
    let waiting = worker.begin(&board, "b", 2).await;
    worker.valid_until.send_replace(Moment::after(Duration::ZERO));
    assert_eq!(board.answer(&taken.receipt, Outcome::Done), Err(Some(Ended::Withdrawn)));
    assert!(board.take(1, LONG, |_| true).is_empty());
    assert_eq!(waiting.await.unwrap(), Outcome::Stopped, "the worker decides what becomes of it");
    assert!(!out.is_finished());
    out.abort();
}

#[tokio::test]
async fn what_does_not_fit_stays_first_in_line() {
    let (board, worker) = (board(), Worker::new());
    let mut running = Vec::new();
    for (nonce, body) in [(1, "a"), (2, "bb"), (3, "c")] {
        running.push(worker.begin(&board, body, nonce).await);
        tokio::task::yield_now().await;
    }
    let bodies =
        |taken: Vec<Delivery>| -> Vec<Bytes> { taken.into_iter().map(|one| one.message.body).collect() };
    assert_eq!(bodies(board.take(9, LONG, |message| message.body.len() < 2)), ["a"]);
    assert_eq!(bodies(board.take(1, LONG, |_| true)), ["bb"]);
    assert_eq!(bodies(board.take(9, LONG, |_| true)), ["c"]);
    running.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn an_expired_message_is_not_delivered() {
    let (board, worker) = (board(), Worker::new());
    let mut work = worker.work("late");
    work.messages[0].expires = Some(Ticks::now());
    let running = tokio::spawn({
        let board = board.clone();
        async move { board.offer(work, 1).await }
    });
    board.wait_for_message().await;
    assert!(board.take(1, LONG, |_| true).is_empty());
    assert_eq!(running.await.unwrap(), Outcome::Stopped);
}

#[tokio::test]
async fn a_board_is_idle_when_nobody_receives_and_nothing_is_out() {
    let (board, worker) = (board(), Worker::new());
    let close = |board: &Arc<Board>| {
        let board = board.clone();
        tokio::spawn(async move { board.close_when_idle(Duration::from_millis(50)).await })
    };
    let first = worker.begin(&board, "a", 1).await;
    let receiver = board.enter().expect("it is open");
    let taken = take_one(&board, LONG);
    let second = worker.begin(&board, "b", 2).await;
    drop(receiver);
    // Another board, where nothing is out, is the clock of the test.
    let (closing, other) = (close(&board), close(&self::board()));
    other.await.unwrap();
    assert!(!closing.is_finished(), "a message is out");
    assert_eq!(board.answer(&taken.receipt, Outcome::Done), Ok(()));
    closing.await.unwrap();
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (Outcome::Done, Outcome::Stopped));
    assert!(board.enter().is_none());
    assert_eq!(board.offer(worker.work("c"), 3).await, Outcome::Stopped);
    board.wait_for_message().await;
}
