//! Four-letter words: the plain-text commands of monitoring tools.

use std::fmt::Write as _;

use super::conn::Conn;
use super::server::Server;
use crate::ZOOKEEPER_VERSION;
use crate::config::Words;

/// Longest answer in bytes: it is buffered as a whole, whether the client reads it or not.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Collects an answer. Writing fails once it would get too long.
#[derive(Default)]
struct Answer(String);

impl std::fmt::Write for Answer {
    fn write_str(&mut self, text: &str) -> Written {
        if self.0.len() + text.len() > ANSWER_BYTES_MAX {
            return Err(std::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Answers a word. If it is unknown or not allowed, the answer says so; a too long answer is truncated with a note.
pub fn answer(server: &mut Server, word: [u8; 4]) -> String {
    let name = String::from_utf8_lossy(&word);
    if !Words::ALL.contains(&&*name) {
        return format!("{name} is not a word that this server knows.\n");
    }
    if !server.config.words.allows(&name) {
        // Exactly what the reference says, because tools look for it.
        return format!("{name} is not executed because it is not in the whitelist.\n");
    }
    let mut out = Answer::default();
    let Answer(mut text) = match write_answer(server, word, &mut out) {
        Ok(()) => return out.0,
        Err(std::fmt::Error) => out,
    };
    text.push_str("\n… and more than fits into an answer.\n");
    text
}

fn write_answer(server: &mut Server, word: [u8; 4], out: &mut Answer) -> Written {
    match &word {
        b"ruok" => write!(out, "imok"),
        b"isro" => write!(out, "rw"),
        b"srvr" => srvr(server, out),
        b"stat" => stat(server, out),
        b"cons" => cons(server, out),
        b"mntr" => mntr(server, out),
        b"conf" => conf(server, out),
        b"envi" => envi(out),
        b"dump" => dump(server, out),
        b"wchs" => wchs(server, out),
        b"wchc" => wchc(server, out),
        b"wchp" => wchp(server, out),
        b"srst" | b"crst" => {
            server.metrics.reset_latency();
            writeln!(out, "{} stats reset.", if &word == b"srst" { "Server" } else { "Connection" })
        }
        // `Words::ALL` has no others.
        _ => Ok(()),
    }
}

type Written = std::fmt::Result;

fn version() -> String {
    format!("{ZOOKEEPER_VERSION}-menagerie-{}", env!("CARGO_PKG_VERSION"))
}

fn srvr(server: &Server, out: &mut Answer) -> Written {
    writeln!(out, "Zookeeper version: {}", version())?;
    summary(server, out)
}

fn summary(server: &Server, out: &mut Answer) -> Written {
    let latency = server.metrics.latency();
    writeln!(out, "Latency min/avg/max: 0/{:.4}/{:.4}", latency.average_ms, latency.max_ms)?;
    writeln!(out, "Received: {}", server.metrics.packets_received.get())?;
    writeln!(out, "Sent: {}", server.conns().map(|conn| conn.sent).sum::<u64>().max(latency.count))?;
    writeln!(out, "Connections: {}", server.conns().count())?;
    writeln!(out, "Outstanding: {}", server.group.items.len())?;
    writeln!(out, "Zxid: {:#x}", server.state.applied_zxid())?;
    writeln!(out, "Mode: standalone")?;
    writeln!(out, "Node count: {}", server.state.tree.len())
}

fn stat(server: &Server, out: &mut Answer) -> Written {
    writeln!(out, "Zookeeper version: {}", version())?;
    writeln!(out, "Clients:")?;
    for conn in server.conns() {
        writeln!(out, " {}", client(conn))?;
    }
    writeln!(out)?;
    summary(server, out)
}

/// As Java writes it, because tools parse it: a slash, the address, and whether there is a session.
fn peer(conn: &Conn) -> String {
    format!("/{}[{}]", conn.peer, u8::from(conn.session.is_some()))
}

fn client(conn: &Conn) -> String {
    format!("{}(queued={},recved={},sent={})", peer(conn), conn.waiting_len(), conn.received, conn.sent)
}

fn cons(server: &Server, out: &mut Answer) -> Written {
    for conn in server.conns() {
        let session = conn.session.map_or(0, |session| session.0);
        let timeout =
            conn.session.and_then(|id| server.state.sessions.get(id)).map_or(0, |session| session.timeout_ms);
        writeln!(
            out,
            " {}(queued={},recved={},sent={},sid={session:#x},to={timeout},est={}s)",
            peer(conn),
            conn.waiting_len(),
            conn.received,
            conn.sent,
            conn.since.elapsed().as_secs(),
        )?;
    }
    writeln!(out)
}

fn mntr(server: &Server, out: &mut Answer) -> Written {
    let latency = server.metrics.latency();
    writeln!(out, "zk_version\t{}", version())?;
    writeln!(out, "zk_server_state\tstandalone")?;
    writeln!(out, "zk_avg_latency\t{:.4}", latency.average_ms)?;
    writeln!(out, "zk_max_latency\t{:.4}", latency.max_ms)?;
    writeln!(out, "zk_min_latency\t0")?;
    writeln!(out, "zk_packets_received\t{}", server.metrics.packets_received.get())?;
    writeln!(out, "zk_packets_sent\t{}", latency.count)?;
    writeln!(out, "zk_num_alive_connections\t{}", server.conns().count())?;
    writeln!(out, "zk_outstanding_requests\t{}", server.group.items.len())?;
    writeln!(out, "zk_znode_count\t{}", server.state.tree.len())?;
    writeln!(out, "zk_watch_count\t{}", server.state.watches.len())?;
    writeln!(out, "zk_ephemerals_count\t{}", server.state.tree.ephemeral_count())?;
    writeln!(out, "zk_approximate_data_size\t{}", server.state.tree.bytes())?;
    writeln!(out, "zk_global_sessions\t{}", server.state.sessions.len())?;
    writeln!(out, "zk_uptime\t{}", server.started.elapsed().as_millis())
}

fn conf(server: &Server, out: &mut Answer) -> Written {
    let config = &server.config;
    writeln!(out, "clientPort={}", config.listen.port())?;
    if let Some((address, _)) = &config.tls {
        writeln!(out, "secureClientPort={}", address.port())?;
    }
    writeln!(out, "dataDir={}", config.data.display())?;
    writeln!(out, "tickTime={}", config.tick_ms)?;
    writeln!(out, "maxClientCnxns={}", config.connections_per_address_max)?;
    writeln!(out, "minSessionTimeout={}", config.tick_ms.saturating_mul(2))?;
    writeln!(out, "maxSessionTimeout={}", config.tick_ms.saturating_mul(20))?;
    writeln!(out, "serverId=1")
}

fn envi(out: &mut Answer) -> Written {
    writeln!(out, "Environment:")?;
    writeln!(out, "zookeeper.version={}, built on menagerie {}", version(), env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "os.name={}", std::env::consts::OS)?;
    writeln!(out, "os.arch={}", std::env::consts::ARCH)
}

fn dump(server: &Server, out: &mut Answer) -> Written {
    let sessions = &server.state.sessions;
    writeln!(out, "Sessions ({}):", sessions.len())?;
    for (id, session) in sessions.iter() {
        writeln!(out, "{:#x}\t{}ms", id.0, session.timeout_ms)?;
    }
    let owners: Vec<_> = server.state.tree.ephemeral_owners().collect();
    writeln!(out, "Sessions with Ephemerals ({}):", owners.len())?;
    for id in owners {
        writeln!(out, "{:#x}:", id.0)?;
        for znode in server.state.tree.ephemerals(id) {
            writeln!(out, "\t{}", znode.path)?;
        }
    }
    Ok(())
}

fn wchs(server: &Server, out: &mut Answer) -> Written {
    let (connections, paths) = server.state.watches.spread();
    writeln!(out, "{connections} connections watching {paths} paths")?;
    writeln!(out, "Total watches:{}", server.state.watches.len())
}

fn wchc(server: &Server, out: &mut Answer) -> Written {
    for (conn, paths) in server.state.watches.by_connection() {
        writeln!(out, "{:#x}", server.session_of(conn).map_or(0, |session| session.0))?;
        for path in paths {
            writeln!(out, "\t{path}")?;
        }
    }
    Ok(())
}

fn wchp(server: &Server, out: &mut Answer) -> Written {
    let mut by_path = std::collections::BTreeMap::<&str, Vec<i64>>::new();
    for (conn, paths) in server.state.watches.by_connection() {
        for path in paths {
            by_path.entry(path).or_default().push(server.session_of(conn).map_or(0, |session| session.0));
        }
    }
    for (path, sessions) in by_path {
        writeln!(out, "{path}")?;
        for session in sessions {
            writeln!(out, "\t{session:#x}")?;
        }
    }
    Ok(())
}
