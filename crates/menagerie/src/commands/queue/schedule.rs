//! `menagerie queue schedule`: messages that are put periodically.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::time::Duration;

use clap::{Args, Subcommand};
use menagerie_queues::admin::{Created, schedule as schedules};
use menagerie_queues::schedule::{Calendar, now};
use menagerie_queues::view::ScheduleRow;
use menagerie_znodes::Name;
use menagerie_znodes::queues::{QueueName, Schedule as Stored};
use serde_json::json;

use crate::clock;
use crate::exit::{CliError, cannot};
use crate::output::{FormatArg, OutputArgs, Row, Rows, escape_for_terminal};
use crate::stores::StoreArgs;
use crate::who;
use menagerie_queues::fields;

/// Put messages periodically: each time exactly once, whichever worker or HTTP server is elected to do it.
#[derive(Debug, Args)]
pub struct Schedule {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Add(Add),
    List(List),
    Remove(Remove),
    RunNow(RunNow),
}

impl Schedule {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        match self.verb {
            Verb::Add(verb) => verb.run(stores),
            Verb::List(verb) => verb.run(stores),
            Verb::Remove(verb) => verb.run(stores),
            Verb::RunNow(verb) => verb.run(stores),
        }
    }
}

/// Add a schedule. Idempotent; one of that name with other settings is a conflict.
#[derive(Debug, Args)]
struct Add {
    /// Name of the schedule.
    name: Name,
    /// Message body.
    #[arg(value_name = "BODY", default_value = "", hide_default_value = true)]
    body: OsString,
    /// Queue to put the messages into.
    #[arg(long, value_name = "QUEUE")]
    queue: QueueName,
    /// Times: minute, hour, day, month and weekday, as in `*/5 * * * *` or `30 6 * * MON-FRI`; with six fields, the
    /// first is the second; or @hourly, @daily, @weekly, @monthly, @yearly.
    #[arg(long, value_name = "LINE")]
    cron: String,
    /// Time zone of these times: an IANA name, such as Europe/Berlin.
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    tz: String,
    /// Put times that were missed because nobody was running: the oldest 100 of them at most [default: skip and count
    /// them].
    #[arg(long)]
    catch_up: bool,
    /// Key that chooses the partition.
    #[arg(long, value_name = "KEY", conflicts_with = "partition")]
    key: Option<String>,
    /// Put into this partition [default: by key, else any].
    #[arg(short, long, value_name = "P")]
    partition: Option<u16>,
    /// Drop a message that is still unhandled after this long.
    #[arg(long, value_name = "DURATION", value_parser = fields::lifetime)]
    ttl: Option<Duration>,
    #[command(flatten)]
    format: FormatArg,
}

impl Add {
    fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        let schedule = Stored {
            queue: self.queue,
            cron: self.cron,
            tz: self.tz,
            catch_up: self.catch_up,
            body: schedules::body(&self.body.into_vec()),
            key: self.key,
            partition: self.partition,
            ttl_ms: self.ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
            by: who::operator(),
            added_ms: u64::try_from(clock::now_ms()).unwrap_or(0),
        };
        let name = self.name;
        // What needs no server is refused without one.
        let calendar =
            Calendar::new(&schedule.cron, &schedule.tz, now()).map_err(cannot("add a schedule"))?;
        stores.change(async |stores| {
            let added = schedules::add(&stores.session, &name, &schedule).await;
            let added = added.map_err(cannot("add a schedule"))?;
            let next = calendar.next_after(now());
            let was = match added {
                Created::Fresh => "is added",
                Created::Existed => "was there already",
            };
            let first = next.map_or("-".to_owned(), |next| calendar.show(next));
            self.format.tell(
                &format!("schedule {name} {was}; next: {first}"),
                &json!({
                    "schedule": name,
                    "queue": schedule.queue,
                    "created": added == Created::Fresh,
                    "next_ms": next.map(ms),
                }),
            )
        })
    }
}

fn ms(seconds: i64) -> i64 {
    seconds.saturating_mul(1000)
}

/// List schedules: when each comes next, when it was put last, and how many times were missed.
#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    output: OutputArgs,
}

impl Row for ScheduleRow {
    const HEADS: &[&str] = &["SCHEDULE", "QUEUE", "CRON", "TZ", "NEXT", "LAST PUT", "MISSED", "PROBLEM"];
    const NONE: Option<&str> = Some("no schedules yet: `menagerie queue schedule add` adds one");

    fn cells(&self) -> Vec<String> {
        let of = |text: fn(&Stored) -> String| {
            self.settings
                .as_ref()
                .map_or("-".to_owned(), |schedule| escape_for_terminal(Some(&text(schedule))))
        };
        let missed = match (self.missed, self.last_missed_ms) {
            (None, _) => "-".to_owned(),
            (Some(missed), None) => missed.to_string(),
            (Some(missed), last) => format!("{missed}, last {}", self.time(last)),
        };
        vec![
            self.schedule.to_string(),
            of(|schedule| schedule.queue.to_string()),
            of(|schedule| schedule.cron.clone()),
            of(|schedule| schedule.tz.clone()),
            self.time(self.next_ms),
            self.time(self.last_put_ms),
            missed,
            escape_for_terminal(self.problem.as_deref()),
        ]
    }
}

impl List {
    fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        let output = self.output;
        stores.observe(async |stores| {
            let (doing, mut told) = (|| cannot("list schedules"), false);
            let read = async || {
                let all = schedules::list(&stores.session, &stores.journals).await.map_err(doing())?;
                if !all.is_empty() && !std::mem::replace(&mut told, true) {
                    let there = schedules::is_anybody_there(&stores.session).await.map_err(doing())?;
                    if !there {
                        eprintln!("nobody puts them: `menagerie worker` and `menagerie queue serve` do");
                    }
                }
                Ok(Rows(all.into_iter().map(ScheduleRow::of).collect()))
            };
            output.print(read).await
        })
    }
}

/// Remove a schedule. Messages that it has put stay.
#[derive(Debug, Args)]
struct Remove {
    /// Name of the schedule.
    name: Name,
    #[command(flatten)]
    format: FormatArg,
}

impl Remove {
    fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        stores.change(async |stores| {
            let removed = schedules::remove(&stores.session, &self.name).await;
            removed.map_err(cannot("remove a schedule"))?;
            let report = json!({ "schedule": self.name, "removed": true });
            self.format.tell(&format!("schedule {} is removed", self.name), &report)
        })
    }
}

/// Put the message of a schedule now, in addition to its times.
#[derive(Debug, Args)]
struct RunNow {
    /// Name of the schedule.
    name: Name,
    #[command(flatten)]
    format: FormatArg,
}

impl RunNow {
    fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        stores.change(async |stores| {
            let put = schedules::run_now(&stores.session, &stores.journals, &self.name).await;
            let (queue, put) = put.map_err(cannot("put the message of a schedule"))?;
            let id = put.first().and_then(|put| put.id).map(|id| id.to_string());
            let report = json!({ "schedule": self.name, "queue": queue, "id": id });
            let id = id.unwrap_or_default();
            self.format.tell(&format!("put {id} into queue {queue}"), &report)
        })
    }
}
