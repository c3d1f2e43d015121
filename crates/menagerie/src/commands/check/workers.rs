//! `menagerie check workers QUEUE`: does anybody handle it?

use clap::Args;
use menagerie_queues::admin::show::{self, WorkerEntry};
use menagerie_znodes::queues::{self, PartitionName, QueueName};

use super::lag::QueueArgs;
use super::range::Range;
use super::report::{Perf, Report, State, Thresholds};
use super::thresholds::count;
use crate::client::Client;
use crate::exit::{CliError, cannot};

/// Service name in the plugin's output.
pub const SERVICE: &str = "WORKERS";

/// Check the workers of a queue: how many there are, and whether every partition has one. A paused worker does not
/// count, as nobody handles its partitions.
#[derive(Debug, Args)]
pub struct Workers {
    #[command(flatten)]
    queue: QueueArgs,
    /// Warn when the number of workers is outside this range: `2:` is at least two.
    #[arg(short, long, value_name = "RANGE", value_parser = count)]
    warning: Option<Range>,
    /// Critical when the number of workers is outside this range [default: 1:].
    #[arg(short, long, value_name = "RANGE", value_parser = count)]
    critical: Option<Range>,
    /// State to report when a partition has no worker.
    #[arg(long, value_name = "STATE", value_parser = State::parse, default_value = "WARNING")]
    unowned: State,
}

impl Workers {
    /// Reads the queue and judges it.
    pub async fn inspect(&self, client: &Client) -> Result<Report, CliError> {
        let Some(queue) = self.queue.queue() else {
            return Ok(Report::unknown(SERVICE, "no queue is named"));
        };
        let doing = || cannot(format!("look at queue {queue}"));
        let settings =
            client.term().read(&queues::settings(queue)).await.map_err(|error| doing()(error.into()))?;
        let Some(settings) = settings else {
            return Err(doing()(menagerie_queues::QueueError::NoQueue { queue: queue.clone() }));
        };
        let workers = show::workers(&client.session).await.map_err(doing())?;
        let critical = self.critical.or_else(|| count("1:").ok());
        let limits = Thresholds { warning: self.warning, critical };
        Ok(judge(queue, settings.value.partitions, &workers, limits, self.unowned))
    }
}

fn judge(
    queue: &QueueName,
    partitions: u16,
    workers: &[WorkerEntry],
    limits: Thresholds,
    unowned: State,
) -> Report {
    let serves = |worker: &&WorkerEntry| worker.serves.as_ref().is_some_and(|queues| queues.contains(queue));
    let serving: Vec<&WorkerEntry> = workers.iter().filter(serves).collect();
    let owned = |partition: &PartitionName| {
        workers.iter().any(|worker| !worker.paused && worker.partitions.contains(partition))
    };
    let missing: Vec<PartitionName> = (1..=partitions)
        .map(|number| queue.partition(number))
        .filter(|partition| !owned(partition))
        .collect();
    let paused = serving.iter().filter(|worker| worker.paused).count();
    let working = (serving.len() - paused) as f64;
    let state = limits.judge(working);
    let state = if missing.is_empty() { state } else { state.worse(unowned) };
    let mut text = match serving.len() {
        0 => format!("nobody serves queue {queue}"),
        1 => format!("1 worker serves queue {queue}"),
        many => format!("{many} workers serve queue {queue}"),
    };
    if paused > 0 {
        text += &format!(", {paused} paused");
    }
    if !missing.is_empty() {
        let none = if paused > 0 { "none that works" } else { "none" };
        text += &format!("; {} of {partitions} partitions have {none}", missing.len());
    }
    let mut report = Report::new(SERVICE, state, text);
    report.perf = vec![
        Perf { thresholds: limits, ..Perf::new("workers".to_owned(), Some(working), "") },
        Perf::new("unowned".to_owned(), Some(missing.len() as f64), ""),
        Perf::new("paused".to_owned(), Some(paused as f64), ""),
    ];
    for worker in serving {
        let paused = if worker.paused { ", and is paused" } else { "" };
        report.detail(1, format!("{} has {} partitions{paused}", worker.worker, worker.partitions.len()));
    }
    for partition in missing {
        report.detail(1, format!("{partition} has no worker{}", if paused > 0 { " that works" } else { "" }));
    }
    report
}

#[cfg(test)]
mod tests {
    use menagerie_znodes::Name;

    use super::*;

    fn worker(name: &str, partitions: &[&str]) -> WorkerEntry {
        WorkerEntry {
            worker: Name::new(name).unwrap(),
            partitions: partitions.iter().map(|name| name.parse().unwrap()).collect(),
            serves: Some(vec!["mail".parse().unwrap()]),
            paused: false,
        }
    }

    fn judged(workers: &[WorkerEntry]) -> (State, String) {
        let limits = Thresholds { warning: count("2:").ok(), critical: count("1:").ok() };
        let report = judge(&"mail".parse().unwrap(), 2, workers, limits, State::Warning);
        (report.state, report.text)
    }

    #[test]
    fn missing_workers_and_partitions_without_one_are_told() {
        assert_eq!(
            judged(&[]),
            (State::Critical, "nobody serves queue mail; 2 of 2 partitions have none".to_owned())
        );
        let one = [worker("a", &["mail-1", "mail-2"])];
        assert_eq!(judged(&one), (State::Warning, "1 worker serves queue mail".to_owned()));
        let two = [worker("a", &["mail-1"]), worker("b", &["mail-2"])];
        assert_eq!(judged(&two), (State::Ok, "2 workers serve queue mail".to_owned()));
        let half = [worker("a", &["mail-1"]), worker("b", &[])];
        assert_eq!(judged(&half).0, State::Warning);
        let pausing = |worker: WorkerEntry| WorkerEntry { paused: true, ..worker };
        let [a, b] = two;
        let text = "2 workers serve queue mail, 1 paused; 1 of 2 partitions have none that works";
        assert_eq!(judged(&[a.clone(), pausing(b.clone())]), (State::Warning, text.to_owned()));
        assert_eq!(judged(&[pausing(a), pausing(b)]).0, State::Critical);
    }
}
