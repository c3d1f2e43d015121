//! Python functions as tasks.

use std::fs;
use std::path::Path;
use std::time::Duration;

use menagerie_queues::failed::FailureRecord;
use menagerie_queues::runner::python::Python;
use menagerie_queues::runner::serve::{Greeting, Serve};
use menagerie_queues::runner::{Limits, Program, Shape};
use menagerie_testkit::{binary, eventually};

use crate::world::{World, options};

const MODULE: &str = r#"
import os, signal, subprocess, sys, threading, time

def startup():
    print("printed at the start")
    return {"pid": os.getpid(), "folder": os.environ["TASKS_FOLDER"]}

def note(context, text):
    with open(context["folder"] + "/log", "a") as log:
        log.write(text + "\n")

class Halt(BaseException):
    retry = False

class Silent(Exception):
    def __str__(self):
        raise ValueError("it cannot even say so")

def odd(message, context):
    raise {
        "half a character": Hopeless(os.fsdecode(b"caf\xe9")),
        "interrupted": KeyboardInterrupt(),
        "halted": Halt("at once"),
        "silent": Silent(),
    }[message.text]

def odd_startup():
    raise ValueError(os.fsdecode(b"caf\xe9"))

def ends_at_startup():
    sys.exit("no database")

class Hopeless(Exception):
    retry = False

def handle(message, context):
    print("printed by the task")
    if message.text == "bad":
        raise Hopeless("never")
    if message.text == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if message.text == "exits":
        sys.exit(3)
    forked = os.getpid() != context["pid"]
    context["leak"] = context.get("leak", 0) + 1
    note(context, "%s %s %s %d" % (message.text, message.attempt, forked, context["leak"]))

def handle_with_children(message, context):
    if message.text == "reads":
        read = subprocess.run(["cat"], stdout=subprocess.PIPE).stdout + sys.stdin.buffer.read()
        note(context, "read %d bytes" % len(read))
    elif message.text == "leaves":
        subprocess.Popen(["sh", "-c", "cat; exec sleep 1000"])
        child = os.fork()
        if child == 0:
            time.sleep(1000)
        note(context, "left %d" % child)
    else:
        note(context, "%s %s" % (message["body"].decode(), message["attempt"]))

def handle_all(messages, context):
    note(context, ",".join(message.text for message in messages))
    return [message.text != "bad" or "it is bad" for message in messages]

def hook(context):
    note(context, "forked")

async def later(message, context):
    note(context, "never")

def one_by_one(message, context):
    yield note(context, "never")

class Later:
    async def __call__(self, message, context):
        note(context, "never")

later_object = Later()
no_function = 3

def returns_later(message, context):
    return later(message, context) if message.text == "awaited" else one_by_one(message, context)

def with_threads():
    threading.Thread(target=time.sleep, args=(1000,), daemon=True, name="of the task").start()
"#;

fn task(folder: &Path, function: &str, startup: &str, hook: Option<&str>, shape: Shape) -> Serve {
    fs::write(folder.join("tasks_of_a_test.py"), MODULE).unwrap();
    let name = |function: &str| format!("tasks_of_a_test:{function}");
    let python = Python {
        interpreter: "python3".into(),
        function: name(function),
        on_startup: Some(name(startup)),
        after_fork: hook.map(name),
    };
    let mut command = vec!["env".into(), format!("TASKS_FOLDER={}", folder.display()).into()];
    command.push(format!("PYTHONPATH={}", folder.display()).into());
    command.extend(python.command(shape));
    let grace = Duration::from_secs(1);
    let program = Program {
        command,
        guard: binary().to_owned(),
        grace,
        lease_grace: grace.min(Duration::from_millis(250)),
        limits: Limits::default(),
        user: None,
    };
    Serve::new(program, shape, Greeting::Ready)
}

#[tokio::test]
async fn a_function_runs_in_a_fork_per_message_with_the_startup_context() {
    binary();
    let world = World::new("python");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["one", "bad", "killed", "exits", "two"]).await;
    let folder = tempfile::tempdir().unwrap();
    let task = task(folder.path(), "handle", "startup", None, Shape::One);
    task.warm_up().await.unwrap();
    let mut options = options("w1", &["mail"]);
    options.failure.attempts = std::num::NonZeroU32::new(1);
    let worker = world.start(&session, options, task);
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert_eq!(log, "one 1 True 1\ntwo 1 True 1\n", "a fork each, and nothing leaks from one to the next");
    let failed: Vec<FailureRecord> = world
        .messages("mail.failed", 1)
        .await
        .iter()
        .map(|message| serde_json::from_slice(&message.meta).unwrap())
        .collect();
    let errors: Vec<_> = failed.iter().map(|record| record.error.as_str()).collect();
    assert_eq!(errors, ["Hopeless: never", "its process was ended by signal 9", "SystemExit: 3"]);
    let output = &failed[0].output;
    assert!(output.contains("printed by the task") && output.contains("Traceback"), "{output}");
    assert!(
        output.ends_with("Hopeless: never\n") && failed[1].output == "printed by the task\n",
        "{failed:?}"
    );
}

/// Failure records of messages that a function cannot handle, after three attempts.
async fn failures(name: &str, function: &str, bodies: &[&str]) -> Vec<FailureRecord> {
    binary();
    let world = World::new(name);
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", bodies).await;
    let folder = tempfile::tempdir().unwrap();
    let task = task(folder.path(), function, "startup", None, Shape::One);
    let mut options = options("w1", &["mail"]);
    options.failure.attempts = std::num::NonZeroU32::new(3);
    let worker = world.start(&session, options, task);
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    assert!(!folder.path().join("log").exists(), "nothing was done");
    let failed = world.messages("mail.failed", 1).await;
    failed.iter().map(|message| serde_json::from_slice(&message.meta).unwrap()).collect()
}

#[tokio::test]
async fn returning_unfinished_work_is_a_permanent_failure() {
    let failed = failures("python-later", "returns_later", &["awaited", "generated"]).await;
    assert_eq!(failed.len(), 2, "{failed:?}");
    for record in failed {
        assert!(record.error.starts_with("NotRun: it returned a coroutine or a generator"), "{record:?}");
        assert_eq!(record.attempts, 1, "{record:?}");
    }
}

#[tokio::test]
async fn half_a_character_does_not_spoil_an_answer() {
    let failed = failures("python-half", "odd", &["half a character"]).await;
    assert_eq!((failed[0].error.as_str(), failed[0].attempts), ("Hopeless: caf?", 1));
}

#[tokio::test]
async fn whatever_is_raised_is_the_error_with_its_traceback() {
    let failed = failures("python-raised", "odd", &["interrupted", "halted", "silent"]).await;
    let errors: Vec<_> = failed.iter().map(|record| (record.error.as_str(), record.attempts)).collect();
    assert_eq!(errors, [("KeyboardInterrupt", 3), ("Halt: at once", 1), ("Silent", 3)]);
    assert!(failed.iter().all(|record| record.output.contains("Traceback")), "{failed:?}");
}

#[tokio::test]
async fn a_fork_reads_no_messages_and_leaves_no_processes() {
    binary();
    let world = World::new("python-children");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["reads", "leaves", "one", "two"]).await;
    let folder = tempfile::tempdir().unwrap();
    let task = task(folder.path(), "handle_with_children", "startup", None, Shape::One);
    let worker = world.start(&session, options("w1", &["mail"]), task);
    world.drained(&session, "mail", 1).await;
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    let ["read 0 bytes", left, "one 1", "two 1"] = lines.as_slice() else { panic!("{log}") };
    let left = left.strip_prefix("left ").unwrap();
    eventually("what the function had left is gone", || {
        (!Path::new("/proc").join(left).exists()).then_some(())
    });
    worker.finish().await;
}

#[tokio::test]
async fn batches_are_lists_and_hooks_run_in_each_fork() {
    binary();
    let world = World::new("python-batch");
    let session = world.session().await;
    world.create(&session, "mail", 1).await;
    world.put_to(&session, "mail-1", &["one", "two"]).await;
    let folder = tempfile::tempdir().unwrap();
    let task = task(folder.path(), "handle_all", "startup", Some("hook"), Shape::List);
    let mut options = options("w1", &["mail"]);
    options.batch = 10;
    let worker = world.start(&session, options, task);
    world.drained(&session, "mail", 1).await;
    worker.finish().await;
    assert_eq!(fs::read_to_string(folder.path().join("log")).unwrap(), "forked\none,two\n");
}

#[tokio::test]
async fn unusable_functions_are_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    for (function, startup, why) in [
        ("handle", "with_threads", "threads run before the fork: of the task"),
        ("missing", "startup", "AttributeError"),
        ("handle", "missing", "AttributeError"),
        ("later", "startup", "tasks_of_a_test:later is no plain function but a coroutine or a generator"),
        ("one_by_one", "startup", "is no plain function but"),
        ("later_object", "startup", "is no plain function but"),
        ("no_function", "startup", "is no function"),
        ("handle", "odd_startup", "ValueError: caf?"),
        ("handle", "ends_at_startup", "SystemExit: no database"),
        ("handle", "later", "is no plain function but"),
    ] {
        let refused = task(folder.path(), function, startup, None, Shape::One).warm_up().await.unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
}
