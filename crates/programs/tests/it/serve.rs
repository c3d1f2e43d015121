//! A long-running program that is fed lists of segments, as flows will do.

use std::time::Duration;

use menagerie_programs::serve::{Ask, AskOutcome, Greeting, Judged};
use menagerie_programs::{Failure, Serve};

use crate::{lease, no_delay, script};

/// Asks, and returns the answer, which counts as bad if it says so.
async fn ask(serve: &Serve, line: &str) -> AskOutcome<String> {
    let (lease, _stop) = lease();
    let line = format!("{line}\n");
    let ask = Ask { id: "1", line: line.as_bytes(), lease: &lease, time_limit: None, on_delay: &no_delay };
    let judge = |line: &[u8]| match String::from_utf8_lossy(line).into_owned() {
        line if line.contains("nonsense") => Judged::Invalid(format!("it said {line}")),
        line if line.contains("stray") => Judged::Stray,
        line if line.contains("bad") => Judged::Bad(line),
        line => Judged::Good(line),
    };
    serve.ask(ask, judge).await
}

fn answered(answer: &str, output: &str) -> AskOutcome<String> {
    AskOutcome::Answered { answer: answer.to_owned(), output: output.as_bytes().to_vec() }
}

#[tokio::test]
async fn lists_go_in_and_lists_come_out_of_one_warm_program() {
    let text = r#"
        n=0
        while read -r line; do n=$((n+1)); echo "log $n" >&2; echo "[$line,$n]"; done
    "#;
    let serve = Serve::new(script(text), Greeting::None, 1 << 20);
    serve.warm_up().await.unwrap();
    assert_eq!(ask(&serve, r#"[{"n":1},{"n":2}]"#).await, answered(r#"[[{"n":1},{"n":2}],1]"#, ""));
    // The answer comes with everything that was printed before it. The log of the line before may still be on its way.
    let AskOutcome::Answered { answer, output } = ask(&serve, r#"["bad"]"#).await else {
        panic!("it answers")
    };
    assert_eq!(answer, r#"[["bad"],2]"#);
    assert!(output.ends_with(b"log 2\n"), "{output:?}");
    assert_eq!(ask(&serve, "[]").await, answered("[[],3]", ""));
}

#[tokio::test]
async fn a_program_that_answers_nonsense_or_too_much_is_replaced() {
    let text = r#"n=0; while read -r line; do n=$((n+1)); echo "$line $n"; done"#;
    let serve = Serve::new(script(text), Greeting::None, 64);
    let failure = |error: &str| AskOutcome::Failed(Failure { error: error.to_owned(), output: Vec::new() });
    assert_eq!(ask(&serve, "first").await, answered("first 1", ""));
    assert_eq!(ask(&serve, "nonsense").await, failure("it said nonsense 2"));
    assert_eq!(ask(&serve, "again").await, answered("again 1", ""));
    let much = "it printed a line of more than 64 bytes";
    assert_eq!(ask(&serve, &"x".repeat(100)).await, failure(much));
    assert_eq!(ask(&serve, "last").await, answered("last 1", ""));
}

#[tokio::test]
async fn a_program_that_is_not_ready_says_why() {
    let text = r#"echo '{"ready":false,"error":"no model"}'; sleep 1000"#;
    let refused = Serve::new(script(text), Greeting::Ready, 1 << 20).warm_up().await.unwrap_err();
    assert_eq!(refused.to_string(), "it is not ready: no model");
    let text = r#"echo '{"ready":true}'; while read -r line; do echo "$line"; done"#;
    let serve = Serve::new(script(text), Greeting::Ready, 1 << 20);
    assert_eq!(ask(&serve, "[]").await, answered("[]", ""));
}

#[tokio::test]
async fn other_lines_cost_nothing_and_are_the_output_of_a_failure() {
    let text = r#"n=0; while read -r line; do
          n=$((n+1)); echo "stray $n"; printf "$line "; sleep 0.1; echo "$n"; echo "stray after $n"
        done"#;
    let serve = Serve::new(script(text), Greeting::None, 1 << 20);
    assert_eq!(ask(&serve, "first").await, answered("first 1", ""));
    let AskOutcome::Answered { answer, output } = ask(&serve, "bad").await else { panic!("it answers") };
    assert_eq!(answer, "bad 2");
    assert!(output.ends_with(b"stray 2\n"), "{output:?}");
    assert_eq!(ask(&serve, "last").await, answered("last 3", ""));
    assert!(serve.stray_lines() >= 5, "{}", serve.stray_lines());
}

/// It would be taken for the answer to the next attempt, which carries the same id.
#[tokio::test]
async fn what_was_printed_before_a_question_is_no_answer_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let twice = folder.path().join("twice");
    let text = r#"while read -r line; do echo "$line"; echo "$line second"; echo > TWICE; done"#;
    let text = text.replace("TWICE", &twice.display().to_string());
    let serve = Serve::new(script(&text), Greeting::None, 1 << 20);
    assert_eq!(ask(&serve, "a").await, answered("a", ""));
    menagerie_testkit::eventually_async("it answers twice", async || twice.exists().then_some(())).await;
    assert_eq!(ask(&serve, "b").await, answered("b", ""));
    assert_eq!(serve.stray_lines(), 1);
}

#[tokio::test]
async fn a_silent_program_is_ended_when_its_time_is_over_even_if_it_prints_without_end() {
    for text in ["while read -r line; do sleep 1000; done", "read -r line; exec yes stray"] {
        let mut program = script(text);
        program.limits.time = Some(Duration::from_secs(1));
        let serve = std::sync::Arc::new(Serve::new(program, Greeting::None, 1 << 20));
        let asking = serve.clone();
        let asked = tokio::spawn(async move { ask(&asking, "[]").await });
        let since = menagerie_testkit::eventually_async("it is asked", async || {
            serve.unanswered().first().map(|question| (question.id.clone(), question.since))
        });
        assert_eq!(since.await.0, "1");
        let AskOutcome::Failed(Failure { error, output }) = asked.await.unwrap() else { panic!("it failed") };
        assert_eq!(error, "it took longer than its time limit of 1s; does it flush its output?");
        assert_eq!(output.len(), if text.contains("yes") { 4096 } else { 0 });
        assert_eq!(serve.unanswered(), []);
    }
}

#[tokio::test]
async fn a_program_that_greets_flushes_its_lines_so_it_is_not_called_silent() {
    let folder = tempfile::tempdir().unwrap();
    let asked = folder.path().join("asked");
    let text = r#"echo '{"ready":true}'; while read -r line; do echo > ASKED; sleep 1000; done"#;
    let mut program = script(&text.replace("ASKED", &asked.display().to_string()));
    program.limits.time = Some(Duration::from_secs(60));
    let serve = std::sync::Arc::new(Serve::new(program, Greeting::Ready, 1 << 20));
    let asking = serve.clone();
    let question = tokio::spawn(async move { ask(&asking, "[]").await });
    menagerie_testkit::eventually_async("it is asked", async || asked.exists().then_some(())).await;
    assert_eq!(serve.unanswered(), []);
    question.abort();
}
