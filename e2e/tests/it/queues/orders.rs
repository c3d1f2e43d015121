//! Orders and retries of queues, with workers that are killed in mid-work, against what was promised.

use std::collections::{BTreeMap, BTreeSet};

use menagerie_journal::{MessageId, Ticks};
use menagerie_testkit::Process;
use menagerie_znodes::Payload as _;
use menagerie_znodes::queues::{self, Gaps, Order, Retry};
use serde_json::Value;

use super::{Fleet, ready};
use crate::cli::User;

const MESSAGES: u32 = 120;
const KEYS: u32 = 16;
const PARTITIONS: u16 = 2;
const CONCURRENCY: usize = 8;

/// The task: logs begin and end of each run. It fails as often as the message says; that is counted in folders, because
/// after a crash attempts may be counted that nobody made. When as many are done as `trap` says, one run takes it, and
/// hangs until it is killed.
const TASK: &str = r#"
read -r number key fails
told() { echo "$1 $number $key $MENAGERIE_PARTITION $MENAGERIE_ATTEMPT $MENAGERIE_FENCE $$ $MENAGERIE_MESSAGE_ID" >> log; }
told begin
if [ -e trap ] && read -r enough < trap && [ "$(grep -c ^done log)" -ge "$enough" ] && mv trap "trapped-$enough-$$"; then
  echo "$number" > "trapped-$enough"
  sleep 600
fi
sleep 0.02
while [ "$fails" -gt 0 ]; do
  if mkdir "failed-$number-$fails"; then told failed; exit 1; fi
  fails=$((fails - 1))
done
told done
"#;

/// How often a message fails.
fn fails(number: u32) -> u32 {
    match number % 40 {
        7 | 27 => 1,
        11 => 2,
        _ => 0,
    }
}

/// A message that was put.
struct Put {
    id: String,
    partition: u16,
    /// Its position, in ticks.
    ticks: u64,
}

/// The ticks of a position, counted as gaps count them: not from 1970, as cursors do, but as UUIDs do.
fn ticks(seconds: &str) -> u64 {
    let MessageId(Ticks(ticks)) = MessageId::from_seconds(seconds).expect("a position");
    ticks
}

fn put(user: &User) -> Vec<Put> {
    let line = |number| {
        let key = number % KEYS;
        format!("{{\"body\":\"{number} {key} {}\",\"key\":\"customer-{key}\"}}\n", fails(number))
    };
    let lines: String = (0..MESSAGES).map(line).collect();
    let done =
        user.run_with(&["queue", "put", "mail", "--file", "-", "--jsonl", "-o", "json"], lines.as_bytes());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let put = |line: &str| {
        let put: Value = serde_json::from_str(line).expect("it is JSON");
        let text = |name: &str| put[name].as_str().expect("a text").to_owned();
        let partition = text("partition").strip_prefix("mail-").and_then(|p| p.parse().ok());
        Put {
            id: text("id"),
            partition: partition.expect("a partition of mail"),
            ticks: ticks(&text("position")),
        }
    };
    let all: Vec<Put> = done.text().lines().map(put).collect();
    assert_eq!(all.len(), MESSAGES as usize);
    let partitions: BTreeSet<u16> = all.iter().map(|put| put.partition).collect();
    assert_eq!(partitions, (1..=PARTITIONS).collect(), "keys are in all partitions");
    all
}

/// A line of the log.
#[derive(Debug)]
struct Told {
    what: String,
    number: u32,
    key: u32,
    partition: u16,
    attempt: u32,
    /// Whose run it is: that of the partition's owner with this fence.
    fence: String,
    pid: u32,
    id: String,
}

fn told(line: &str) -> Option<Told> {
    let mut words = line.split(' ');
    let mut word = || words.next();
    Some(Told {
        what: word()?.to_owned(),
        number: word()?.parse().ok()?,
        key: word()?.parse().ok()?,
        partition: word()?.parse().ok()?,
        attempt: word()?.parse().ok()?,
        fence: word()?.to_owned(),
        pid: word()?.parse().ok()?,
        id: word()?.to_owned(),
    })
}

fn log(fleet: &Fleet) -> Vec<Told> {
    let text = fleet.file("log");
    // The last line may be on its way.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| told(line).unwrap_or_else(|| panic!("no line of a task: {line:?}"))).collect()
}

/// What was recorded as done when the log had so many lines.
struct Recorded {
    lines: usize,
    messages: BTreeSet<u32>,
}

impl Recorded {
    /// Records are never taken back, so cursor and gaps need not be of the same moment.
    fn now(fleet: &Fleet, put: &[Put]) -> Self {
        let mut messages = BTreeSet::new();
        for partition in 1..=PARTITIONS {
            let name = format!("mail-{partition}").parse().expect("a partition");
            let at = |path: &str| fleet.user.run(&["zk", "get", &format!("/menagerie{path}")]);
            let cursor = at(queues::cursor(&name).path());
            assert_eq!(cursor.code, Some(0), "{}", cursor.stderr);
            let cursor = ticks(cursor.text().trim());
            let gaps = at(queues::gaps(&name).path());
            let gaps = (gaps.code == Some(0)).then(|| Gaps::decode(gaps.text().as_bytes()).expect("gaps"));
            let is_done = |ticks: u64| {
                ticks <= cursor || gaps.as_ref().is_some_and(|gaps| gaps.is_done(gaps.after, ticks))
            };
            let done = (0..).zip(put).filter(|(_, put)| put.partition == partition && is_done(put.ticks));
            messages.extend(done.map(|(number, _)| number));
        }
        Self { lines: log(fleet).len(), messages }
    }
}

/// What was promised, and what runs, as the log tells it.
struct Model<'a> {
    order: Order,
    retry: Retry,
    put: &'a [Put],
    /// Running messages, and by whom: the process, and the fence of its partition's owner.
    running: BTreeMap<u32, (u32, &'a str)>,
    begun: BTreeSet<u32>,
    /// The fences under which a message was done.
    done: BTreeMap<u32, Vec<&'a str>>,
    /// The owners of each partition.
    owners: BTreeMap<u16, BTreeSet<&'a str>>,
    /// Largest number of messages of one partition that ran at a time.
    most: usize,
}

impl<'a> Model<'a> {
    fn of(order: Order, retry: Retry, put: &'a [Put], log: &'a [Told]) -> Self {
        let (running, begun, done, owners) = Default::default();
        let mut model = Self { order, retry, put, running, begun, done, owners, most: 0 };
        for told in log {
            let put = &put[told.number as usize];
            assert_eq!((&told.id, told.partition), (&put.id, put.partition), "{told:?}");
            assert_eq!(told.key, told.number % KEYS, "{told:?}");
            match told.what.as_str() {
                "begin" => model.begin(told),
                _ => model.end(told),
            }
        }
        model
    }

    /// Whether a message may begin only when one that was put before it is done.
    fn waits_for(&self, number: u32, before: u32) -> bool {
        let is_of_partition = self.put[number as usize].partition == self.put[before as usize].partition;
        match (self.order, self.retry) {
            (Order::Partition, Retry::Block) => is_of_partition,
            (Order::Partition, Retry::Later) => is_of_partition && fails(before) == 0,
            (Order::Key, _) => number % KEYS == before % KEYS,
            (Order::None, _) => false,
        }
    }

    fn begin(&mut self, told: &'a Told) {
        let number = told.number;
        // A new owner begins when nothing of those before it runs any more; if it did, its end would tell.
        let put = self.put;
        let is_gone =
            |other: u32, fence: &str| put[other as usize].partition == told.partition && fence != told.fence;
        self.running.retain(|other, (_, fence)| !is_gone(*other, fence));
        let passed = (0..number)
            .filter(|before| self.waits_for(number, *before))
            .find(|before| !self.done.contains_key(before));
        assert_eq!(passed, None, "{told:?} begins before it ({:?}, {:?})", self.order, self.retry);
        let twice = self.running.insert(number, (told.pid, &told.fence));
        assert_eq!(twice, None, "{told:?} runs twice at a time");
        let is_first = self.begun.insert(number);
        assert!(is_first || told.attempt > 1, "{told:?} is not told that it ran before");
        let is_beside = |other: &&u32| put[**other as usize].partition == told.partition;
        self.most = self.most.max(self.running.keys().filter(is_beside).count());
        self.owners.entry(told.partition).or_default().insert(&told.fence);
    }

    fn end(&mut self, told: &'a Told) {
        let run = self.running.remove(&told.number);
        assert_eq!(run, Some((told.pid, told.fence.as_str())), "{told:?} ran on after its owner");
        if told.what == "done" {
            let done = self.done.entry(told.number).or_default();
            assert!(!done.contains(&told.fence.as_str()), "{told:?} was done before, and nobody had died");
            done.push(&told.fence);
        }
    }

    /// Checks what can be said when all is done.
    fn finish(&self) {
        let lost: Vec<u32> = (0..MESSAGES).filter(|number| !self.done.contains_key(number)).collect();
        assert!(lost.is_empty(), "never done: {lost:?}");
        let in_order = (self.order, self.retry) == (Order::Partition, Retry::Block);
        match self.order {
            Order::Partition => assert_eq!(self.most, 1, "one at a time"),
            Order::Key | Order::None => assert!(self.most > 2, "side by side: {}", self.most),
        }
        // docs/queues.md, "When something dies".
        let repeated_max = if in_order { 2 } else { 2 * (CONCURRENCY - 1 + CONCURRENCY) };
        for partition in 1..=PARTITIONS {
            let crashes = self.owners[&partition].len() - 1;
            let done =
                self.done.iter().filter(|(number, _)| self.put[**number as usize].partition == partition);
            let repeated: usize = done.map(|(_, runs)| runs.len() - 1).sum();
            assert!(repeated <= crashes * repeated_max, "{repeated} of mail-{partition} were repeated");
        }
    }
}

/// Starts workers, and kills both in mid-work: when so many are done, and one hangs. Returns which one.
fn kill_in_mid_work(
    fleet: &Fleet,
    put: &[Put],
    enough: usize,
    start: impl Fn() -> [Process; 2],
) -> (u32, Recorded) {
    fleet.user.write("trap", &format!("{enough}\n"));
    let workers = start();
    let trapped = fleet.wait_for_file(&format!("trapped-{enough}")).trim().parse().expect("a number");
    let recorded = Recorded::now(fleet, put);
    for mut worker in workers {
        worker.kill();
    }
    (trapped, recorded)
}

fn in_order(order: Order, retry: Retry) {
    let [order_name, retry_name] =
        [format!("{order:?}"), format!("{retry:?}")].map(|name| name.to_lowercase());
    let user =
        User::new(&format!("queues-order-{order_name}-{retry_name}")).with("MENAGERIE_SESSION_TIMEOUT", "2s");
    let fleet = Fleet::of(user);
    fleet.user.write("task.sh", TASK);
    let partitions = PARTITIONS.to_string();
    let own =
        ["--partitions", &partitions, "--order", &order_name, "--retry", &retry_name, "--attempts", "9"];
    fleet.user.ok(&[&["queue", "create", "mail"], &own[..]].concat());
    let put = put(&fleet.user);
    let concurrency = CONCURRENCY.to_string();
    let start = || {
        let worker = || fleet.starting("mail", &["--concurrency", &concurrency], &["sh", "task.sh"]);
        let workers = [worker(), worker()];
        workers.iter().for_each(|worker| drop(ready(worker)));
        workers
    };
    let kills = [30, 60].map(|enough| kill_in_mid_work(&fleet, &put, enough, start));
    let _workers = start();
    fleet.wait_until_drained("mail");

    let log = log(&fleet);
    Model::of(order, retry, &put, &log).finish();
    let begins = |number: u32| log.iter().filter(move |told| told.what == "begin" && told.number == number);
    for (trapped, recorded) in kills {
        assert!(begins(trapped).count() > 1, "{trapped} ran when its worker was killed");
        assert!(recorded.messages.len() > 20, "only {:?} were recorded", recorded.messages);
        let again: Vec<&Told> = log[recorded.lines..]
            .iter()
            .filter(|told| told.what == "begin" && recorded.messages.contains(&told.number))
            .collect();
        assert!(again.is_empty(), "recorded as done, and begun again: {again:?}");
    }
}

#[test]
fn by_partition_and_what_is_behind_a_failure_waits() {
    in_order(Order::Partition, Retry::Block);
}

#[test]
fn by_partition_and_a_failed_message_comes_back_later() {
    in_order(Order::Partition, Retry::Later);
}

#[test]
fn by_key_and_what_is_behind_a_failure_waits() {
    in_order(Order::Key, Retry::Block);
}

#[test]
fn by_key_and_only_the_key_of_a_failure_waits() {
    in_order(Order::Key, Retry::Later);
}

#[test]
fn without_order_and_what_is_behind_a_failure_waits() {
    in_order(Order::None, Retry::Block);
}

#[test]
fn without_order() {
    in_order(Order::None, Retry::Later);
}
