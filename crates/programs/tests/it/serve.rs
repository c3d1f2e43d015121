//! A long-running program that is fed lists of segments, as flows will do.

use menagerie_programs::serve::{Ask, AskOutcome, Greeting, Judged};
use menagerie_programs::{Failure, Serve};

use crate::{lease, no_delay, script};

/// Asks, and returns the answer, which counts as bad if it says so.
async fn ask(serve: &Serve, line: &str) -> AskOutcome<String> {
    let (lease, _stop) = lease();
    let line = format!("{line}\n");
    let ask = Ask { line: line.as_bytes(), lease: &lease, on_delay: &no_delay };
    let judge = |line: &[u8]| match String::from_utf8_lossy(line).into_owned() {
        line if line.contains("nonsense") => Err(format!("it said {line}")),
        line if line.contains("bad") => Ok(Judged::Bad(line)),
        line => Ok(Judged::Good(line)),
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
    let much = "it ended, or said too much, in the middle of an answer";
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
