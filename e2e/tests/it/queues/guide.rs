//! The guide "Your first queue in five minutes", as typed.

use std::fs;

use menagerie_testkit::eventually;

use crate::guide::{Newcomer, steps_of};

/// Waits as a person who repeats a command until it says this.
#[track_caller]
fn wait_until_said(newcomer: &Newcomer, args: &[&str], words: &str) {
    eventually(&format!("{args:?} says {words:?}"), || {
        newcomer.user.run(args).text().contains(words).then_some(())
    });
}

#[test]
fn first_queue() {
    let mut newcomer = Newcomer::new();
    let steps = steps_of("first-queue.md");
    let (mut outputs, mut id): (Vec<String>, String) = (Vec::new(), String::new());
    for step in &steps {
        if step == "menagerie queue failed mail" {
            wait_until_said(&newcomer, &["queue", "failed", "mail"], &id);
        }
        let is_mended = fs::exists(newcomer.folder().join("outbox")).expect("it can be looked for");
        assert!(
            !is_mended || outputs.len() + 1 == steps.len(),
            "the letter is sent before the guide says so"
        );
        outputs.push(newcomer.follow(step));
        if step.contains("queue put") {
            let first = outputs.last().and_then(|output| output.lines().next());
            id = first.expect("put prints an id").to_owned();
        }
        if step.contains("queue retry") {
            wait_until_said(&newcomer, &["queue", "trace", &id], ": done");
            // The story comes a moment after the record.
            wait_until_said(&newcomer, &["queue", "trace", &id], ": done after");
        }
    }
    let said = |what: &str| -> Vec<&String> {
        let steps = steps.iter().zip(&outputs).filter(|(step, _)| step.contains(what));
        steps.map(|(_, output)| output).collect()
    };
    assert_eq!(said("queue put"), [&format!("{id}\n")], "an id, and nothing else");
    let failed = said("queue failed");
    assert_eq!(failed.len(), 1);
    for words in [&id, "it exited with code 2", "cannot create outbox/sent", "Your order 17 has left"] {
        assert!(failed[0].contains(words), "{words:?} is missing in {}", failed[0]);
    }
    let [waiting, failed, done] = said("queue trace")[..] else { panic!("three traces: {outputs:?}") };
    assert!(waiting.contains(": waiting\n"), "{waiting}");
    assert!(failed.contains(": failed\n") && !failed.contains("put back"), "{failed}");
    let lines: Vec<&str> = done.lines().collect();
    assert!(
        lines[0].starts_with(&format!("message {id} of mail-")) && lines[0].ends_with(": done"),
        "{done}"
    );
    assert!(lines[1].ends_with(", key customer-7"), "{done}");
    let story = [
        &["  put by ", " over cli"][..],
        &["  attempt 1 by ", ": failed after ", ": it exited with code 2; again in "],
        &["  attempt 2 by ", ": failed after ", ": it exited with code 2; again in "],
        &["  attempt 3 by ", ": failed after ", "; given up, and kept among the failed messages"],
        &["  put back into its partition by "],
        &["  attempt 1 by ", ": done after "],
    ];
    assert_eq!(lines.len(), 3 + story.len(), "{done}");
    for (line, words) in lines[3..].iter().zip(story) {
        assert!(words.iter().all(|word| line.contains(word)), "{words:?} in {done}");
    }
    let sent = fs::read_to_string(newcomer.folder().join("outbox/sent")).expect("it is sent");
    assert_eq!(sent.trim_end(), "Your order 17 has left");
    newcomer.stop();
}
