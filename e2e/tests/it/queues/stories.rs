//! What happened to a message: its story and its state, under the id that `put` printed.

use menagerie_testkit::{Process, eventually};
use serde_json::Value;

use super::{Fleet, ready};
use crate::cli::User;
use crate::queue_http::Server;

/// Puts one message; its id.
fn put(user: &User, more: &[&str]) -> String {
    let put = user.ok(&[&["queue", "put", "mail"], more].concat());
    put.split_whitespace().next().expect("an id").to_owned()
}

/// A worker whose task is a line of shell.
fn worker(fleet: &Fleet, options: &[&str], task: &str) -> Process {
    let worker = fleet.starting("mail", options, &["sh", "-c", task]);
    ready(&worker);
    worker
}

fn trace(user: &User, id: &str) -> Value {
    user.json(&["queue", "trace", id])
}

/// Waits until a message is in this state, and its story tells it; returns the story.
#[track_caller]
fn wait_for_state(user: &User, id: &str, state: &str) -> Value {
    eventually(&format!("it is {state}"), || {
        let done = user.run(&["queue", "trace", id, "-o", "json"]);
        let story: Value = serde_json::from_str(&done.text()).ok()?;
        (story["state"] == state && story["is_incomplete"] == false).then_some(story)
    })
}

/// Waits until a message's story is this, in short; returns it.
#[track_caller]
fn wait_for_story(user: &User, id: &str, lines: &[&str]) -> Value {
    eventually(&format!("its story is {lines:?}"), || {
        let story = trace(user, id);
        (short(&story) == lines).then_some(story)
    })
}

/// The ids of what is found.
fn found(user: &User, more: &[&str]) -> Vec<String> {
    let found = user.json(&[&["queue", "find", "mail"], more].concat());
    found
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["id"].as_str().expect("a text").to_owned())
        .collect()
}

/// What is told, in short: `put cli`, `attempt 1 retry`.
fn short(story: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let line = |line: &Value| match line["what"].as_str().expect("it says what") {
        "put" => format!("put {}", text(&line["via"])),
        "attempt" => format!("attempt {} {}", line["attempt"], text(&line["outcome"])),
        "act" => text(&line["act"]),
        what => what.to_owned(),
    };
    story["lines"].as_array().expect("it has lines").iter().map(line).collect()
}

#[test]
fn a_story_goes_from_put_to_done_across_delay_failures_and_retry() {
    let fleet = Fleet::with_queue("story", "mail", 3);
    let user = &fleet.user;
    let id = &put(user, &["order 17", "--key", "customer-7", "--delay", "4s"]);
    // On a slow machine it may be due by now.
    let begin = trace(user, id);
    if begin["state"] == "delayed" {
        assert_eq!((short(&begin), &begin["position"]), (vec!["put cli".into(), "due".into()], &Value::Null));
    }
    let delayed = found(user, &["--state", "delayed"]);
    assert!(delayed.is_empty() || delayed == [id.as_str()], "{delayed:?}");
    let task = "[ -e mended ] || { echo no such customer >&2; exit 1; }";
    let worker = worker(&fleet, &["--attempts", "2"], task);
    let failed = wait_for_state(user, id, "failed");
    assert_eq!(short(&failed), ["put cli", "due", "attempt 1 retry", "attempt 2 failed"]);
    for filter in [
        &["--state", "failed", "--since", "1h"][..],
        &["--key", "customer-7"],
        &["--contains", "17"],
        &["--contains", "order", "--key", "customer-7", "--state", "failed"],
        &[],
    ] {
        assert_eq!(found(user, filter), [id.as_str()], "{filter:?}");
    }
    for filter in
        [["--state", "done"], ["--state", "delayed"], ["--key", "customer-8"], ["--contains", "order 18"]]
    {
        assert!(found(user, &filter).is_empty(), "{filter:?}");
    }
    let row =
        user.json(&["queue", "find", "mail", "--state", "failed"]).get(0).cloned().expect("it is there");
    assert_eq!((&row["partition"], &row["key"]), (&failed["partition"], &"customer-7".into()));
    assert_eq!((&row["position"], &row["body"]), (&failed["position"], &"order 17".into()));
    assert!(row["error"].as_str().is_some_and(|error| error.contains("exit")), "{row}");

    user.write("mended", "");
    user.ok(&["queue", "retry", "mail", id]);
    let done = wait_for_state(user, id, "done");
    let expected = ["put cli", "due", "attempt 1 retry", "attempt 2 failed", "retried", "attempt 1 done"];
    assert_eq!(short(&done), expected);
    let (by, back) = (&done["lines"][0]["by"], &done["lines"][4]["by"]);
    assert!(by.as_str().is_some_and(|by| by.contains('@')) && by == back, "{done}");
    assert_eq!((&done["id"], &done["key"]), (&id.as_str().into(), &"customer-7".into()));
    assert_ne!(done["position"], failed["position"]);
    let text = user.ok(&["queue", "trace", id, "--queue", "mail"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], format!("message {id} of {}: done", done["partition"].as_str().unwrap()));
    for (line, words) in lines[3..].iter().zip([
        &[" put by ", "@", " over cli"][..],
        &[" due"],
        &[" attempt 1 by ", ": failed after ", "; again in 50 ms"],
        &[" attempt 2 by ", ": failed after ", "; given up, and kept among the failed messages"],
        &[" put back into its partition by ", "@"],
        &[" attempt 1 by ", ": done after "],
    ]) {
        assert!(words.iter().all(|word| line.contains(word)), "{words:?} in {text}");
    }
    assert_eq!(lines.len(), 9, "{text}");
    assert_eq!(found(user, &["--key", "customer-7"]), [id.as_str()], "it is there once");
    assert_eq!(found(user, &["--state", "done", "--contains", "17"]), [id.as_str()]);
    assert!(found(user, &["--state", "failed"]).is_empty());
    drop(worker);
}

#[test]
fn what_operators_drop_is_forgotten() {
    let fleet = Fleet::with_queue("story-forgotten", "mail", 2);
    let user = &fleet.user;
    let cancelled = &put(user, &["later", "--delay", "1d"]);
    assert_eq!(found(user, &["--state", "delayed"]), [cancelled.as_str()]);
    user.ok(&["queue", "cancel", "mail", cancelled]);
    let story = trace(user, cancelled);
    assert_eq!(
        (short(&story), &story["state"]),
        (vec!["put cli".into(), "cancelled".into()], &"forgotten".into())
    );
    let dropped = &put(user, &["bad"]);
    let worker = worker(&fleet, &["--attempts", "1"], "exit 1");
    wait_for_state(user, dropped, "failed");
    user.ok(&["queue", "forget", "mail", dropped]);
    let story = wait_for_state(user, dropped, "forgotten");
    assert_eq!(short(&story), ["put cli", "attempt 1 failed", "forgotten"]);
    drop(worker);
    let purged = &put(user, &["too much"]);
    user.ok(&["queue", "purge", "mail"]);
    assert_eq!(trace(user, purged)["state"], "forgotten");
    let later = &put(user, &["too late", "--delay", "1d", "--key", "k"]);
    user.ok(&["queue", "cancel", "mail", "--all"]);
    assert_eq!(trace(user, later)["state"], "forgotten");
    assert_eq!(found(user, &["--state", "forgotten", "--key", "k"]), [later.as_str()]);
    let forgotten = found(user, &["--state", "forgotten"]);
    assert!(forgotten.contains(cancelled) && forgotten.contains(later), "{forgotten:?}");
}

#[test]
fn what_a_retried_message_is_skipped_through_must_be_said_by_position() {
    let fleet = Fleet::with_queue("story-moved", "mail", 1);
    let user = &fleet.user;
    let id = &put(user, &["bad"]);
    let worker = worker(&fleet, &["--attempts", "1"], "exit 1");
    let first = wait_for_state(user, id, "failed")["position"].as_str().unwrap().to_owned();
    drop(worker);
    let between = &put(user, &["waits"]);
    user.ok(&["queue", "retry", "mail", id]);
    let now = trace(user, id)["position"].as_str().unwrap().to_owned();
    let skip = |through: &str| {
        ["queue", "skip", "mail", "--partition", "1", "--through", through].map(str::to_owned)
    };
    let refused = skip(id);
    let refused: Vec<&str> = refused.iter().map(String::as_str).collect();
    user.fails(&refused, 1, &[&first, &now, "since it was retried", "--through POSITION"]);
    let by_position = skip(&now);
    let by_position: Vec<&str> = by_position.iter().map(String::as_str).collect();
    user.ok(&by_position);
    let story = trace(user, between);
    assert_eq!(
        (short(&story), &story["state"]),
        (vec!["put ".into(), "skipped".into()], &"forgotten".into())
    );
}

#[test]
fn what_is_given_up_and_kept_nowhere_is_skipped() {
    let fleet = Fleet::with_queue("story-skipped", "mail", 1);
    let user = &fleet.user;
    let id = &put(user, &["bad"]);
    let _worker = worker(&fleet, &["--attempts", "1", "--on-failure", "log"], "exit 1");
    let story = wait_for_state(user, id, "skipped");
    assert_eq!(short(&story), ["put cli", "attempt 1 skipped"]);
    assert_eq!(found(user, &["--state", "skipped"]), [id.as_str()]);
    assert!(user.ok(&["queue", "trace", id]).contains("given up, and skipped"));
}

#[test]
fn what_expires_before_its_turn_is_told() {
    let fleet = Fleet::with_queue("story-expired", "mail", 1);
    let user = &fleet.user;
    let slow = &put(user, &["slow"]);
    let late = &put(user, &["late", "--ttl", "10s", "--key", "k"]);
    let later = &put(user, &["later", "--delay", "1s", "--ttl", "9s"]);
    let is_seen = |id: &str| user.ok(&["queue", "tail", "mail"]).contains(id);
    eventually("all are due", || is_seen(later).then_some(()));
    let task = "echo > started; while ! [ -e go ]; do sleep 0.05; done";
    let _worker = worker(&fleet, &[], task);
    fleet.wait_for_file("started");
    assert_eq!(found(user, &["--state", "waiting", "--key", "k"]), [late.as_str()]);
    eventually("nobody sees them any more", || (!is_seen(late) && !is_seen(later)).then_some(()));
    user.write("go", "");
    let story = wait_for_story(user, late, &["put cli", "attempt 0 expired"]);
    assert_eq!((&story["state"], &story["key"]), (&"expired".into(), &"k".into()));
    let story = wait_for_story(user, later, &["put cli", "due", "attempt 0 expired"]);
    assert_eq!(story["state"], "expired");
    wait_for_state(user, slow, "done");
    assert_eq!(found(user, &["--state", "expired", "--key", "k"]), [late.as_str()]);
    assert_eq!(found(user, &[]), [slow.as_str(), late.as_str(), later.as_str()], "oldest first");
    let table = user.run(&["queue", "find", "mail", "--limit", "1"]);
    assert!(
        table.text().contains(later.as_str()) && !table.text().contains(slow.as_str()),
        "{}",
        table.text()
    );
    assert!(table.stderr.contains("there may be more"), "{}", table.stderr);
}

#[test]
fn what_expires_while_nobody_works_is_told() {
    let fleet = Fleet::with_queue("story-expired-alone", "mail", 1);
    let user = &fleet.user;
    let id = &put(user, &["late", "--ttl", "1s"]);
    let story = wait_for_state(user, id, "expired");
    assert_eq!(short(&story), ["put cli"]);
    assert_eq!(found(user, &["--state", "expired"]), [id.as_str()]);
    let _worker = worker(&fleet, &[], "echo > started");
    let story = wait_for_story(user, id, &["put cli", "attempt 0 expired"]);
    assert_eq!(story["state"], "expired");
    assert!(!fleet.user.folder().join("started").exists(), "nobody handles it");
}

#[test]
fn a_message_put_over_http_says_so() {
    let fleet = Fleet::new("story-http");
    let user = &fleet.user;
    let config =
        "[applications.default]\nkeys = [\"key-of-the-default-app\"]\nscopes = [\"read\", \"write\"]\n";
    user.write("menagerie.toml", config);
    let server = Server::start(user, &["--config", "menagerie.toml"]);
    fleet.create("mail", 1);
    let (code, told) = server.ask("key-of-the-default-app", "POST", "/v1/default/mail", "by http");
    assert_eq!(code, 201, "{told}");
    let id = told["messages"][0]["key"].as_str().expect("an id");
    let story = trace(user, id);
    assert_eq!((short(&story), &story["state"]), (vec!["put http".into()], &"waiting".into()));
    assert!(user.ok(&["queue", "trace", id]).contains(" over http"));
}

#[test]
fn what_is_older_than_the_queue_keeps_is_said_to_be_missing() {
    let fleet = Fleet::with_queue("story-trimmed", "mail", 1);
    let user = &fleet.user;
    let id = &put(user, &["old"]);
    let _worker = worker(&fleet, &[], "true");
    wait_for_state(user, id, "done");
    assert!(!user.ok(&["queue", "trace", id]).contains("missing"));
    user.ok(&["queue", "alter", "mail", "--keep", "0s"]);
    eventually("it is gone", || (fleet.show("mail")["messages"] == 0).then_some(()));
    let story = trace(user, id);
    assert_eq!((&story["state"], &story["is_incomplete"]), (&"done".into(), &true.into()));
    let text = user.ok(&["queue", "trace", id]);
    assert!(text.contains("Some of it is missing: it is older than the queue keeps"), "{text}");
}

#[test]
fn what_is_nobodys_or_makes_no_sense_is_refused_with_help() {
    let fleet = Fleet::with_queue("story-refused", "mail", 1);
    let user = &fleet.user;
    fleet.create("news", 1);
    let id = &put(user, &["here"]);
    let nobody = "3f9c1b52-7a64-11f0-8d96-bb488460f550";
    let help = ["nothing is known of a message", "another queue", "menagerie queue show NAME"];
    user.fails(&["queue", "trace", nobody], 1, &help);
    user.fails(&["queue", "trace", id, "--queue", "news"], 1, &["in queue news", "another queue"]);
    user.fails(&["queue", "trace", id, "--queue", "nowhere"], 2, &["there is no queue nowhere"]);
    user.fails(&["queue", "trace", "17"], 2, &["UUID of version 1"]);
    user.fails(&["queue", "find", "nowhere"], 2, &["there is no queue nowhere"]);
    let states = "there are delayed, waiting, running, retrying, failed, done, expired, skipped, forgotten";
    user.fails(&["queue", "find", "mail", "--state", "lost"], 2, &["\"lost\" is no state", states]);
    user.fails(&["queue", "find", "mail", "--limit", "0"], 2, &["--limit"]);
    user.fails(&["queue", "find", "mail", "--since", "yesterday"], 2, &["--since"]);
    user.fails(&["queue", "find", "mail", "--contains", ""], 2, &["--contains"]);
    assert_eq!(user.ok(&["queue", "find", "news"]), "no message matches\n");
}
