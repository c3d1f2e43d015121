//! FleetLock over a real socket.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use menagerie_testkit::{Authority, DEADLINE, Process, eventually};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

use super::{far_from, holders, pool, queue, start, user, wait_for_waiter, waiters};
use crate::cli::User;

pub fn serve(user: &User, options: &[&str]) -> (Process, SocketAddr) {
    let server = user.spawn(&[&["slots", "serve", "--listen", "127.0.0.1:0"], options].concat());
    let address = server.wait_until_listening("slots");
    (server, address)
}

/// Status and body of a response.
fn exchange(mut stream: impl Read + Write, request: &str) -> (u16, String) {
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut answer = Vec::new();
    // A TLS peer may just close.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).expect("it is text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer has a head");
    let status = head.split_whitespace().nth(1).and_then(|status| status.parse().ok());
    (status.expect("it has a status"), body.to_owned())
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it is served");
    stream.set_read_timeout(Some(DEADLINE)).expect("a socket has options");
    stream
}

fn request(method: &str, path: &str, header: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: lock\r\nConnection: close\r\n{header}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

const HEADER: &str = "fleet-lock-protocol: true\r\n";

/// What Zincati sends.
fn ask(address: SocketAddr, verb: &str, id: &str) -> (u16, Value) {
    let body = format!(r#"{{"client_params":{{"id":"{id}","group":"pool"}}}}"#);
    let (status, body) = exchange(connect(address), &request("POST", &format!("/v1/{verb}"), HEADER, &body));
    (status, serde_json::from_str(&body).unwrap_or_default())
}

pub fn lock(address: SocketAddr, id: &str) -> u16 {
    ask(address, "pre-reboot", id).0
}

fn unlock(address: SocketAddr, id: &str) -> u16 {
    ask(address, "steady-state", id).0
}

#[test]
fn clients_get_slots_in_order_again_and_give_them_back() {
    let user = user("fleetlock", 1);
    let (_server, address) = serve(&user, &[]);
    eventually("it is registered", || {
        let status = user.json(&["status"]);
        (status["components"][0]["kind"] == "slots" && status["components"][0]["state"] == "running")
            .then_some(())
    });
    assert_eq!(unlock(address, "a"), 200, "whoever has nothing has given it back");
    assert_eq!((lock(address, "a"), lock(address, "a")), (200, 200), "the same again is fine");
    let (status, error) = ask(address, "pre-reboot", "b");
    assert_eq!((status, &error["kind"]), (409, &"failed_lock_semaphore_full".into()));
    assert!(error["value"].as_str().unwrap().contains("held by a"), "{error}");
    assert_eq!(lock(address, "c"), 409);
    assert_eq!(waiters(&user), ["b", "c"]);
    assert_eq!((unlock(address, "a"), unlock(address, "a")), (200, 200));
    assert_eq!(lock(address, "c"), 409, "b was first");
    assert_eq!((lock(address, "b"), holders(&user)), (200, vec!["b".to_owned()]));
    assert_eq!(unlock(address, "c"), 200);
    assert_eq!(waiters(&user), [""; 0], "who reports to be well does not wait any more");
}

#[test]
fn clients_and_commands_share_one_queue() {
    let user = user("shared-queue", 1);
    let (_server, address) = serve(&user, &["--lapse", "2s"]);
    let (mut run, _) = start(&user, "a", &[], "echo $$; exec sleep 1000");
    let (status, error) = ask(address, "pre-reboot", "a");
    assert_eq!((status, &error["kind"]), (409, &"failed_lock_in_use".into()), "a command runs under it");
    assert_eq!(unlock(address, "a"), 409, "and it is not for others to give back");
    assert_eq!(lock(address, "b"), 409);
    let mut next = queue(&user, "c", &[], "echo in");
    wait_for_waiter(&user, "c");
    // A silent client loses its place.
    eventually("the silent one is gone", || (waiters(&user) == ["c"]).then_some(()));
    run.signal(rustix::process::Signal::TERM);
    run.wait_for_end();
    user.ok(&["slots", "release", "pool", "a", "--force"]);
    next.wait_for_line("that it is in", |line| (line == "in").then_some(()));
    assert_eq!(next.wait_for_end().status.code(), Some(0));
}

#[test]
fn place_in_the_queue_outlives_the_server() {
    let user = user("restarted", 1);
    let (mut server, address) = serve(&user, &[]);
    assert_eq!((lock(address, "a"), lock(address, "b")), (200, 409));
    server.kill();
    let (_server, address) = serve(&user, &[]);
    assert_eq!((holders(&user), waiters(&user)), (vec!["a".to_owned()], vec!["b".to_owned()]));
    assert_eq!(
        (lock(address, "c"), unlock(address, "a"), lock(address, "c"), lock(address, "b")),
        (409, 200, 409, 200)
    );
}

/// Sends a request, hangs up before the response, and returns when the server has noticed.
fn ask_and_hang_up(address: SocketAddr, id: &str, hang_up: impl FnOnce()) {
    let body = format!(r#"{{"client_params":{{"id":"{id}","group":"pool"}}}}"#);
    let mut stream = connect(address);
    stream.write_all(request("POST", "/v1/pre-reboot", HEADER, &body).as_bytes()).expect("it listens");
    hang_up();
    stream.shutdown(Shutdown::Write).expect("it is open");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty(), "it was answered: {}", String::from_utf8_lossy(&answer));
}

#[test]
fn client_that_hangs_up_and_asks_again_is_not_put_out_by_its_first_request() {
    let user = user("hung-up", 1);
    let (far, proxy) = far_from(&user);
    let (_server, address) = serve(&far, &[]);
    proxy.delay(Duration::from_millis(300));
    ask_and_hang_up(address, "a", || {
        eventually("the server has let it in", || (holders(&user) == ["a"]).then_some(()));
    });
    assert_eq!(lock(address, "a"), 200);
    assert_eq!(lock(address, "b"), 409, "a was told that it holds the only slot");
    assert_eq!(holders(&user), ["a"]);
    proxy.heal();
    assert_eq!((unlock(address, "a"), lock(address, "b")), (200, 200));
}

#[test]
fn client_that_asks_another_server_again_is_not_put_out_by_the_first_one() {
    let user = user("other-server", 1);
    let (far, proxy) = far_from(&user);
    let (mut first, address) = serve(&far, &[]);
    let (_second, other) = serve(&user, &[]);
    proxy.delay(Duration::from_millis(300));
    ask_and_hang_up(address, "a", || {
        eventually("the server has let it in", || (holders(&user) == ["a"]).then_some(()));
    });
    assert_eq!(lock(other, "a"), 200);
    // It finishes requests in flight; afterwards nothing more comes from it.
    first.signal(rustix::process::Signal::TERM);
    first.wait_for_end();
    assert_eq!(lock(other, "b"), 409, "a was told that it holds the only slot");
}

#[test]
fn what_is_no_fleetlock_is_refused_with_a_kind() {
    let user = user("fleetlock-bad", 1);
    let (_server, address) = serve(&user, &[]);
    let good = r#"{"client_params":{"id":"a","group":"pool"}}"#;
    let long = format!(r#"{{"client_params":{{"id":"{}","group":"pool"}}}}"#, "x".repeat(20_000));
    for (method, path, header, body, status, kind) in [
        ("POST", "/v1/pre-reboot", "", good, 400, "missing_header"),
        ("POST", "/v1/pre-reboot", "fleet-lock-protocol: no\r\n", good, 400, "missing_header"),
        ("POST", "/v1/pre-reboot", HEADER, "", 400, "invalid_body"),
        ("POST", "/v1/pre-reboot", HEADER, "{}", 400, "invalid_body"),
        ("POST", "/v1/pre-reboot", HEADER, &long, 400, "invalid_body"),
        (
            "POST",
            "/v1/steady-state",
            HEADER,
            r#"{"client_params":{"id":"","group":"pool"}}"#,
            400,
            "invalid_id",
        ),
        (
            "POST",
            "/v1/pre-reboot",
            HEADER,
            r#"{"client_params":{"id":"a","group":""}}"#,
            400,
            "invalid_group",
        ),
        (
            "POST",
            "/v1/pre-reboot",
            HEADER,
            r#"{"client_params":{"id":"a","group":"a/b"}}"#,
            400,
            "invalid_group",
        ),
        (
            "POST",
            "/v1/pre-reboot",
            HEADER,
            r#"{"client_params":{"id":"a","group":"none"}}"#,
            404,
            "unknown_group",
        ),
        ("GET", "/v1/pre-reboot", HEADER, good, 405, "wrong_method"),
        ("POST", "/v2/pre-reboot", HEADER, good, 404, "unknown_path"),
    ] {
        let (got, answer) = exchange(connect(address), &request(method, path, header, body));
        let error: Value = serde_json::from_str(&answer).unwrap_or_default();
        assert_eq!((got, &error["kind"]), (status, &kind.into()), "{method} {path} {header:?} {answer}");
        assert!(error["value"].is_string(), "{answer}");
    }
    user.ok(&["slots", "freeze", "pool"]);
    assert_eq!(ask(address, "pre-reboot", "a").1["kind"], "failed_lock_frozen");
    assert_eq!(pool(&user)["used"], 0);
}

#[test]
fn invented_ids_do_not_fill_the_queue() {
    let user = user("invented", 1);
    let (_server, address) = serve(&user, &[]);
    assert_eq!(lock(address, "holder"), 200);
    let answers: Vec<(u16, Value)> =
        (0..80).map(|number| ask(address, "pre-reboot", &format!("invented-{number}"))).collect();
    assert!(answers.iter().all(|(status, _)| *status == 409));
    assert_eq!(waiters(&user).len(), 64, "one address has so many places");
    let (_, refused) = &answers[79];
    assert_eq!(refused["kind"], "failed_lock_too_many_ids");
    let value = refused["value"].as_str().unwrap();
    assert!(value.contains("127.0.0.1") && value.contains("--waiters-per-address"), "{value}");
    assert_eq!(unlock(address, "holder"), 200);
    assert_eq!(lock(address, "invented-79"), 409, "others came before");
    assert_eq!(lock(address, "invented-0"), 200);
    assert_eq!(lock(address, "invented-79"), 409, "now there is a place for it");
    assert_eq!(waiters(&user).last().map(String::as_str), Some("invented-79"));
}

#[test]
fn queue_is_bounded_for_all_addresses_together() {
    let user = user("bounded", 1);
    let options = ["--waiters-max", "3", "--waiters-per-address", "2", "--allow", "127.0.0.0/8"];
    let (_server, address) = serve(&user, &options);
    assert_eq!(lock(address, "holder"), 200);
    let body = |id: &str| format!(r#"{{"client_params":{{"id":"{id}","group":"pool"}}}}"#);
    let elsewhere = |id: &str| {
        let sent = request("POST", "/v1/pre-reboot", HEADER, &body(id));
        let answer: Value = serde_json::from_str(&exchange(stranger(address), &sent).1).unwrap_or_default();
        answer["kind"].as_str().unwrap_or_default().to_owned()
    };
    let here = |id: &str| ask(address, "pre-reboot", id).1["kind"].as_str().unwrap_or_default().to_owned();
    let (waits, no_more_ids) = ("failed_lock_semaphore_full", "failed_lock_too_many_ids");
    assert_eq!((here("a"), here("b"), here("c")), (waits.into(), waits.into(), no_more_ids.into()));
    assert_eq!((elsewhere("d"), elsewhere("e")), (waits.into(), "failed_lock_queue_full".into()));
    assert_eq!((here("a"), elsewhere("d")), (waits.into(), waits.into()), "whoever has a place keeps it");
    assert_eq!(waiters(&user), ["a", "b", "d"]);
}

#[test]
fn only_those_on_the_list_are_answered() {
    let user = user("allow", 1);
    let (_server, address) = serve(&user, &["--allow", "10.0.0.0/8,192.0.2.7"]);
    let (status, error) = ask(address, "pre-reboot", "a");
    assert_eq!((status, &error["kind"]), (403, &"not_allowed".into()));
    assert_eq!(holders(&user), [""; 0]);
}

#[test]
fn who_only_keeps_a_connection_open_is_cut_off() {
    let user = user("slow", 1);
    let (_server, address) = serve(&user, &[]);
    let mut slow = connect(address);
    slow.set_read_timeout(Some(4 * DEADLINE)).expect("a socket has options");
    slow.write_all(b"POST /v1/pre-reboot HTTP/1.1\r\nHost: ").expect("it listens");
    assert_eq!(lock(address, "a"), 200, "nobody waits for it");
    let mut answer = Vec::new();
    // Closed, one way or the other; not left open until our own deadline.
    let ended = slow.read_to_end(&mut answer);
    assert!(!ended.is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
}

#[test]
fn strangers_do_not_take_the_place_of_those_on_the_list() {
    let user = user("strangers", 1);
    let (_server, address) = serve(&user, &["--allow", "127.0.0.1"]);
    // Another address of this machine that is not on the list.
    let strangers: Vec<TcpStream> = (0..40).map(|_| stranger(address)).collect();
    assert_eq!(lock(address, "a"), 200);
    let is_cut = |mut stream: TcpStream| {
        stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a socket has options");
        stream.read(&mut [0]).map_or_else(|error| error.kind() != ErrorKind::WouldBlock, |_| true)
    };
    assert!(strangers.into_iter().filter_map(|stream| is_cut(stream).then_some(())).count() > 0);
}

/// A connection from 127.0.0.2.
fn stranger(address: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let stranger = socket(AddressFamily::INET, SocketType::STREAM, None).expect("there are sockets");
    bind(&stranger, &SocketAddr::from(([127, 0, 0, 2], 0))).expect("all of 127/8 is ours");
    connect(&stranger, &address).expect("it listens");
    stranger.into()
}

#[test]
fn over_tls_nothing_else_is_spoken() {
    let user = user("fleetlock-tls", 1);
    let authority = Authority::new();
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| authority.file(name).to_str().unwrap().to_owned());
    let (_server, address) = serve(&user, &["--tls-cert", &cert, "--tls-key", &key]);
    let mut roots = RootCertStore::empty();
    roots.add(authority.certificate()).expect("the authority is one");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("they are supported")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::from(address.ip());
    let connection = ClientConnection::new(Arc::new(config), name).expect("the settings make sense");
    let body = r#"{"client_params":{"id":"a","group":"pool"}}"#;
    let sent = request("POST", "/v1/pre-reboot", HEADER, body);
    assert_eq!(exchange(StreamOwned::new(connection, connect(address)), &sent).0, 200);
    let mut plain = connect(address);
    plain.write_all(sent.as_bytes()).expect("it listens");
    let mut answer = String::new();
    let _ = plain.read_to_string(&mut answer);
    assert!(!answer.contains("200"), "{answer}");
    assert_eq!(holders(&user), ["a"]);
}

#[test]
fn metrics_tell_of_pools_and_requests() {
    let user = user("fleetlock-metrics", 2);
    let (server, address) = serve(&user, &["--metrics", "127.0.0.1:0"]);
    let metrics: SocketAddr = server.wait_for_line("its metrics", |line| {
        line.strip_prefix("slots metrics on ").and_then(|at| at.parse().ok())
    });
    assert_eq!(lock(address, "a"), 200);
    eventually("metrics show it", || {
        let text = exchange(connect(metrics), &request("GET", "/metrics", "", "")).1;
        let has = |line: &str| text.lines().any(|other| other == line);
        (has(r#"menagerie_slots_used{pool="pool"} 1"#)
            && has(r#"menagerie_slots_max{pool="pool"} 2"#)
            && has(r#"menagerie_slots_requests_total{verb="pre-reboot",answer="ok"} 1"#))
        .then_some(())
    });
    assert_eq!(exchange(connect(metrics), &request("GET", "/healthz", "", "")).0, 200);
}
