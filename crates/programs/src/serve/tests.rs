//! Leases of a program that is fed lines.

use std::ffi::OsString;
use std::path::Path;

use tokio::sync::watch;

use menagerie_kernel::Moment;

use super::*;
use crate::limits::Limits;

/// A program that appends each line to a file and echoes it.
fn writes(folder: &Path) -> Program {
    let text = r#"while read -r line; do echo "$line" >> "$1/written"; echo "$line"; done"#;
    let command: Vec<OsString> = vec!["sh".into(), "-c".into(), text.into(), "sh".into(), folder.into()];
    let (grace, guard) = (Duration::from_millis(300), menagerie_testkit::binary().to_owned());
    Program { command, guard, grace, lease_grace: grace, limits: Limits::default(), user: None }
}

/// Asks, and returns the answer.
async fn ask(serve: &Serve, lease: Lease) -> AskOutcome<String> {
    let on_delay = &|why: &str, _| panic!("{why}");
    let ask = Ask { id: "1", line: b"[1,2]\n", lease: &lease, time_limit: None, on_delay };
    serve.ask(ask, |line| Judged::Good(String::from_utf8_lossy(line).into_owned())).await
}

fn echoed() -> AskOutcome<String> {
    AskOutcome::Answered { answer: "[1,2]".to_owned(), output: Vec::new() }
}

#[tokio::test]
async fn while_the_lease_is_short_nothing_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let serve = Serve::new(writes(folder.path()), Greeting::None, 1 << 20);
    serve.warm_up().await.unwrap();
    let hour = Duration::from_secs(3_600);
    let (clock, valid_until) = watch::channel(Moment::after(Duration::from_millis(200)));
    let (_stop, stopped) = watch::channel(false);
    let lease = Lease::new(valid_until, watch::channel(hour).1, stopped);
    let mut asked = Box::pin(ask(&serve, lease));
    assert!(tokio::time::timeout(Duration::from_millis(500), &mut asked).await.is_err(), "it waits");
    assert!(!folder.path().join("written").exists());
    clock.send_replace(Moment::after(hour));
    assert_eq!(asked.await, echoed());
    let written = std::fs::read_to_string(folder.path().join("written")).unwrap();
    assert_eq!(written.lines().count(), 1, "{written}");
}

#[tokio::test]
async fn program_that_was_started_when_sessions_had_more_time_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let second = Duration::from_secs(1);
    let mut program = writes(folder.path());
    program.lease_grace = second * 5;
    let serve = Serve::new(program, Greeting::None, 1 << 20);
    let (clock, valid_until) = watch::channel(Moment::after(second * 60));
    let (timeout, granted) = watch::channel(second * 80);
    let (_stop, stopped) = watch::channel(false);
    let lease = || Lease::new(valid_until.clone(), granted.clone(), stopped.clone());
    assert_eq!(ask(&serve, lease()).await, echoed());
    // Such a lease never has as much left as the idle program's grace.
    timeout.send_replace(second * 8);
    clock.send_replace(Moment::after(second * 4));
    assert_eq!(ask(&serve, lease()).await, echoed());
}
