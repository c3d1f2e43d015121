//! Servers: where they listen, and how they die and come back.

use menagerie_testkit::{Process, eventually};

use super::{Web, connect, token};
use crate::cli::User;
use crate::queues::Fleet;

#[test]
fn it_says_where_it_serves() {
    let user = User::new("web-ready");
    let mut process = user.spawn(&["web", "--listen", "127.0.0.1:0"]);
    let address = process
        .wait_for_line("where it serves", |line| line.strip_prefix("web ready on ")?.trim().parse().ok());
    assert!(super::page(address, "/").text().contains("<h1>"));
    assert_eq!(user.json(&["status"])["components"][0]["kind"], "web", "it is registered");
    let end = process.stop();
    assert_eq!(end.status.code(), Some(0), "{}", end.stderr);
    assert!(connect(address).is_err());
}

#[test]
fn other_machines_are_let_in_on_purpose_only() {
    let user = User::new("web-strangers");
    let all = "0.0.0.0:0";
    user.fails(&["web", "--listen", all], 2, &["--listen", "help: ", "--tls-cert", "--insecure"]);
    let mut insecure = user.spawn(&["web", "--insecure", "--listen", all]);
    let ready = insecure.wait_until_ready("web");
    let port = ready.rsplit(':').next().expect("a port");
    let address = format!("127.0.0.1:{port}").parse().expect("an address");
    assert_eq!(super::page(address, "/slots").code, 200);
    assert_eq!(insecure.stop().status.code(), Some(0));
    let mut up = Process::menagerie(["up", "--web-listen", all]);
    let end = up.wait_for_end();
    assert_eq!(end.status.code(), Some(2), "{}", end.stderr);
    assert!(end.stderr.contains("run `menagerie web` with TLS"), "{}", end.stderr);
    user.fails(&["web", "--listen", "127.0.0.1:0", "--tls-cert", "x"], 2, &["--tls-key"]);
    user.fails(
        &["web", "--listen", "127.0.0.1:0", "--tls-cert", "x", "--tls-key", "y"],
        2,
        &["TLS cannot be offered"],
    );
}

#[test]
fn whichever_server_is_killed_the_other_serves_and_it_comes_back_at_once() {
    let user = User::new("web-two");
    user.ok(&["slots", "create", "deploy", "--max", "2"]);
    let (mut one, other) = (Web::start(&user, &[]), Web::start(&user, &[]));
    let token = token(&user, "read,operate");
    assert_eq!(one.post(&token, "/slots/deploy/freeze", r#"{"reason":"a fire"}"#).code, 200);
    one.process.kill();
    let seen = other.get(&token, "/slots/deploy").value();
    assert_eq!(seen["frozen"]["reason"], "a fire");
    assert_eq!(other.post(&token, "/slots/deploy/thaw", "{}").code, 200);
    one.process.restart();
    // Nothing is kept by the server that has died, and nothing has to be waited for.
    assert!(one.get(&token, "/slots/deploy").value()["frozen"].is_null());
    assert_eq!(one.get(&token, "/audit").value()["items"].as_array().map(Vec::len), Some(2));
}

#[test]
fn while_a_journal_is_away_its_queues_say_so_and_everything_else_is_shown() {
    let mut fleet = Fleet::new("web-journal");
    fleet.create("mail", 1);
    fleet.user.ok(&["queue", "put", "mail", "hello"]);
    fleet.user.ok(&["slots", "create", "deploy", "--max", "2"]);
    let web = Web::start(&fleet.user, &[]);
    assert!(web.page("/queues/mail").text().contains("hello"));
    fleet.kill_journal();
    let queue = web.page("/queues/mail");
    assert!(queue.code == 503 && queue.text().contains("journal"), "{}", queue.text());
    let list = web.page("/queues");
    assert!(list.code == 200 && list.text().contains("journal"), "{}", list.text());
    let rows = web.get("", "/queues").value();
    assert_eq!(
        (&rows["items"][0]["queue"], &rows["items"][0]["lag"]),
        (&"mail".into(), &().into()),
        "{rows}"
    );
    for path in ["/", "/slots/deploy", "/flows", "/pipelines", "/znodes", "/keeper", "/audit"] {
        assert_eq!(web.page(path).code, 200, "{path}");
    }
    let token = token(&fleet.user, "submit");
    let refused = web.post(&token, "/queues/mail/messages", r#"{"body":"x"}"#);
    assert_eq!(refused.code, 503, "{}", refused.text());
    fleet.crash_journal();
    eventually("the queue is shown again", || {
        (web.page("/queues/mail").text().contains("hello")).then_some(())
    });
}
