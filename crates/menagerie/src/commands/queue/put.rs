//! `menagerie queue put NAME [BODY…] [--file F|-]`

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use menagerie_journal::{Appended, JournalError, NewMessage, Ticks};
use menagerie_queues::QueueError;
use menagerie_queues::admin::{Destination, Putter};
use menagerie_znodes::queues::{PartitionName, QueueName};
use serde::Serialize;

use super::input::{self, Input, InputFormat, InputMessage};
use super::time::moment;
use crate::durations;
use crate::exit::{CliError, cannot};
use crate::output::{Format, FormatArg, Show, count};
use crate::progress::Meter;
use crate::stores::StoreArgs;

/// One batch: large enough to share the journal's syncs, small enough to hold in memory.
const BATCH_MESSAGES: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;

/// Put messages into a queue, from the command line or from the lines of a file.
#[derive(Debug, Args)]
pub struct Put {
    /// Name of the queue.
    queue: QueueName,
    /// Message bodies, one message per argument.
    #[arg(value_name = "BODY", conflicts_with = "file")]
    bodies: Vec<OsString>,
    /// Key that chooses the partition: messages with the same key are handled in order.
    #[arg(long, value_name = "KEY", conflicts_with = "partition")]
    key: Option<String>,
    /// Put into this partition [default: by key, else round robin].
    #[arg(short, long, value_name = "P")]
    partition: Option<u16>,
    /// Deliver after this delay.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_fine, conflicts_with = "at")]
    delay: Option<Duration>,
    /// Deliver at this time: 2026-11-15T12:00:00Z, with another offset, or local time without one.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at: Option<Ticks>,
    /// Drop a message that is still unhandled this long after it is due.
    #[arg(long, value_name = "DURATION", value_parser = input::lifetime)]
    ttl: Option<Duration>,
    /// Deduplication id: within two minutes, only the first message with this id counts. For a single message only.
    #[arg(long, value_name = "ID", value_parser = input::dedup_id, conflicts_with = "file")]
    dedup: Option<String>,
    /// Put each line of this file as one message, verbatim; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    file: Option<OsString>,
    /// Read each line as a JSON object: body (or body_base64); optionally key, partition, delay, at, ttl, dedup.
    #[arg(long, requires = "file", conflicts_with_all = ["bodies", "key", "partition", "delay", "at", "whole"])]
    jsonl: bool,
    /// Put the whole file as one message, line breaks included.
    #[arg(long, requires = "file", conflicts_with = "bodies")]
    whole: bool,
    #[command(flatten)]
    format: FormatArg,
}

struct PendingPut {
    /// For error messages.
    number: u64,
    partition: PartitionName,
    message: NewMessage,
}

struct FinishedPut {
    partition: PartitionName,
    appended: Appended,
    body: Bytes,
}

/// Puts all of the batch or nothing.
async fn put_all(putter: &mut Putter, batch: &[PendingPut]) -> Result<Vec<FinishedPut>, QueueError> {
    let message = |next: &PendingPut| (Destination::Partition(next.partition.number()), next.message.clone());
    let put = putter.put(batch.iter().map(message).collect()).await?;
    let done = |(next, appended): (&PendingPut, _)| FinishedPut {
        partition: next.partition.clone(),
        appended,
        body: next.message.body.clone(),
    };
    Ok(batch.iter().zip(put).map(done).collect())
}

#[derive(Debug, Default)]
struct Tally {
    all: u64,
    duplicates: u64,
}

impl Tally {
    fn count(&mut self, put: &Appended) {
        self.all += 1;
        self.duplicates += u64::from(matches!(put, Appended::Duplicate(_)));
    }

    fn text(&self) -> String {
        let put = count(self.all - self.duplicates, "message");
        match self.duplicates {
            0 => put,
            duplicates => format!("{put} ({duplicates} more were there already)"),
        }
    }
}

#[derive(Debug, Serialize)]
struct PutView {
    partition: PartitionName,
    id: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    delayed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    duplicate: bool,
}

impl PutView {
    fn of((partition, appended): (PartitionName, Appended)) -> Self {
        let (id, delayed, duplicate) = match appended {
            Appended::At(id) => (Some(id.to_string()), false, false),
            Appended::Delayed(id) => (Some(id.to_string()), true, false),
            Appended::Duplicate(id) => (id.map(|id| id.to_string()), id.is_none(), true),
        };
        Self { partition, id, delayed, duplicate }
    }
}

impl Show for PutView {
    fn show(&self) -> String {
        let note = match (self.duplicate, self.delayed) {
            (true, _) => "  (was there already)",
            (false, true) => "  (delayed)",
            (false, false) => "",
        };
        format!("{}{note}\n", self.id.as_deref().unwrap_or("delayed"))
    }
}

impl Put {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        self.check()?;
        stores.change(async |stores| {
            let doing = cannot(format!("put messages into queue {}", self.queue));
            // Start at a partition that varies with time, so that callers that put one message each spread over all.
            let start = (Ticks::now().0 / 10) as u16;
            let putter = Putter::open(&stores.session, &stores.journals, &self.queue, start).await;
            let putter = putter.map_err(doing)?;
            let put = self.put(putter).await?;
            if self.file.is_some() {
                eprintln!("{} put into queue {}", put.text(), self.queue);
            }
            Ok(())
        })
    }

    fn check(&self) -> Result<(), CliError> {
        if self.bodies.is_empty() && self.file.is_none() {
            return Err(CliError::Usage {
                what: "there is nothing to put".to_owned(),
                help: "name the messages, or a file with one on each line: --file FILE, or --file - for standard input"
                    .to_owned(),
            });
        }
        if self.dedup.is_some() && self.bodies.len() > 1 {
            return Err(CliError::Usage {
                what: "--dedup names one message, and there are several".to_owned(),
                help: "put them one by one, or with --jsonl and an id for each".to_owned(),
            });
        }
        Ok(())
    }

    /// Puts in batches, each atomic. Everything before a message that cannot be put is put, as if the input ended
    /// there.
    async fn put(&self, mut putter: Putter) -> Result<Tally, CliError> {
        let mut meter = Meter::new();
        let mut input = self.input()?;
        let (mut batch, mut bytes, mut done) = (Vec::new(), 0, Tally::default());
        loop {
            let next = self.next(&mut input, &mut putter).map(|next| {
                next.map(|next| {
                    bytes += next.message.body.len();
                    batch.push(next);
                })
            });
            let mut refused = Ok(());
            if !matches!(next, Ok(Some(()))) || batch.len() >= BATCH_MESSAGES || bytes >= BATCH_BYTES {
                bytes = 0;
                let put;
                (put, refused) = self.commit(&mut putter, std::mem::take(&mut batch), &input).await;
                put.iter().for_each(|put| done.count(&put.appended));
                if self.file.is_none() || self.format.output == Format::Json {
                    self.print(&putter, put).await?;
                }
                meter.show("put", done.all, input.total());
            }
            match refused.and(next) {
                Ok(Some(())) => {}
                Ok(None) => return Ok(done),
                Err(error) => {
                    if self.file.is_some() {
                        eprintln!("{} put into queue {} before this:", done.text(), self.queue);
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Reads the next message and chooses its partition.
    fn next(&self, input: &mut Input, putter: &mut Putter) -> Result<Option<PendingPut>, CliError> {
        let Some(message) = input.next()? else { return Ok(None) };
        let (place, message) = self.message(message);
        let number = input.number();
        let partition = putter.choose_partition(&place);
        let partition = partition.map_err(cannot(self.doing(&input.name(number))))?;
        Ok(Some(PendingPut { number, partition, message }))
    }

    fn doing(&self, which: &str) -> String {
        format!("put {which} into queue {}", self.queue)
    }

    /// Puts a batch. Returns what was put, and the error if that is not all of it.
    async fn commit(
        &self,
        putter: &mut Putter,
        batch: Vec<PendingPut>,
        input: &Input,
    ) -> (Vec<FinishedPut>, Result<(), CliError>) {
        let Some(first) = batch.first().map(|next| next.number) else { return (Vec::new(), Ok(())) };
        let alone = batch.len() == 1;
        let error = match put_all(putter, &batch).await {
            Ok(done) => return (done, Ok(())),
            Err(error) => error,
        };
        let which = match (&error, alone) {
            // The journal does not say which message is too large, or whether it is their sum: put them one by one.
            (QueueError::Journal(JournalError::TooLarge { .. }), false) => {
                let mut done = Vec::with_capacity(batch.len());
                for next in &batch {
                    match put_all(putter, std::slice::from_ref(next)).await {
                        Ok(one) => done.extend(one),
                        Err(error) => {
                            return (done, Err(cannot(self.doing(&input.name(next.number)))(error)));
                        }
                    }
                }
                return (done, Ok(()));
            }
            (_, true) => input.name(first),
            (_, false) => format!("messages from {} on", input.name(first)),
        };
        (Vec::new(), Err(cannot(self.doing(&which))(error)))
    }

    async fn print(&self, putter: &Putter, put: Vec<FinishedPut>) -> Result<(), CliError> {
        for FinishedPut { mut partition, appended, body } in put {
            if let Appended::Duplicate(Some(id)) = appended {
                let found = putter.find_duplicate(&partition, id, &body).await;
                partition = found.map_err(cannot(format!("find message {id}")))?;
            }
            self.format.print_line(&PutView::of((partition, appended)))?;
        }
        Ok(())
    }

    fn input(&self) -> Result<Input, CliError> {
        let Some(file) = &self.file else {
            let bodies: Vec<Vec<u8>> = self.bodies.iter().cloned().map(OsStringExt::into_vec).collect();
            return Ok(Input::given(bodies));
        };
        let format = match (self.jsonl, self.whole) {
            (true, _) => InputFormat::Objects,
            (false, true) => InputFormat::Whole,
            (false, false) => InputFormat::Lines,
        };
        Input::open(file, format)
    }

    /// Fills in from the command line what the message leaves open.
    fn message(&self, message: InputMessage) -> (Destination, NewMessage) {
        let due = self.at.or_else(|| self.delay.map(|delay| Ticks::now().plus(delay)));
        let InputMessage { place, due: own, ttl, dedup, body } = message;
        let place = place.unwrap_or_else(|| match (&self.key, self.partition) {
            (Some(key), _) => Destination::Key(key.clone().into_bytes()),
            (None, Some(partition)) => Destination::Partition(partition),
            (None, None) => Destination::Any,
        });
        let dedup = dedup.or_else(|| self.dedup.clone()).map(Bytes::from);
        let (ttl, due) = (ttl.or(self.ttl), own.or(due));
        let message = NewMessage { body: body.into(), ttl, due, dedup, ..NewMessage::default() };
        (place, message)
    }
}
