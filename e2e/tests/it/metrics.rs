//! `/metrics` and `/healthz`.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use menagerie_testkit::{DEADLINE, Keeper, RawClient, eventually, free_port};
use menagerie_wire::Request;

use crate::ask::{EPHEMERAL, create, create_as, done, get};

/// Head and body of the response to a GET.
fn fetch(address: SocketAddr, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("metrics are served");
    stream.set_read_timeout(Some(DEADLINE)).expect("a socket has options");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
        .expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer in time");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer has a head");
    (head.to_owned(), body.to_owned())
}

/// Every sample by its name and labels. Fails on an invalid line.
pub fn samples(address: SocketAddr) -> BTreeMap<String, f64> {
    let (head, body) = fetch(address, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.to_lowercase().contains("content-type: application/openmetrics-text"), "{head}");
    assert!(body.ends_with("# EOF\n"), "OpenMetrics end with a mark");
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
        (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("no number: {line}")))
    };
    body.lines().filter(|line| !line.starts_with('#')).map(sample).collect()
}

#[test]
fn metrics_are_there_and_move() {
    let metrics = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let server = Keeper::new().args(["--metrics", &metrics.to_string()]).start();
    assert_eq!(fetch(metrics, "/healthz").1, "ok\n");
    let before = samples(metrics);

    let mut client = RawClient::open(server.address());
    done(&mut client, &create("/a", b"data"));
    done(&mut client, &create_as("/e", b"", EPHEMERAL));
    done(&mut client, &Request::GetData { path: "/a", watch: true });
    for _ in 0..9 {
        done(&mut client, &get("/a"));
    }

    let grown = [
        ("menagerie_keeper_request_seconds_count{op=\"Create\"}", 2.0),
        ("menagerie_keeper_request_seconds_count{op=\"GetData\"}", 10.0),
        ("menagerie_keeper_request_seconds_bucket{le=\"+Inf\",op=\"Create\"}", 2.0),
        ("menagerie_keeper_sessions", 1.0),
        ("menagerie_keeper_connections", 1.0),
        ("menagerie_keeper_znodes", 2.0),
        ("menagerie_keeper_ephemerals", 1.0),
        ("menagerie_keeper_watches", 1.0),
        // Three successive writes: the session and two znodes.
        ("menagerie_keeper_commit_group_size_count", 3.0),
        ("menagerie_keeper_commit_group_size_sum", 3.0),
        ("menagerie_keeper_fsync_seconds_count", 3.0),
        ("menagerie_keeper_zxid", 3.0),
    ];
    for (name, by) in grown {
        let was = *before.get(name).unwrap_or_else(|| panic!("there is no {name}"));
        eventually(&format!("{name} grows by {by}"), || {
            (samples(metrics).get(name) == Some(&(was + by))).then_some(())
        });
    }
    let after = samples(metrics);
    for name in ["menagerie_keeper_fsync_seconds_sum", "menagerie_keeper_packets_received_total"] {
        assert!(after[name] > before[name], "{name}");
    }
    assert!(after["menagerie_keeper_log_bytes"] > 0.0);
}
