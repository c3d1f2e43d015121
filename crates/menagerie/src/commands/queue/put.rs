//! `menagerie queue put NAME [BODY…] [--file F|-]`

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use menagerie_journal::{JournalError, MessageId, NewMessage, Ticks};
use menagerie_queues::admin::{self, Destination, Putter, ToPut};
use menagerie_queues::moment::moment;
use menagerie_queues::{MessageUuid, Origin, QueueError, Via, fields};
use menagerie_znodes::queues::{PartitionName, QueueName};
use serde::Serialize;

use super::input::{Input, InputFormat, InputMessage};
use crate::durations;
use crate::exit::{CliError, cannot};
use crate::output::{Format, FormatArg, Show, count};
use crate::progress::Meter;
use crate::stores::StoreArgs;
use crate::who;

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
    #[arg(long, value_name = "KEY", value_parser = partition_key, conflicts_with = "partition")]
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
    #[arg(long, value_name = "DURATION", value_parser = fields::lifetime)]
    ttl: Option<Duration>,
    /// Deduplication id: within two minutes, only the first message with this id counts. For a single message only.
    #[arg(long, value_name = "ID", value_parser = fields::dedup_id, conflicts_with = "file")]
    dedup: Option<String>,
    /// Priority, from -100 to 100: higher ones are handled first. Only in queues of `--order none`.
    #[arg(long, value_name = "N", value_parser = fields::parse_priority, allow_hyphen_values = true)]
    priority: Option<i8>,
    /// Put each line of this file as one message, verbatim; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    file: Option<OsString>,
    /// Read each line as a JSON object: body (or body_base64); optionally key, partition, delay, at, ttl, dedup, priority.
    #[arg(long, requires = "file", conflicts_with_all = ["bodies", "key", "partition", "delay", "at", "priority", "whole"])]
    jsonl: bool,
    /// Put the whole file as one message, line breaks included.
    #[arg(long, requires = "file", conflicts_with = "bodies")]
    whole: bool,
    #[command(flatten)]
    format: FormatArg,
}

fn partition_key(text: &str) -> Result<String, String> {
    fields::key(text).map(str::to_owned)
}

struct PendingPut {
    /// For error messages.
    number: u64,
    /// To a partition in place of any, so that a second attempt goes to the same one.
    content: ToPut,
}

/// Puts all of the batch or nothing.
async fn put_all(putter: &mut Putter, batch: &[PendingPut]) -> Result<Vec<admin::Put>, QueueError> {
    putter.put(batch.iter().map(|next| next.content.clone()).collect()).await
}

#[derive(Debug, Default)]
struct Tally {
    all: u64,
    duplicates: u64,
}

impl Tally {
    fn count(&mut self, put: &admin::Put) {
        self.all += 1;
        self.duplicates += u64::from(put.duplicate);
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
    id: Option<MessageUuid>,
    /// In seconds; none while it is delayed.
    position: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    delayed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    duplicate: bool,
}

impl From<admin::Put> for PutView {
    fn from(put: admin::Put) -> Self {
        Self {
            partition: put.partition,
            id: put.id,
            position: put.position.map(MessageId::seconds),
            delayed: put.position.is_none(),
            duplicate: put.duplicate,
        }
    }
}

impl Show for PutView {
    fn show(&self) -> String {
        self.id.map_or_else(String::new, |id| format!("{id}\n"))
    }
}

impl PutView {
    /// What its id does not say: standard output is for ids alone, so that scripts can use them.
    fn remark(&self) -> Option<String> {
        match (&self.id, self.duplicate, self.delayed) {
            (Some(id), true, _) => Some(format!("{id} was there already")),
            // It was delayed, and has been cancelled or deleted since.
            (None, ..) => Some("a message with this dedup id was there already, and is gone".to_owned()),
            (Some(_), false, _) => None,
        }
    }
}

impl Put {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        self.check()?;
        stores.change(async |stores| {
            let doing = cannot(format!("put messages into queue {}", self.queue));
            // Start at a partition that varies with time, so that callers that put one message each spread over all.
            let start = (Ticks::now().0 / 10) as u16;
            let origin = Origin::new(&who::operator(), Via::Cli);
            let putter = Putter::open(&stores.session, &stores.journals, &self.queue, start, origin).await;
            let putter = putter.map_err(doing)?;
            self.check_priority(&putter)?;
            let put = match self.prints() {
                true => self.put(putter).await?,
                false => self.put(putter.ignore_duplicates()).await?,
            };
            if self.file.is_some() {
                eprintln!("{} put into queue {}", put.text(), self.queue);
            }
            Ok(())
        })
    }

    fn print(&self, put: &PutView) -> Result<(), CliError> {
        self.format.print_line(put)?;
        if let Some(remark) = put.remark().filter(|_| self.format.output == Format::Table) {
            eprintln!("{remark}");
        }
        Ok(())
    }

    /// Whether each message is printed.
    fn prints(&self) -> bool {
        self.file.is_none() || self.format.output == Format::Json
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

    fn check_priority(&self, putter: &Putter) -> Result<(), CliError> {
        let Some(priority) = self.priority else { return Ok(()) };
        let refused = |why| CliError::Usage {
            what: format!("messages of queue {} have no priority: {why}", self.queue),
            help: "leave --priority out, or put them into a queue without order".to_owned(),
        };
        fields::check_priority(priority, putter.order()).map(drop).map_err(refused)
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
                    bytes += next.content.message.body.len();
                    batch.push(next);
                })
            });
            let mut refused = Ok(());
            if !matches!(next, Ok(Some(()))) || batch.len() >= BATCH_MESSAGES || bytes >= BATCH_BYTES {
                bytes = 0;
                let put;
                (put, refused) = self.commit(&mut putter, std::mem::take(&mut batch), &input).await;
                put.iter().for_each(|put| done.count(put));
                if self.prints() {
                    put.into_iter().map(PutView::from).try_for_each(|put| self.print(&put))?;
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
        let Some(message) = input.next(putter.order())? else { return Ok(None) };
        let mut content = self.content(message);
        let number = input.number();
        let partition = putter.choose_partition(&content.destination);
        let partition = partition.map_err(cannot(self.doing(&input.name(number))))?;
        if content.destination == Destination::Any {
            content.destination = Destination::Partition(partition.number());
        }
        Ok(Some(PendingPut { number, content }))
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
    ) -> (Vec<admin::Put>, Result<(), CliError>) {
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
    fn content(&self, message: InputMessage) -> ToPut {
        let due = self.at.or_else(|| self.delay.map(|delay| Ticks::now().plus(delay)));
        let InputMessage { place, due: own, ttl, dedup, priority, body } = message;
        let place = place.unwrap_or_else(|| match (&self.key, self.partition) {
            (Some(key), _) => Destination::Key(key.clone().into_bytes()),
            (None, Some(partition)) => Destination::Partition(partition),
            (None, None) => Destination::Any,
        });
        let dedup = dedup.or_else(|| self.dedup.clone()).map(Bytes::from);
        let (ttl, due) = (ttl.or(self.ttl), own.or(due));
        let priority = priority.or(self.priority).unwrap_or_default();
        let message = NewMessage { body: body.into(), ttl, due, dedup, ..NewMessage::default() };
        ToPut { destination: place, priority, message }
    }
}
