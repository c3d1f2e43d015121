//! Programs as tasks.

use std::ffi::OsString;
use std::fs;
use std::num::NonZeroU32;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use menagerie_queues::failed::FailureRecord;
use menagerie_queues::runner::exec::Exec;
use menagerie_queues::runner::serve::{Greeting, Serve};
use menagerie_queues::runner::{Limits, Program, Shape};
use menagerie_queues::task::{Outcome, Work};
use menagerie_queues::worker::Options;
use menagerie_testkit::{binary, eventually_async};

use crate::world::{LONG, Log, World, options};

pub fn script(text: &str, folder: &Path) -> Program {
    let command: Vec<OsString> = vec!["sh".into(), "-c".into(), text.into(), "sh".into(), folder.into()];
    let grace = Duration::from_millis(300);
    Program {
        command,
        guard: binary().to_owned(),
        grace,
        lease_grace: grace.min(Duration::from_millis(250)),
        limits: Limits::default(),
        user: None,
    }
}

/// Builds the executable before any session starts: that takes longer than sessions last.
pub fn world(name: &str) -> World {
    binary();
    World::new(name)
}

fn attempts(worker: &str, queue: &str, attempts: u32) -> Options {
    let mut options = options(worker, &[queue]);
    options.failure.attempts = NonZeroU32::new(attempts);
    options
}

async fn failure_records(world: &World, topic: &str) -> Vec<(String, FailureRecord)> {
    let messages = world.messages(topic, 1).await.into_iter();
    let record = |message: menagerie_journal::Message| {
        let body = String::from_utf8_lossy(&message.body).into_owned();
        (body, serde_json::from_slice(&message.meta).unwrap())
    };
    messages.map(record).collect()
}

#[tokio::test]
async fn one_process_runs_per_message_and_its_exit_code_is_the_outcome() {
    let world = world("exec");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["done", "for good", "again", "killed", "last"]).await;
    let folder = tempfile::tempdir().unwrap();
    let task = Exec::new(script(
        r#"read -r body || true
           echo "$MENAGERIE_QUEUE-$MENAGERIE_PARTITION $MENAGERIE_ATTEMPT $body" >> "$1/log"
           [ -n "$MENAGERIE_FENCE" ] && [ -n "$MENAGERIE_MESSAGE_ID" ] || exit 65
           case "$body" in
             "for good") echo a reason >&2; exit 65 ;;
             again) [ "$MENAGERIE_ATTEMPT" = 2 ] ;;
             killed) kill -KILL $$ ;;
           esac"#,
        folder.path(),
    ));
    let worker = world.start(&session, attempts("w1", "mail", 2), task);
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    let expected = ["1 done", "1 for good", "1 again", "2 again", "1 killed", "2 killed", "1 last"];
    assert_eq!(log.lines().collect::<Vec<_>>(), expected.map(|line| format!("mail-1 {line}")));
    let failed = failure_records(&world, "mail.failed").await;
    let errors: Vec<_> =
        failed.iter().map(|(body, record)| (body.as_str(), record.error.as_str(), record.attempts)).collect();
    assert_eq!(
        errors,
        [
            ("for good", "it exited with code 65: failed for good", 1),
            ("killed", "it was ended by signal 9", 2)
        ]
    );
    assert_eq!(failed[0].1.output, "a reason\n");
}

#[tokio::test]
async fn a_program_that_exceeds_its_time_or_memory_limit_is_ended() {
    let world = world("limits");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["slow", "greedy", "good"]).await;
    let folder = tempfile::tempdir().unwrap();
    let mut program = script(
        r#"read -r body || true
           case "$body" in
             slow) trap '' TERM; sleep 1000 & sleep 1000 ;;
             greedy) sleep 0.2; x=$(head -c 300000000 /dev/zero | tr '\0' x); exit 0 ;;
           esac"#,
        folder.path(),
    );
    program.limits = Limits { time: Some(Duration::from_secs(5)), memory_bytes: Some(100 << 20) };
    let worker = world.start(&session, attempts("w1", "mail", 1), Exec::new(program));
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    let failed = failure_records(&world, "mail.failed").await;
    assert_eq!(failed.iter().map(|(body, _)| body.as_str()).collect::<Vec<_>>(), ["slow", "greedy"]);
    assert_eq!(failed[0].1.error, "it took longer than its time limit of 5s");
}

#[tokio::test]
async fn a_program_over_its_time_limit_that_ignores_sigterm_has_failed_even_with_a_grace_longer_than_a_lease()
{
    let world = world("stubborn");
    let session = world.session().await;
    world.create(&session, "mail", 2).await;
    let folder = tempfile::tempdir().unwrap();
    for (queue, answers) in [("mail-1", false), ("mail-2", true)] {
        world.put_to(&session, queue, &["slow"]).await;
        let mut program = script("trap '' TERM; while :; do sleep 0.1; done", folder.path());
        program.grace = LONG;
        program.limits.time = Some(Duration::from_secs(1));
        let options = attempts("w1", "mail", 1);
        let worker = match answers {
            true => world.start(&session, options, Serve::new(program, Shape::One, Greeting::None)),
            false => world.start(&session, options, Exec::new(program)),
        };
        world.drained(&session, "mail", 2).await;
        worker.finish().await;
    }
    let errors: Vec<String> =
        failure_records(&world, "mail.failed").await.into_iter().map(|(_, record)| record.error).collect();
    let replies = "it took longer than its time limit of 1s; does it flush its output?";
    assert_eq!(errors, ["it took longer than its time limit of 1s", replies]);
}

#[tokio::test]
async fn a_program_need_not_read_and_may_be_missing() {
    let world = world("deaf");
    let session = world.session().await;
    for queue in ["deaf", "missing"] {
        world.create(&session, queue, 1).await;
    }
    let message = menagerie_journal::NewMessage::new(vec![b'x'; 4 << 20]);
    let mut putter = world.putter(&session, "deaf").await;
    putter.put(vec![(menagerie_queues::admin::Destination::Any, message)]).await.unwrap();
    world.put_to(&session, "missing-1", &["one"]).await;
    let folder = tempfile::tempdir().unwrap();
    let deaf = world.start(&session, options("w1", &["deaf"]), Exec::new(script("exec true", folder.path())));
    world.drained(&session, "deaf", 1).await;
    deaf.finish().await;
    // A missing program is not the message's fault: the message waits for it.
    let mut program = script("", folder.path());
    let missing = folder.path().join("program");
    program.command = vec![missing.clone().into()];
    let worker = world.start(&session, attempts("w2", "missing", 1), Exec::new(program));
    eventually_async("it tries to begin", async || {
        worker.view().await.partitions.first().filter(|lane| !lane.running.is_empty()).map(drop)
    })
    .await;
    let new = folder.path().join("new");
    fs::write(&new, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&new, &missing).unwrap();
    world.drained(&session, "missing", 1).await;
    worker.finish().await;
    assert!(world.messages("missing.failed", 1).await.is_empty());
}

/// A program that read a pipe would take the worker's death for the end of the message.
#[tokio::test]
async fn the_whole_body_is_there_before_its_program_starts_and_does_not_change() {
    let world = world("whole");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    for body in [vec![b'x'; 5 << 20], Vec::new()] {
        let message = menagerie_journal::NewMessage::new(body);
        let mut putter = world.putter(&session, "mail").await;
        putter.put(vec![(menagerie_queues::admin::Destination::Any, message)]).await.unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let text = r#"size=$(stat -Lc %s /dev/stdin)
                  { printf y >&0; } 2>/dev/null && exit 65
                  { printf y > /dev/stdin; } 2>/dev/null && exit 65
                  echo "$size $(wc -c)" >> "$1/sizes""#;
    let worker = world.start(&session, attempts("w1", "mail", 1), Exec::new(script(text, folder.path())));
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    assert_eq!(fs::read_to_string(folder.path().join("sizes")).unwrap(), "5242880 5242880\n0 0\n");
}

#[tokio::test]
async fn a_program_that_dies_while_idle_costs_no_attempt() {
    let world = world("idle-death");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["a"]).await;
    let folder = tempfile::tempdir().unwrap();
    let text = format!(r#"echo $$ > "$1/new"; mv "$1/new" "$1/pid"; {SERVER}"#);
    let serve = Serve::new(script(&text, folder.path()), Shape::One, Greeting::None);
    let worker = world.start(&session, attempts("w1", "mail", 1), serve);
    world.drained(&session, "mail", 1).await;
    let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
    let guard = parent(pid.trim());
    let killed = std::process::Command::new("kill").args(["-KILL", pid.trim()]).status().unwrap();
    assert!(killed.success());
    eventually_async("its guard has said so", async || (!runs(&guard)).then_some(())).await;
    world.put_to(&session, "mail-1", &["b"]).await;
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    assert!(world.messages("mail.failed", 1).await.is_empty());
}

#[tokio::test]
async fn an_idle_program_outlives_any_lease() {
    let world = world("idle-long");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["a"]).await;
    let folder = tempfile::tempdir().unwrap();
    let text = format!(r#"echo $$ >> "$1/pids"; {SERVER}"#);
    let serve = Serve::new(script(&text, folder.path()), Shape::One, Greeting::None);
    let worker = world.start(&session, attempts("w1", "mail", 1), serve);
    world.drained(&session, "mail", 1).await;
    // Longer than any lease it can have had.
    let lease = *session.term().valid_until().borrow();
    tokio::time::sleep(lease - menagerie_kernel::Moment::now()).await;
    world.put_to(&session, "mail-1", &["b"]).await;
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    let pids = fs::read_to_string(folder.path().join("pids")).unwrap();
    assert_eq!(pids.lines().count(), 1, "it was started again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_is_released_only_after_its_program_has_ended_however_long_its_grace() {
    let world = world("patience");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["one"]).await;
    let folder = tempfile::tempdir().unwrap();
    let text = r#"trap 'sleep 2; echo ended > "$1/ended"; exit 0' TERM
                  echo $$ > "$1/new"; mv "$1/new" "$1/pid"; while :; do sleep 0.1; done"#;
    let mut program = script(text, folder.path());
    program.grace = Duration::from_secs(60);
    let mut options = options("w1", &["mail"]);
    options.stop_timeout = Duration::from_millis(100);
    let worker = world.start(&session, options, Exec::new(program));
    let file = |name: &str| fs::read_to_string(folder.path().join(name)).ok();
    let pid = eventually_async("the program runs", async || file("pid")).await;
    worker.abort().await;
    assert!(!runs(pid.trim()));
    assert_eq!(file("ended").as_deref(), Some("ended\n"), "it had its grace");
}

/// A program that answers each line; the message says what to do.
const SERVER: &str = r#"
    echo start >> "$1/starts"
    while read -r line; do
      id=$(printf %s "$line" | sed 's/.*"id":"\([^"]*\)".*/\1/')
      case "$line" in
        *'"body":"chatty"'*) echo 'this is { no answer'; printf '{"id":"%s","ok":true}\n' "somebody else" "$id" "$id" ;;
        *'"body":"garbage"'*) echo 'before it'; printf '{"id":"%s","ok":"yes"}\n' "$id" ;;
        *'"body":"dies"'*) echo 'last words' >&2; exit 3 ;;
        *'"body":"hopeless"'*) echo 'its output'; printf '{"id":"%s","ok":false,"error":"it is hopeless","retry":false}\n' "$id" ;;
        *'"body":"hangs"'*) sleep 1000 ;;
        *) printf '{"id":"%s","ok":true}\n' "$id" ;;
      esac
    done"#;

#[tokio::test]
async fn a_program_is_fed_lines_and_restarted_when_it_dies_or_replies_garbage() {
    let world = world("serve");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let bodies = ["a", "b", "garbage", "c", "dies", "d", "chatty", "hopeless", "hangs", "e"];
    world.put_to(&session, "mail-1", &bodies).await;
    let folder = tempfile::tempdir().unwrap();
    let mut program = script(SERVER, folder.path());
    program.limits.time = Some(Duration::from_secs(5));
    let worker =
        world.start(&session, attempts("w1", "mail", 1), Serve::new(program, Shape::One, Greeting::None));
    world.drained(&session, "mail", 1).await;
    let done = worker.view().await.stats.done;
    worker.finish().await;
    assert_eq!(done, 6);
    let failed = failure_records(&world, "mail.failed").await;
    let errors: Vec<_> = failed.iter().map(|(body, record)| (body.as_str(), record.error.as_str())).collect();
    assert_eq!(errors[0].0, "garbage");
    assert!(errors[0].1.starts_with("its reply is invalid (invalid type: string"), "{errors:?}");
    assert_eq!(
        errors[1..],
        [
            ("dies", "it ended without an answer"),
            ("hopeless", "it is hopeless"),
            ("hangs", "it took longer than its time limit of 5s; does it flush its output?")
        ]
    );
    let outputs: Vec<_> = failed.iter().map(|(_, record)| record.output.as_str()).collect();
    assert_eq!(outputs, ["before it\n", "last words\n", "its output\n", ""]);
    let starts = fs::read_to_string(folder.path().join("starts")).unwrap();
    assert_eq!(starts.lines().count(), 4, "warm as long as it behaves");
}

#[tokio::test]
async fn lists_are_answered_by_lists_and_binary_bodies_are_encoded() {
    let world = world("serve-lists");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    let mut putter = world.putter(&session, "mail").await;
    let bodies: [&[u8]; 3] = [b"text", &[0xff, 0], b""];
    let message = |body: &[u8]| {
        (menagerie_queues::admin::Destination::Any, menagerie_journal::NewMessage::new(body.to_vec()))
    };
    putter.put(bodies.map(message).to_vec()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = script(
        r#"while read -r line; do
             printf '%s\n' "$line" >> "$1/lines"
             printf '%s\n' "$line" | sed 's/"queue"[^}]*/"ok":true/g'
           done"#,
        folder.path(),
    );
    let mut options = options("w1", &["mail"]);
    options.batch = 10;
    let worker = world.start(&session, options, Serve::new(program, Shape::List, Greeting::None));
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    let lines = fs::read_to_string(folder.path().join("lines")).unwrap();
    let given: Vec<serde_json::Value> = lines
        .lines()
        .flat_map(|line| serde_json::from_str::<Vec<serde_json::Value>>(line).unwrap())
        .collect();
    assert_eq!(given.len(), 3);
    assert_eq!((given[0]["body"].as_str(), given[0]["queue"].as_str()), (Some("text"), Some("mail")));
    assert_eq!((given[1]["body_base64"].as_str(), given[1].get("body")), (Some("/wA="), None));
    assert_eq!((given[2]["body"].as_str(), given[2]["attempt"].as_u64()), (Some(""), Some(1)));
}

/// The program answers after the start of a line, and reads the rest of it later.
#[tokio::test]
async fn a_program_that_answers_before_reading_the_whole_line_is_not_fed_another() {
    let world = world("serve-early");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    // More than a pipe buffers.
    let large = "x".repeat(300 << 10);
    world.put_to(&session, "mail-1", &[&large, &large, "small"]).await;
    let folder = tempfile::tempdir().unwrap();
    let early = r#"while start=$(head -c 60) && [ -n "$start" ]; do
          id=${start#*'"id":"'}
          printf '{"id":"%s","ok":true}\n' "${id%%'"'*}"
          read -r rest
        done"#;
    let mut program = script(early, folder.path());
    program.limits.time = Some(Duration::from_secs(30));
    let worker =
        world.start(&session, attempts("w1", "mail", 1), Serve::new(program, Shape::One, Greeting::None));
    world.drained(&session, "mail", 1).await;
    let stats = worker.view().await.stats;
    worker.finish().await;
    assert_eq!((stats.done, stats.given_up), (3, 0));
}

/// A worker that is cut off ends its programs before the next owner begins, even processes outside their group.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_program_runs_beside_the_next_owners_task() {
    for served in [false, true] {
        let world = world("beside");
        let session = world.session().await;
        world.create(&session, "mail", 1).await;
        let folder = tempfile::tempdir().unwrap();
        let text = r#"setsid sleep 1000 & echo $! > "$1/child"; echo $$ > "$1/new"; mv "$1/new" "$1/pid"; sleep 1000"#;
        // Long enough for the guard to act between the ends of lease and session, even on a busy machine.
        let (cut_off, proxy) = world.session_through_proxy(LONG).await;
        let program = script(text, folder.path());
        let first = match served {
            true => world.start(
                &cut_off,
                options("w1", &["mail"]),
                Serve::new(program, Shape::One, Greeting::None),
            ),
            false => world.start(&cut_off, options("w1", &["mail"]), Exec::new(program)),
        };
        first.has(1).await;
        world.put_to(&session, "mail-1", &["one"]).await;
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).ok();
        eventually_async("the program runs", async || read("pid")).await;
        let pids = [read("pid"), read("child")].map(|pid| pid.unwrap().trim().to_owned());
        let log = Log::default();
        let noted = log.clone();
        let second = world.start(&session, options("w2", &["mail"]), move |work: Work| {
            let running = pids.iter().filter(|pid| runs(pid)).count();
            assert_eq!(running, 0, "the program of the owner before still runs");
            let entry = noted.begin("w2", &work);
            async move {
                drop(entry);
                vec![Outcome::Done]
            }
        });
        proxy.partition();
        world.drained(&session, "mail", 1).await;
        let handled: Vec<_> = log.handled().into_iter().map(|handled| handled.attempt).collect();
        assert_eq!(handled, [2], "the first one is known to have been tried");
        second.finish().await;
        proxy.heal();
        first.abort().await;
    }
}

fn parent(pid: &str) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    rest.split(' ').nth(1).unwrap().to_owned()
}

pub fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[tokio::test]
async fn an_abort_ends_the_program_and_the_message_stays() {
    let world = world("abort");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["one"]).await;
    let folder = tempfile::tempdir().unwrap();
    let task = Exec::new(script(r#"echo $$ > "$1/new"; mv "$1/new" "$1/pid"; sleep 1000"#, folder.path()));
    let worker = world.start(&session, options("w1", &["mail"]), task);
    let pid =
        eventually_async("the program runs", async || fs::read_to_string(folder.path().join("pid")).ok())
            .await;
    worker.abort().await;
    assert!(!runs(pid.trim()));
    assert!(world.messages("mail.failed", 1).await.is_empty());
    let log = Log::default();
    let worker = world.start(&session, options("w2", &["mail"]), log.task("w2"));
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    assert_eq!(log.handled()[0].attempt, 2, "it has run before");
}

/// A lease that is short for a while, because ZooKeeper or we stood still, fails neither the running message nor one
/// that would begin before ZooKeeper has answered twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_that_the_session_survives_costs_no_attempt() {
    let world = world("pause");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["one", "slow", "two", "three", "four", "five"]).await;
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        r#"told() {{ echo told > "$1/told"; exit 0; }}
           trap 'told "$1"' TERM
           wait_for_it() {{ echo slow > "$1/slow"; while [ ! -e "$1/told" ]; do sleep 0.1; done; }}
           {}"#,
        SERVER.replace(
            "case \"$line\" in",
            "case \"$line\" in *'\"body\":\"slow\"'*) wait_for_it \"$1\" ;; esac; case \"$line\" in"
        ),
    );
    let mut program = script(&text, folder.path());
    program.lease_grace = LONG / 4;
    let (paused, proxy) = world.session_through_proxy(LONG).await;
    let serve = Serve::new(program, Shape::One, Greeting::None);
    let worker = world.start(&paused, attempts("w1", "mail", 1), serve);
    let file = |name: &str| fs::read_to_string(folder.path().join(name)).ok();
    eventually_async("the program has the message", async || file("slow")).await;
    proxy.hold_requests();
    eventually_async("the program is told to end", async || file("told")).await;
    proxy.heal();
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    let failed = failure_records(&world, "mail.failed").await;
    assert!(failed.is_empty(), "{failed:?}");
}
