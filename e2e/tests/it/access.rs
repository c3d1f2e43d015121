//! Who may use what `menagerie up` runs: commands of the same user without credentials, anybody who knows the secret,
//! nobody else.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use menagerie_testkit::{Process, RawClient};
use menagerie_wire::{Acl, ErrorCode, OpCode, Request, Response};
use rustix::process::Signal;

use crate::ask::{ANY, create, delete, get, set};
use crate::cli::User;
use crate::stranger::Stranger;
use crate::up::up;

/// `menagerie up` on this folder, and its keeper's address.
struct Up {
    process: Process,
    keeper: SocketAddr,
}

impl Up {
    fn start(data: &Path, more: &[&str]) -> Self {
        let data = data.to_str().expect("its name is text");
        let process = Process::menagerie(up(&[&["--data", data], more].concat()));
        process.wait_for_line("how to stop it", |line| line.contains("Ctrl-C").then_some(()));
        let text = fs::read(Path::new(data).join("addresses.json")).expect("it is there");
        let addresses: serde_json::Value = serde_json::from_slice(&text).expect("it is JSON");
        let keeper = addresses["keeper"].as_str().and_then(|at| at.parse().ok()).expect("an address");
        Self { process, keeper }
    }

    /// The same user, who knows only the address.
    fn user(&self) -> User {
        User::at(self.keeper.to_string())
    }

    fn stop(mut self) {
        self.process.signal(Signal::INT);
        let end = self.process.wait_for_end();
        assert_eq!(end.status.code(), Some(0), "{}", end.stderr);
    }
}

/// The server's answer to an anonymous client, or to one with this secret.
fn reply_code(keeper: SocketAddr, secret: Option<&str>, request: &Request<'_>) -> ErrorCode {
    let mut client = RawClient::open(keeper);
    if let Some(secret) = secret {
        let auth = Request::Auth { scheme: "digest", credentials: secret.as_bytes() };
        assert_eq!(client.call(&auth).header.err, ErrorCode::Ok);
    }
    client.call(request).header.err
}

fn secret(data: &Path) -> String {
    let text = fs::read_to_string(data.join("zookeeper.auth")).expect("there is a secret");
    text.trim_end().to_owned()
}

#[test]
fn namespace_is_its_users_alone() {
    let data = tempfile::tempdir().expect("a temporary directory can be made");
    let up = Up::start(data.path(), &[]);
    let user = up.user();
    user.ok(&["queue", "create", "mail", "--partitions", "1"]);
    user.ok(&["slots", "create", "pool", "--max", "1"]);
    assert!(user.ok(&["queue", "list"]).contains("mail"));
    assert!(user.ok(&["config", "show", "--origin"]).contains("`menagerie up` of this user"));

    let open = || vec![Acl::open()];
    let access = Request::SetAcl { path: "/menagerie", acl: open(), version: ANY };
    for request in [
        get("/menagerie/queues/mail-1"),
        Request::GetChildren { path: "/menagerie", watch: false },
        create("/menagerie/queue-keys", b""),
        set("/menagerie/slots/pool", br#"{"max":9}"#),
        delete("/menagerie/slots/pool/queue"),
        access,
    ] {
        assert_eq!(reply_code(up.keeper, None, &request), ErrorCode::NoAuth, "{request:?}");
        assert_eq!(
            reply_code(up.keeper, Some("menagerie:guess"), &request),
            ErrorCode::NoAuth,
            "{request:?}"
        );
    }
    let children = Request::GetChildren { path: "/menagerie", watch: false };
    assert_eq!(reply_code(up.keeper, Some(&secret(data.path())), &children), ErrorCode::Ok);
    assert_eq!(
        reply_code(up.keeper, None, &create("/elsewhere", b"")),
        ErrorCode::Ok,
        "the rest is everybody's"
    );
    up.stop();
}

#[test]
fn commands_of_other_users_are_refused_with_what_to_do() {
    let data = tempfile::tempdir().expect("a temporary directory can be made");
    let up = Up::start(data.path(), &[]);
    let Some(stranger) = Stranger::at(up.keeper.to_string()) else { return up.stop() };
    for arguments in
        [&["queue", "list"][..], &["queue", "key", "add", "app"], &["slots", "create", "pool", "--max", "9"]]
    {
        let (code, stderr) = stranger.run(arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains("for the user who started it"), "{arguments:?}: {stderr}");
    }
    up.stop();
}

#[test]
fn what_was_open_is_closed_at_the_next_start_and_opened_again_by_request() {
    let data = tempfile::tempdir().expect("a temporary directory can be made");
    let read = get("/menagerie/queues/mail-1");
    let up = Up::start(data.path(), &["--open"]);
    up.user().ok(&["queue", "create", "mail", "--partitions", "1"]);
    assert_eq!(reply_code(up.keeper, None, &read), ErrorCode::Ok);
    assert!(up.user().ok(&["doctor"]).contains("is open to everybody on this machine"));
    up.stop();

    let up = Up::start(data.path(), &[]);
    assert_eq!(reply_code(up.keeper, None, &read), ErrorCode::NoAuth);
    assert!(up.user().ok(&["queue", "list"]).contains("mail"));
    assert!(up.user().ok(&["doctor"]).contains("it is closed to strangers"));
    up.stop();

    let up = Up::start(data.path(), &["--open"]);
    assert_eq!(reply_code(up.keeper, None, &read), ErrorCode::Ok);
    assert!(up.user().ok(&["queue", "list"]).contains("mail"));
    up.stop();
}

/// A client that got in while the namespace was open has granted itself access; and an interrupted start has left
/// half of the lists open.
#[test]
fn closing_leaves_no_door_open() {
    let data = tempfile::tempdir().expect("a temporary directory can be made");
    let path = "/menagerie/queues/mail-1";
    let up = Up::start(data.path(), &["--open"]);
    up.user().ok(&["queue", "create", "mail", "--partitions", "1"]);
    up.user().ok(&["zk", "acl", "set", path, "world:anyone:cdrwa", "ip:127.0.0.1:cdrwa"]);
    up.stop();
    let up = Up::start(data.path(), &[]);
    assert_eq!(reply_code(up.keeper, None, &set(path, b"x")), ErrorCode::NoAuth);
    // As left by an `up --open` that was killed after its first steps.
    up.user().ok(&["zk", "acl", "set", path, "world:anyone:cdrwa"]);
    let unfinished = ["world:anyone:cdrwa", "digest:menagerie:unfinished:r"];
    up.user().ok(&[&["zk", "acl", "set", "/menagerie"][..], &unfinished].concat());
    up.stop();
    let up = Up::start(data.path(), &[]);
    assert_eq!(reply_code(up.keeper, None, &set(path, b"x")), ErrorCode::NoAuth);
    let list = up.user().ok(&["zk", "acl", "get", "/menagerie"]);
    assert!(!list.contains("unfinished"), "{list}");
    up.stop();
}

/// On another address, the same port may belong to another user.
#[test]
fn secret_is_shown_to_the_keeper_that_it_belongs_to_and_to_nobody_else() {
    let data = tempfile::tempdir().expect("a temporary directory can be made");
    let up = Up::start(data.path(), &[]);
    let port = up.keeper.port();
    let stranger = std::net::TcpListener::bind(("127.0.0.2", port)).expect("the port is free there");
    let origin = |servers: String| User::at(servers).ok(&["config", "show", "--origin"]);
    assert!(origin(format!("localhost:{port}")).contains("`menagerie up` of this user"));
    User::at(format!("localhost:{port}")).ok(&["queue", "list"]);
    let shown = origin(stranger.local_addr().expect("it has one").to_string());
    assert!(!shown.contains("`menagerie up` of this user"), "{shown}");
    up.stop();
}

#[test]
fn lost_secret_locks_nobody_out_and_is_worth_nothing_any_more() {
    let data = tempfile::tempdir().expect("a temporary directory can be made");
    let up = Up::start(data.path(), &[]);
    up.user().ok(&["queue", "create", "mail", "--partitions", "1"]);
    let old = secret(data.path());
    up.stop();
    fs::remove_file(data.path().join("zookeeper.auth")).expect("it is there");

    let up = Up::start(data.path(), &[]);
    assert!(up.user().ok(&["queue", "list"]).contains("mail"));
    let read = get("/menagerie/queues/mail-1");
    assert_eq!(reply_code(up.keeper, Some(&old), &read), ErrorCode::NoAuth);
    assert_eq!(reply_code(up.keeper, Some(&secret(data.path())), &read), ErrorCode::Ok);
    up.stop();
}

#[test]
fn reading_for_all_that_an_operator_granted_survives_a_restart() {
    let data = tempfile::tempdir().expect("a temporary directory can be made");
    let up = Up::start(data.path(), &[]);
    up.user().ok(&["zk", "acl", "set", "/menagerie", "auth::cdrwa", "world:anyone:r"]);
    up.stop();
    let up = Up::start(data.path(), &[]);
    let mut client = RawClient::open(up.keeper);
    let children = Request::GetChildren { path: "/menagerie", watch: false };
    let reply = client.call(&children);
    assert!(matches!(reply.response(OpCode::GetChildren), Ok(Response::Names(_))), "{reply:?}");
    assert_eq!(reply_code(up.keeper, None, &create("/menagerie/mine", b"")), ErrorCode::NoAuth);
    up.stop();
}
