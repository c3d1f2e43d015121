//! One sentence about a queue: is it behind, and what is in the way?

use std::collections::BTreeMap;
use std::time::Duration;

use menagerie_types::duration::precise;
use menagerie_znodes::Name;
use menagerie_znodes::queues::{self, Pause, Retry};

use crate::admin::show::{PartitionView, QueueView, RunningView};

/// A message that runs for so long, while nothing else gets done, is worth naming.
const LONG: Duration = Duration::from_secs(30);

/// After this time without an end, a partition stands still for now.
const STILL_MS: u64 = 5_000;

/// An owner with messages that run says so every ten seconds.
const SILENT_MS: u64 = 15_000;

/// What is in the way, or how it goes.
pub fn verdict(view: &QueueView) -> String {
    if let Some((partition, ahead)) = view.ahead() {
        let ahead = precise(ahead);
        return format!(
            "the cursor of {partition} is {ahead} ahead of the clock, and nothing is handled before then"
        );
    }
    if let Some(partition) = view.without_cursor.first() {
        let cursor = queues::cursor(partition);
        let path = cursor.path();
        return format!(
            "{path} is missing in the namespace, so nobody handles {partition}; `menagerie doctor` says what to do"
        );
    }
    let lag = view.lag();
    if lag == 0 {
        // With `--ack before`, messages do not count as waiting while they run.
        return match (hung(view), only_failures(view)) {
            (Some(hung), _) => format!("nothing else waits, but {hung}"),
            (None, Some(failures)) => format!("not behind, but {failures}"),
            (None, None) => "not behind".to_owned(),
        };
    }
    let behind = if lag == 1 { "1 message behind".to_owned() } else { format!("{lag} messages behind") };
    match obstacle(view) {
        Some(obstacle) => format!("{behind}; {obstacle}"),
        None => format!("{behind}{}", progress(view, lag)),
    }
}

/// What keeps messages from being handled.
fn obstacle(view: &QueueView) -> Option<String> {
    if let Some(pause) = &view.paused {
        return Some(format!("it is paused {}", by(pause)));
    }
    if view.partitions.iter().all(|at| at.owner.is_none()) {
        let queue = &view.queue;
        return Some(match view.workers {
            0 => format!("nobody handles it: `menagerie worker {queue} -- COMMAND` does"),
            // They have just started, or wait for a journal, or for the session of an owner that has died.
            1 => "1 worker serves it, and has no partition yet; if that lasts, its log says why".to_owned(),
            many => {
                format!(
                    "{many} workers serve it, and have no partition yet; if that lasts, their logs say why"
                )
            }
        });
    }
    let single = || if failing_count(view) == 1 { blocked(view) } else { None };
    paused_worker(view)
        .or_else(|| silent_owner(view))
        .or_else(single)
        .or_else(|| only_failures(view))
        .or_else(|| hung(view))
        .or_else(|| blocked(view))
        .or_else(|| unowned(view))
}

fn by(pause: &Pause) -> String {
    let why = pause.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    format!("by {}{why}", pause.by)
}

/// A paused worker whose messages wait.
fn paused_worker(view: &QueueView) -> Option<String> {
    let at = view.partitions.iter().find(|at| at.owner_paused && at.lag > 0)?;
    let worker = at.owner.as_ref()?;
    let by = at.owner_pause.as_ref().map_or(String::new(), |pause| format!(" {}", by(pause)));
    Some(format!("worker {worker} is paused{by}; `menagerie queue resume --worker {worker}` lets it go on"))
}

/// Tasks that all fail, and why they do.
fn only_failures(view: &QueueView) -> Option<String> {
    let recent = || view.partitions.iter().filter_map(|at| at.recent.as_ref());
    let (done, failed): (u64, u64) =
        recent().fold((0, 0), |(done, failed), recent| (done + recent.done, failed + recent.failed));
    // What has been running for long may yet succeed, and says more about what is in the way.
    if done > 0 || failed == 0 || longest_running(view).is_some_and(|(_, running)| is_long(running)) {
        return None;
    }
    let mut errors: BTreeMap<&str, u64> = BTreeMap::new();
    for (error, count) in recent().filter_map(|recent| recent.error.as_ref()) {
        *errors.entry(error).or_default() += count;
    }
    let most = errors.into_iter().max_by_key(|(_, count)| *count).map_or("", |(error, _)| error);
    let times = if failed == 1 { "once".to_owned() } else { format!("{failed} times") };
    Some(format!("every task fails, {times} within the last minute; most often: {most}"))
}

/// An owner that works, and does not say so any more.
fn silent_owner(view: &QueueView) -> Option<String> {
    let is_silent =
        |at: &&PartitionView| at.running_count > 0 && at.told_ms.is_some_and(|told| told >= SILENT_MS);
    let at = view.partitions.iter().filter(|at| at.lag > 0).find(is_silent)?;
    let (owner, told) = (at.owner.as_ref()?, precise(Duration::from_millis(at.told_ms?)));
    Some(format!(
        "worker {owner} of {} has said nothing for {told}: if it has died, another one takes over when its session expires",
        at.partition
    ))
}

/// How many messages have failed lately, as far as that is known.
fn failing_count(view: &QueueView) -> u64 {
    let given_up = |at: &PartitionView| at.recent.as_ref().map_or(0, |recent| recent.given_up);
    view.partitions.iter().map(|at| at.retrying_count + given_up(at)).sum()
}

/// A message that has failed, and that others must not overtake: most of those that wait.
fn blocked(view: &QueueView) -> Option<String> {
    if view.handling.retry() != Retry::Block {
        return None;
    }
    // The failed message itself is one of those that wait.
    let blocked = view.partitions.iter().filter(|at| at.lag > 1 && at.lag * 2 >= view.lag());
    let (at, retrying) =
        blocked.filter_map(|at| Some((at, at.retrying.first()?))).max_by_key(|(at, _)| at.lag)?;
    let next = precise(Duration::from_millis(retrying.in_ms));
    Some(format!(
        "message {} of {} keeps others waiting: attempt {} of {} comes in {next}; last error: {}",
        retrying.id, at.partition, retrying.attempt, retrying.attempts, retrying.error
    ))
}

/// Partitions that no worker has, while others are handled.
fn unowned(view: &QueueView) -> Option<String> {
    let mut unowned = view.partitions.iter().filter(|at| at.owner.is_none() && at.lag > 0);
    let first = &unowned.next()?.partition;
    let others = match unowned.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "nobody handles {first}{others} yet: if a worker has just died, another one takes over; else the workers' logs say why not"
    ))
}

/// The message that has been running longest, if that is long, and nothing else of its partition gets done.
fn hung(view: &QueueView) -> Option<String> {
    let (at, longest) = longest_running(view).filter(|(_, longest)| is_long(longest))?;
    let time = precise(Duration::from_millis(longest.for_ms));
    let worker = at.owner.as_ref().map_or(String::new(), |owner| format!(" at {owner}"));
    let silent =
        if longest.silent { ", and its program has not answered: does it flush its output?" } else { "" };
    Some(format!("message {} of {} has been running for {time}{worker}{silent}", longest.id, at.partition))
}

/// Of those that nothing has ended beside, since they began.
fn longest_running(view: &QueueView) -> Option<(&PartitionView, &RunningView)> {
    let running = view.partitions.iter().flat_map(|at| at.running.iter().map(move |running| (at, running)));
    let alone = running.filter(|(at, running)| at.last_end_ms.is_none_or(|end| end >= running.for_ms));
    alone.max_by_key(|(_, running)| running.for_ms)
}

fn is_long(running: &RunningView) -> bool {
    Duration::from_millis(running.for_ms) >= LONG
}

/// How it goes if nothing is in the way.
fn progress(view: &QueueView, lag: u64) -> String {
    let mut behind: BTreeMap<&Name, usize> = BTreeMap::new();
    for owner in view.partitions.iter().filter(|at| at.lag > 0).filter_map(|at| at.owner.as_ref()) {
        *behind.entry(owner).or_default() += 1;
    }
    let more = match (view.partitions.len(), view.workers) {
        (partitions, workers) if workers > partitions => {
            format!("; more workers would not help: there are {workers} for {partitions} partitions")
        }
        _ if behind.values().any(|partitions| *partitions > 1) => "; more workers would help".to_owned(),
        _ => "; every partition that is behind has a worker of its own".to_owned(),
    };
    // Rates are averages over up to a minute: nothing follows from them while nothing ends.
    let moves = |at: &PartitionView| at.lag > 0 && at.last_end_ms.is_some_and(|end| end < STILL_MS);
    let rate = view.rate().filter(|_| view.partitions.iter().any(moves));
    let rates = rate.and_then(|rate| Some((rate.put?, rate.handled)));
    match rates {
        Some((put, handled)) if handled > put => {
            let left = lag as f64 / (handled - put);
            let left = precise(Duration::from_secs(left.ceil() as u64));
            format!(", and catching up: done in about {left}")
        }
        Some((put, handled)) if put > handled => format!(", and falling further behind{more}"),
        Some(_) | None => more,
    }
}

#[cfg(test)]
mod tests {
    use menagerie_znodes::queues::{Handling, Keep, Pause};

    use super::*;
    use crate::admin::show::{Rate, RetryingView};
    use crate::core::activity::Recent;

    const ID: &str = "3f9c1b52-7a64-11f0-8d96-bb488460f550";

    /// A partition with an owner that works.
    fn partition(number: u16, lag: u64) -> PartitionView {
        PartitionView {
            partition: format!("mail-{number}").parse().unwrap(),
            owner: Some(Name::new(format!("w{number}")).unwrap()),
            owner_paused: false,
            owner_pause: None,
            cursor: "0.0000000".to_owned(),
            ahead_ms: None,
            messages: lag,
            lag,
            oldest_ms: None,
            oldest_since_ms: None,
            delayed: 0,
            failed: 0,
            running: Vec::new(),
            running_count: 0,
            retrying: Vec::new(),
            retrying_count: 0,
            last_end_ms: Some(100),
            told_ms: Some(100),
            recent: Some(Recent { seconds: 60, done: 10, ..Recent::default() }),
            rate: None,
        }
    }

    fn queue(partitions: Vec<PartitionView>) -> QueueView {
        QueueView {
            queue: "mail".parse().unwrap(),
            journal: "main".to_owned(),
            keep: Keep::default(),
            handling: Handling::default(),
            paused: None,
            failed: 0,
            failed_uncounted: 0,
            workers: 2,
            partitions,
            without_cursor: Vec::new(),
        }
    }

    fn failing(number: u16, error: &str, times: u64) -> PartitionView {
        let error = Some((error.to_owned(), times));
        let recent = Recent { seconds: 60, failed: times, error, ..Recent::default() };
        PartitionView { recent: Some(recent), retrying_count: 2, last_end_ms: None, ..partition(number, 4) }
    }

    #[test]
    fn whoever_is_not_behind_has_nothing_in_the_way() {
        assert_eq!(verdict(&queue(vec![partition(1, 0)])), "not behind");
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        let paused = Some(Pause { by: "ann@web".to_owned(), reason: Some("upgrade".to_owned()) });
        let paused = QueueView { paused, ..queue(vec![partition(1, 4)]) };
        assert_eq!(verdict(&paused), "4 messages behind; it is paused by ann@web: upgrade");
        let nobody = PartitionView { owner: None, recent: None, ..partition(1, 1) };
        let without_workers = QueueView { workers: 0, ..queue(vec![nobody.clone()]) };
        let expected = "1 message behind; nobody handles it: `menagerie worker mail -- COMMAND` does";
        assert_eq!(verdict(&without_workers), expected);
        let starting = verdict(&queue(vec![nobody]));
        assert!(
            starting.starts_with("1 message behind; 2 workers serve it, and have no partition yet"),
            "{starting}"
        );
        let owner_pause = Some(Pause { by: "ann@web".to_owned(), reason: Some("upgrade".to_owned()) });
        let resting = PartitionView { owner_paused: true, owner_pause, ..partition(1, 4) };
        let expected = "4 messages behind; worker w1 is paused by ann@web: upgrade; \
                        `menagerie queue resume --worker w1` lets it go on";
        assert_eq!(verdict(&queue(vec![resting])), expected);
        let without = PartitionView { owner: None, recent: None, ..partition(2, 1) };
        let some = verdict(&queue(vec![partition(1, 4), without]));
        assert!(some.starts_with("5 messages behind; nobody handles mail-2 yet"), "{some}");
    }

    #[test]
    fn tasks_that_all_fail_are_told_with_their_most_frequent_error() {
        let all = queue(vec![failing(1, "no route", 3), failing(2, "no such customer", 5)]);
        let expected = "8 messages behind; every task fails, 8 times within the last minute; most often: no such customer";
        assert_eq!(verdict(&all), expected);
        let some = verdict(&queue(vec![failing(1, "no route", 3), partition(2, 4)]));
        assert!(!some.contains("every task"), "{some}");
        // Each is given up at once.
        let given_up = PartitionView { lag: 0, ..failing(1, "no route", 1) };
        let expected = "not behind, but every task fails, once within the last minute; most often: no route";
        assert_eq!(verdict(&queue(vec![given_up])), expected);
    }

    #[test]
    fn a_message_that_hangs_is_named_if_nothing_else_gets_done() {
        let running = |silent| RunningView {
            id: ID.parse().unwrap(),
            attempt: 1,
            for_ms: 600_000,
            since_ms: 0,
            silent,
        };
        let still = Some(Recent::default());
        let waits =
            PartitionView { recent: still, running_count: 1, last_end_ms: Some(700_000), ..partition(1, 4) };
        let hung = PartitionView { running: vec![running(false)], ..waits.clone() };
        let expected = format!("4 messages behind; message {ID} of mail-1 has been running for 10m at w1");
        assert_eq!(verdict(&queue(vec![hung.clone()])), expected);
        let silent = PartitionView { running: vec![running(true)], ..waits };
        assert!(verdict(&queue(vec![silent])).ends_with("does it flush its output?"));
        let ack_before = PartitionView { lag: 0, ..hung.clone() };
        let expected =
            format!("nothing else waits, but message {ID} of mail-1 has been running for 10m at w1");
        assert_eq!(verdict(&queue(vec![ack_before])), expected);
        let one_failure = queue(vec![hung.clone(), failing(2, "no route", 1)]);
        assert!(verdict(&one_failure).contains("has been running for 10m"), "{}", verdict(&one_failure));
        let busy = PartitionView { last_end_ms: Some(20_000), ..hung.clone() };
        assert!(!verdict(&queue(vec![busy])).contains("has been running"));
        // Busy until it began: averages say that all is well.
        let rate = Some(Rate { put: Some(1.0), handled: 10.0 });
        let before = PartitionView { recent: partition(1, 4).recent, rate, ..hung.clone() };
        assert!(verdict(&queue(vec![before.clone()])).contains("has been running for 10m"));
        let running = vec![RunningView { for_ms: 12_000, ..running(false) }];
        let soon = PartitionView { running, last_end_ms: Some(12_000), ..before };
        let expected = "4 messages behind; more workers would not help: there are 2 for 1 partitions";
        assert_eq!(verdict(&queue(vec![soon])), expected, "neither catching up nor falling behind");
        let dead = verdict(&queue(vec![PartitionView { told_ms: Some(17_000), ..hung }]));
        assert!(dead.contains("worker w1 of mail-1 has said nothing for 17s"), "{dead}");
    }

    #[test]
    fn a_failed_message_keeps_others_waiting_only_where_it_blocks() {
        let id = ID.parse().unwrap();
        let error = "no route".to_owned();
        let retrying = vec![RetryingView { id, attempt: 2, attempts: 5, in_ms: 12_000, next_ms: 0, error }];
        let recent = Some(Recent { failed: 3, error: Some(("no route".to_owned(), 3)), ..Recent::default() });
        let at = PartitionView { retrying, retrying_count: 1, recent, ..partition(1, 4) };
        let blocked = verdict(&queue(vec![at.clone()]));
        assert!(
            blocked.contains("keeps others waiting: attempt 2 of 5 comes in 12s; last error: no route"),
            "{blocked}"
        );
        let elsewhere = PartitionView { lag: 400, ..partition(2, 4) };
        let little = verdict(&queue(vec![at.clone(), elsewhere]));
        assert!(!little.contains("keeps others"), "{little}");
        let alone = verdict(&queue(vec![PartitionView { lag: 1, ..at.clone() }]));
        assert!(!alone.contains("keeps others"), "{alone}");
        let later = Handling { retry: Some(Retry::Later), ..Handling::default() };
        assert!(!verdict(&QueueView { handling: later, ..queue(vec![at]) }).contains("keeps others"));
    }

    #[test]
    fn more_workers_help_only_where_partitions_are_left() {
        let shared =
            |owner: &str| PartitionView { owner: Some(Name::new(owner).unwrap()), ..partition(1, 2) };
        let few = verdict(&queue(vec![shared("w1"), shared("w1")]));
        assert_eq!(few, "4 messages behind; more workers would help");
        let idle = PartitionView { lag: 0, ..shared("w1") };
        let one = verdict(&queue(vec![shared("w1"), idle, shared("w2")]));
        assert_eq!(one, "4 messages behind; every partition that is behind has a worker of its own");
        let many = QueueView { workers: 5, ..queue(vec![shared("w1"), shared("w2")]) };
        assert!(verdict(&many).contains("would not help: there are 5 for 2 partitions"));
        let rate =
            |put, handled| PartitionView { rate: Some(Rate { put: Some(put), handled }), ..shared("w1") };
        assert_eq!(
            verdict(&queue(vec![rate(1.0, 2.0)])),
            "2 messages behind, and catching up: done in about 2s"
        );
        assert!(verdict(&queue(vec![rate(2.0, 1.0)])).contains("falling further behind"));
    }
}
