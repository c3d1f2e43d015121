//! `menagerie queue put NAME [BODY…] [--file F|-]`

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use clap::Args;
use menagerie_journal::{Appended, NewMessage, Ticks};
use menagerie_queues::admin::{Place, Putter};
use menagerie_znodes::queues::{PartitionName, QueueName};
use serde::Serialize;

use super::desk::DeskArgs;
use super::failed;
use super::input::{self, Input, Item, Shape};
use super::time::moment;
use crate::durations;
use crate::exit::CliError;
use crate::output::{Format, FormatArg, Show, count};
use crate::progress::Meter;

/// Put so many at once, or so many bytes: enough to share the journal's syncs, little enough to hold in memory.
const BATCH_MESSAGES: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;

/// Put messages into a queue: those of the command line, or one for each line of a file.
#[derive(Debug, Args)]
pub struct Put {
    /// Which queue.
    queue: QueueName,
    /// What they say, one message each.
    #[arg(value_name = "BODY", conflicts_with = "file")]
    bodies: Vec<OsString>,
    /// Messages with the same key are handled in order.
    #[arg(long, value_name = "KEY", conflicts_with = "partition")]
    key: Option<String>,
    /// To this partition [default: by key, else one after the other].
    #[arg(short, long, value_name = "P")]
    partition: Option<u16>,
    /// Not before so long from now.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse_fine, conflicts_with = "at")]
    delay: Option<Duration>,
    /// Not before then: 2026-11-15T12:00:00Z, with another offset, or local time without one.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at: Option<Ticks>,
    /// Forget a message that nobody has handled by so long after it is due.
    #[arg(long, value_name = "DURATION", value_parser = input::lifetime)]
    ttl: Option<Duration>,
    /// Of messages with the same id within two minutes, only the first counts. For one message.
    #[arg(long, value_name = "ID", value_parser = input::dedup_id, conflicts_with = "file")]
    dedup: Option<String>,
    /// One message for each line of this file, as it is; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    file: Option<OsString>,
    /// The lines are JSON objects: body (or body_base64), and key, partition, delay, at, dedup if you like.
    #[arg(long, requires = "file", conflicts_with_all = ["bodies", "key", "partition", "delay", "at", "whole"])]
    jsonl: bool,
    /// The file is one message, line breaks and all.
    #[arg(long, requires = "file", conflicts_with = "bodies")]
    whole: bool,
    #[command(flatten)]
    format: FormatArg,
}

/// How many were put.
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

/// A message that was put.
#[derive(Debug, Serialize)]
struct View {
    partition: PartitionName,
    id: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    delayed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    duplicate: bool,
}

impl View {
    fn of((partition, appended): (PartitionName, Appended)) -> Self {
        let (id, delayed, duplicate) = match appended {
            Appended::At(id) => (Some(id.to_string()), false, false),
            Appended::Delayed(id) => (Some(id.to_string()), true, false),
            Appended::Duplicate(id) => (id.map(|id| id.to_string()), id.is_none(), true),
        };
        Self { partition, id, delayed, duplicate }
    }
}

impl Show for View {
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
    /// Puts them.
    pub fn run(self, desk: DeskArgs) -> Result<(), CliError> {
        self.check()?;
        desk.change(async |desk| {
            let doing = failed(format!("put messages into queue {}", self.queue));
            // Spreads those who put one message each.
            let start = (Ticks::now().0 / 10) as u16;
            let putter = Putter::open(&desk.session, &desk.journals, &self.queue, start).await;
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

    /// In batches, each of them whole or not at all.
    async fn put(&self, mut putter: Putter) -> Result<Tally, CliError> {
        let mut meter = Meter::new();
        let mut input = self.input()?;
        let (mut batch, mut bytes, mut done) = (Vec::new(), 0, Tally::default());
        loop {
            let next = input.next().map(|item| {
                item.map(|item| {
                    let (place, message) = self.message(item);
                    bytes += message.body.len();
                    batch.push((place, message));
                })
            });
            // What is before a line that is no message is put, as if it were the last.
            let ended = !matches!(next, Ok(Some(())));
            if ended || batch.len() >= BATCH_MESSAGES || bytes >= BATCH_BYTES {
                bytes = 0;
                let put = self.commit(&mut putter, std::mem::take(&mut batch), done.all).await?;
                put.iter().for_each(|(_, put)| done.count(put));
                if self.file.is_none() || self.format.output == Format::Json {
                    put.into_iter().try_for_each(|put| self.format.print_line(&View::of(put)))?;
                }
                meter.show("put", done.all, input.total());
            }
            match next {
                Ok(Some(())) => {}
                Ok(None) => return Ok(done),
                Err(error) => {
                    eprintln!("{} put into queue {} before this:", done.text(), self.queue);
                    return Err(error);
                }
            }
        }
    }

    async fn commit(
        &self,
        putter: &mut Putter,
        mut batch: Vec<(Place, NewMessage)>,
        done: u64,
    ) -> Result<Vec<(PartitionName, Appended)>, CliError> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let first = done + 1;
        let put = async {
            let mut partitions = Vec::with_capacity(batch.len());
            for (place, _) in &mut batch {
                let partition = putter.place(place)?;
                *place = Place::Partition(partition.number());
                partitions.push(partition);
            }
            Ok(partitions.into_iter().zip(putter.put(batch).await?).collect())
        };
        put.await.map_err(|error| {
            let before = if done == 0 { String::new() } else { format!("; {done} were put before") };
            failed(format!("put messages from number {first} on into queue {}{before}", self.queue))(error)
        })
    }

    fn input(&self) -> Result<Input, CliError> {
        let Some(file) = &self.file else {
            let bodies: Vec<Vec<u8>> = self.bodies.iter().cloned().map(OsStringExt::into_vec).collect();
            return Ok(Input::given(bodies));
        };
        let shape = match (self.jsonl, self.whole) {
            (true, _) => Shape::Objects,
            (false, true) => Shape::Whole,
            (false, false) => Shape::Lines,
        };
        Input::open(file, shape)
    }

    /// What the command line says counts for all.
    fn message(&self, item: Item) -> (Place, NewMessage) {
        let due = self.at.or_else(|| self.delay.map(|delay| Ticks::now().plus(delay)));
        let Item { place, due: own, ttl, dedup, body } = item;
        let place = place.unwrap_or_else(|| match (&self.key, self.partition) {
            (Some(key), _) => Place::Key(key.clone().into_bytes()),
            (None, Some(partition)) => Place::Partition(partition),
            (None, None) => Place::Any,
        });
        let dedup = dedup.or_else(|| self.dedup.clone()).map(bytes::Bytes::from);
        let (ttl, due) = (ttl.or(self.ttl), own.or(due));
        let message = NewMessage { body: body.into(), ttl, due, dedup, ..NewMessage::default() };
        (place, message)
    }
}
