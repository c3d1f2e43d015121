//! Three Apache servers that can be cut off from each other.
//!
//! A follower connects to its leader's quorum port as *its own* configuration has it. So each server's configuration
//! names proxies as the quorum ports of the others: one proxy per pair, which can hold the link. Election ports are
//! the real ones: a server that is cut off still sees who leads, as with a link that fails in one direction.

use std::array;
use std::net::{Ipv4Addr, SocketAddr};

use crate::apache::Member;
use crate::ensemble::apache;
use crate::ports::free_port;
use crate::proxy::Proxy;
use crate::server::Server;
use crate::servers::Servers;

/// Number of servers: the least whose majority survives a failure.
const SIZE: usize = 3;

/// Ticks for a follower to connect and catch up. Generous: JVMs start cold on a busy machine.
const INIT_LIMIT: u32 = 50;

/// Ticks of silence after which a follower and its leader give each other up.
const SYNC_LIMIT: u32 = 10;

/// The links between the servers.
#[derive(Debug)]
pub(crate) struct Links {
    /// By connecting server, then by its target; a server has none to itself.
    proxies: [[Option<Proxy>; SIZE]; SIZE],
}

impl Links {
    /// Holds everything between this server and the others, in both directions.
    pub(crate) fn cut_off(&self, server: usize) {
        self.of(server).for_each(Proxy::partition);
    }

    /// Ends a [`cut_off`](Self::cut_off).
    pub(crate) fn rejoin(&self, server: usize) {
        self.of(server).for_each(Proxy::heal);
    }

    fn of(&self, server: usize) -> impl Iterator<Item = &Proxy> {
        let outgoing = self.proxies[server].iter();
        let incoming = self.proxies.iter().map(move |row| &row[server]);
        outgoing.chain(incoming).flatten()
    }
}

/// Starts all three and waits until they serve.
pub(crate) fn start() -> Servers {
    let quorum_ports: [u16; SIZE] = array::from_fn(|_| free_port());
    let election_ports: [u16; SIZE] = array::from_fn(|_| free_port());
    let proxies = array::from_fn(|from| {
        array::from_fn(|to| (from != to).then(|| Proxy::between_servers(loopback(quorum_ports[to]))))
    });
    let links = Links { proxies };
    let servers = (0..SIZE).map(|me| {
        let mut lines = vec![format!("initLimit={INIT_LIMIT}"), format!("syncLimit={SYNC_LIMIT}")];
        lines.extend((0..SIZE).map(|other| {
            let quorum =
                links.proxies[me][other].as_ref().map_or(loopback(quorum_ports[other]), Proxy::address);
            format!("server.{}={quorum}:{}", other + 1, election_ports[other])
        }));
        Server::begin(apache().member(Member { id: me + 1, lines }))
    });
    let servers = servers.collect();
    Servers::linked(servers, links)
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
