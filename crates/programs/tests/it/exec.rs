//! One process per job.

use menagerie_programs::exec::{Run, RunOutcome};
use menagerie_programs::{Exec, Failure, Limits, Program};
use menagerie_testkit::eventually_async;

use crate::{SECOND, lease, no_delay, script};

async fn run(exec: &Exec, input: &str) -> RunOutcome {
    let (lease, _stop) = lease();
    let environment = [("MENAGERIE_FENCE", "1-7".to_owned())];
    let (input, environment) = (input.as_bytes(), &environment[..]);
    exec.run(Run { input, environment, lease: &lease, time_limit: None, on_delay: &no_delay }).await
}

#[tokio::test]
async fn exit_code_and_output_are_returned() {
    let exec = Exec::new(script(r#"echo "$MENAGERIE_FENCE"; cat >&2; exit 65"#));
    for input in ["some", "other"] {
        let output = format!("1-7\n{input}").into_bytes();
        assert_eq!(run(&exec, input).await, RunOutcome::Exited { code: 65, output });
    }
}

#[tokio::test]
async fn a_process_over_its_time_limit_or_killed_has_failed() {
    let limits = Limits { time: Some(SECOND / 5), memory_bytes: None };
    let slow = Exec::new(Program { limits, ..script("echo begun; sleep 1000") });
    let failure = |error: &str, output: &str| {
        RunOutcome::Failed(Failure { error: error.to_owned(), output: output.as_bytes().to_vec() })
    };
    assert_eq!(run(&slow, "").await, failure("it took longer than its time limit of 200ms", "begun\n"));
    let killed = Exec::new(script("kill -9 $$"));
    assert_eq!(run(&killed, "").await, failure("it was ended by signal 9", ""));
}

#[tokio::test]
async fn a_stopped_process_has_no_result() {
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    let environment = [("BEGUN", begun.display().to_string())];
    let exec = Exec::new(script(r#"touch "$BEGUN"; sleep 1000"#));
    let (lease, stop) = lease();
    let run =
        Run { input: b"", environment: &environment, lease: &lease, time_limit: None, on_delay: &no_delay };
    let stopping = async {
        eventually_async("it has begun", async || begun.exists().then_some(())).await;
        stop.send_replace(true);
    };
    assert_eq!(tokio::join!(exec.run(run), stopping).0, RunOutcome::Stopped);
}
