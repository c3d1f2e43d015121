//! Events of a running test program, in the JSON lines of Rust's test harness; kazoo's suite uses the same format
//! (`e2e/kazoo/events.py`). Pure.

use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    Started { test: String },
    Ended { test: String, ended: Ended },
}

/// The outcome of one run of one test.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    Passed {
        seconds: f64,
    },
    Failed {
        seconds: f64,
        output: String,
    },
    /// Left out, with its reason in the code.
    Ignored,
}

/// Parses one line; `None` if it is no event of a test. A program started by a test may share its standard output, so
/// an event may begin in the middle of a line.
pub fn parse(line: &str) -> Option<Event> {
    let begin = line[..line.find("\"type\": \"test\"")?].rfind('{')?;
    let event: Value = serde_json::from_str(&line[begin..]).ok()?;
    let test = event["name"].as_str()?.to_owned();
    let seconds = event["exec_time"].as_f64().unwrap_or(0.0);
    let output = || event["stdout"].as_str().unwrap_or_default().to_owned();
    match event["event"].as_str()? {
        "started" => Some(Event::Started { test }),
        "ok" => Some(Event::Ended { test, ended: Ended::Passed { seconds } }),
        "ignored" => Some(Event::Ended { test, ended: Ended::Ignored }),
        // "failed", and "timeout" of harnesses that have time limits.
        _ => Some(Event::Ended { test, ended: Ended::Failed { seconds, output: output() } }),
    }
}

/// The line of a failed test's output that says why: after `panicked at PLACE:`, or `Error: …` of a test that returns
/// one.
pub fn first_message(output: &str) -> &str {
    let mut lines = output.lines();
    let panicked = lines.by_ref().find(|line| line.contains("panicked at ")).and_then(|_| lines.next());
    panicked
        .or_else(|| output.lines().find(|line| line.starts_with("Error: ") || line.starts_with("E  ")))
        .or_else(|| output.lines().find(|line| !line.trim().is_empty()))
        .unwrap_or("it said nothing")
        .trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_in_what_else_is_printed() {
        let line = r#"keeper ready{ "type": "test", "name": "a::b", "event": "ok", "exec_time": 1.5 }"#;
        let passed = Ended::Passed { seconds: 1.5 };
        assert_eq!(parse(line), Some(Event::Ended { test: "a::b".to_owned(), ended: passed }));
        assert_eq!(parse(r#"{ "type": "suite", "event": "started", "test_count": 4 }"#), None);
        assert_eq!(parse("{ \"type\": \"test\", half a line"), None);
    }

    #[test]
    fn message_of_a_failure_is_the_line_that_says_why() {
        let panicked = "some log\nthread 'a' (7) panicked at src/a.rs:2:3:\nleft is not right\n  left: 1\n";
        assert_eq!(first_message(panicked), "left is not right");
        assert_eq!(first_message("a log line\nError: \"boo\"\n"), "Error: \"boo\"");
        assert_eq!(first_message("\n  killed\n"), "killed");
        assert_eq!(first_message(""), "it said nothing");
    }
}
