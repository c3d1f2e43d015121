//! Receiving messages and saying what became of them, for clients that have no worker of ours.
//!
//! The server is a worker for them: it takes partitions like any other, and its task is to wait until a client has
//! received a message and answered. So attempts, back-off, failed messages and fences are those of all workers.
//!
//! - this file: requests. `form`: what they say. `board`: messages between the worker and its clients. `workers`: when
//!   there is one. `receipt`: what a client has to show.

pub mod board;
pub mod form;
pub mod receipt;
pub mod workers;

use std::time::{Duration, Instant};

use menagerie_queues::task::{Failed, Outcome};
use menagerie_znodes::queues::QueueName;
use tokio::time::{sleep, timeout_at};

use self::board::{Board, Delivery, Ended};
use self::form::{Answer, AnswerKind, BODY_BYTES_MAX, ReceiveForm};
use self::receipt::Receipt;
use crate::access::{Action, Caller};
use crate::form::Reasons;
use crate::messages::{REPLY_BYTES_MAX, reply_bytes};
use crate::reply::Reply;
use crate::service::{Request, RequestMemory, Service};

/// Pause before another worker is started in place of one that has ended.
const RESTART_PAUSE: Duration = Duration::from_millis(500);

impl Service {
    /// `POST /v1/{application}/{queue}/receive`
    pub(crate) async fn receive(
        &self,
        request: &Request,
        caller: &Caller,
        path: (&str, &str),
        memory: &mut RequestMemory,
    ) -> Result<Reply, Reply> {
        let (queue, _) = self.queue(caller, Action::Handle, path).await?;
        check_size(request)?;
        let form = ReceiveForm::parse(&request.body).map_err(|reasons| Reply::refused(400, &reasons))?;
        let deadline = Instant::now() + form.wait;
        loop {
            let board = self.receiving.open_board(&queue)?;
            let Some(_receiver) = board.enter() else {
                sleep(RESTART_PAUSE.min(deadline.saturating_duration_since(Instant::now()))).await;
                if Instant::now() >= deadline {
                    return Ok(Reply::received(&queue, &[]));
                }
                continue;
            };
            self.wait_for_message(&queue, &board, deadline).await;
            // While we waited, the key may have been revoked, or the queue made private or deleted.
            let caller = self.caller(request).await?;
            self.queue(&caller, Action::Handle, path).await?;
            let taken = self.take(&queue, &board, &form, memory)?;
            if !taken.is_empty() || Instant::now() >= deadline {
                return Ok(Reply::received(&queue, &taken));
            }
        }
    }

    /// Waits for a message, until the deadline at most. While the queue is paused, there are none.
    async fn wait_for_message(&self, queue: &QueueName, board: &Board, deadline: Instant) {
        let mut pauses = self.receiving.pauses();
        let wait = async {
            while self.receiving.is_paused(queue) {
                if pauses.changed().await.is_err() {
                    return;
                }
            }
            board.wait_for_message().await;
        };
        let _ = timeout_at(deadline.into(), wait).await;
    }

    fn take(
        &self,
        queue: &QueueName,
        board: &Board,
        form: &ReceiveForm,
        memory: &mut RequestMemory,
    ) -> Result<Vec<Delivery>, Reply> {
        if self.receiving.is_paused(queue) {
            return Ok(Vec::new());
        }
        let (mut bytes_left, mut is_busy) = (REPLY_BYTES_MAX, false);
        let taken = board.take(form.max, form.visible_after, |message| {
            let bytes = reply_bytes(message);
            let is_first = bytes_left == REPLY_BYTES_MAX;
            if !is_first && bytes > bytes_left {
                return false;
            }
            is_busy = memory.grow(bytes).is_err();
            bytes_left = bytes_left.saturating_sub(bytes);
            !is_busy
        });
        if taken.is_empty() && is_busy { Err(Reply::busy()) } else { Ok(taken) }
    }

    /// `POST /v1/{application}/{queue}/ack`, `…/nack` and `…/extend`. Each receipt counts for itself: one that is refused
    /// does not keep the others from being accepted.
    pub(crate) async fn answer_receipts(
        &self,
        request: &Request,
        caller: &Caller,
        path: (&str, &str),
        kind: AnswerKind,
    ) -> Result<Reply, Reply> {
        let (queue, _) = self.queue(caller, Action::Handle, path).await?;
        check_size(request)?;
        let (receipts, answer) =
            kind.parse(&request.body).map_err(|reasons| Reply::refused(400, &reasons))?;
        let board = self.receiving.board(&queue);
        let mut reasons = Reasons::new();
        for (index, receipt) in receipts.iter().enumerate() {
            if let Err(why) = self.answer_receipt(board.as_deref(), receipt, &answer) {
                reasons.insert(form::name(index), why.to_owned());
            }
        }
        if reasons.is_empty() { Ok(Reply::done()) } else { Err(Reply::refused(409, &reasons)) }
    }

    fn answer_receipt(
        &self,
        board: Option<&Board>,
        receipt: &Receipt,
        answer: &Answer,
    ) -> Result<(), &'static str> {
        if !self.receiving.is_ours(receipt.server) {
            return Err(
                "another server has given it, or this one before it was restarted; only who has given a \
                        receipt can take it, and if that one is gone, the message comes again",
            );
        }
        let board = board.ok_or(GONE)?;
        let answered = match answer {
            Answer::Ack => board.answer(receipt, Outcome::Done),
            Answer::Nack { error, retry } => {
                let failed = Failed { error: error.clone(), output: Vec::new(), retry: *retry };
                board.answer(receipt, Outcome::Failed(failed))
            }
            Answer::Extend(visible_after) => board.extend(receipt, *visible_after),
        };
        answered.map_err(|ended| match ended {
            None => GONE,
            Some(Ended::Answered) => "it was used already",
            Some(Ended::Late) => "its time has passed, and the message comes again",
            Some(Ended::Withdrawn) => {
                "the partition was lost to another owner, or is about to be; the message comes again"
            }
        })
    }
}

/// Not among the deliveries that we remember.
const GONE: &str = "its message is not out any more";

/// Such requests are small, and parsing them costs many times their size.
fn check_size(request: &Request) -> Result<(), Reply> {
    match request.body.len() > BODY_BYTES_MAX {
        true => Err(Reply::too_large(&format!("more than {BODY_BYTES_MAX} bytes"))),
        false => Ok(()),
    }
}
