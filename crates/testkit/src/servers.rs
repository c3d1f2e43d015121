//! Running servers that form one ensemble.

use std::net::SocketAddr;

use crate::chroot;
use crate::quorum::Links;
use crate::server::Server;
use crate::wait::eventually;
use crate::words::{four_letter_word, mode};

/// Modes of a server that decides on writes.
const LEADS: [&str; 2] = ["leader", "standalone"];

/// The servers of an ensemble that belongs to one test. Verbs that name no server mean the same on every ensemble, be it
/// one server or three. All of them block: an async test is alone on its thread. Dropping it ends the servers and
/// removes their data.
#[derive(Debug)]
pub struct Servers {
    servers: Vec<Server>,
    /// Declared, and so dropped, after the servers, which must not see the links close.
    links: Option<Links>,
}

impl Servers {
    pub(crate) fn single(server: Server) -> Self {
        Self { servers: vec![server], links: None }
    }

    /// Servers that have been started, and serve only together.
    pub(crate) fn linked(servers: Vec<Server>, links: Links) -> Self {
        let mut servers = Self { servers, links: Some(links) };
        servers.wait_until_ready();
        servers
    }

    /// `host:port[,host:port…]`.
    pub fn connect_string(&self) -> String {
        chroot::join(&self.addresses())
    }

    /// The connect string with a fresh chroot, `host:port[,…]/test-NNN-name`. The znode exists.
    pub fn chroot(&self, name: &str) -> String {
        self.connect_string() + &self.fresh_path(name)
    }

    /// A fresh chroot alone, for clients that connect through a proxy.
    pub fn fresh_path(&self, name: &str) -> String {
        chroot::create(self.address(self.leader()), name)
    }

    /// Addresses of all servers, including those that are down.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(Server::address).collect()
    }

    /// Address of this server.
    pub fn address(&self, server: usize) -> SocketAddr {
        self.servers[server].address()
    }

    /// The process of this server.
    pub fn server(&self, server: usize) -> &Server {
        &self.servers[server]
    }

    /// The leader, once there is one; a single server always leads.
    ///
    /// # Panics
    /// If nobody leads in time.
    #[track_caller]
    pub fn leader(&self) -> usize {
        eventually("somebody leads", || {
            self.running()
                .find(|server| mode(self.address(*server)).is_some_and(|mode| LEADS.contains(&mode.as_str())))
        })
    }

    /// A server that does not lead.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn follower(&self) -> usize {
        let leader = self.leader();
        self.running()
            .find(|server| *server != leader)
            .expect("an ensemble of one has no followers; use Apache3")
    }

    /// Kills the leader (SIGKILL), waits until the ensemble serves again, and returns the killed server. Of three
    /// servers it stays dead until [`restart`](Self::restart); a single server is restarted here, since nobody else
    /// could lead.
    pub fn kill_leader(&mut self) -> usize {
        let leader = self.leader();
        if self.servers.len() == 1 {
            self.restart(leader);
            return leader;
        }
        self.kill(leader);
        self.leader();
        self.wait_until_ready();
        leader
    }

    /// Kills this server (SIGKILL) without waiting for the others to notice.
    pub fn kill(&mut self, server: usize) {
        self.servers[server].kill();
    }

    /// Restarts this server on the same data and address, and waits until it serves; kills it first if it still runs.
    pub fn restart(&mut self, server: usize) {
        self.servers[server].restart();
    }

    /// Kills the running servers (SIGKILL), restarts all on the same data and addresses, and waits until they serve.
    pub fn restart_all(&mut self) {
        for server in self.servers.iter_mut().filter(|server| server.is_running()) {
            server.kill();
        }
        for server in &mut self.servers {
            server.begin_again();
        }
        self.wait_until_ready();
    }

    /// The same with another tick: sessions that reconnect are granted 2 to 20 of it.
    pub fn restart_all_with_tick(&mut self, tick_ms: u32) {
        for server in &mut self.servers {
            server.set_tick_ms(tick_ms);
        }
        self.restart_all();
    }

    /// Freezes all servers (SIGSTOP): connections stay open, nothing is answered.
    pub fn pause(&self) {
        self.running().for_each(|server| self.servers[server].pause());
    }

    /// Ends a [`pause`](Self::pause).
    pub fn resume(&self) {
        self.running().for_each(|server| self.servers[server].resume());
    }

    /// Cuts a follower off from the other servers, not from its clients: connections between servers stay open and
    /// nothing arrives. Until it notices, 10 ticks later, it answers reads and pings from its own data; a write gets
    /// no answer, nor does anything sent after it on the same connection, pings included. Then it closes all
    /// connections and serves nobody until [`rejoin`](Self::rejoin).
    ///
    /// # Panics
    /// If there are no others, or it leads: elections use other connections, and would choose it again and again.
    #[track_caller]
    pub fn cut_off(&self, follower: usize) {
        let links =
            self.links.as_ref().expect("only servers of an ensemble of three can be cut off; use Apache3");
        assert_ne!(follower, self.leader(), "a leader cannot be cut off; kill or pause it");
        links.cut_off(follower);
    }

    /// Ends a [`cut_off`](Self::cut_off) and waits until the server follows and serves. If neither side had noticed
    /// yet, the held traffic arrives late and all goes on.
    #[track_caller]
    pub fn rejoin(&mut self, follower: usize) {
        if let Some(links) = &self.links {
            links.rejoin(follower);
        }
        let followers = format!("zk_synced_followers\t{}\n", self.running().count() - 1);
        eventually("the leader has its follower back", || {
            four_letter_word(self.address(self.leader()), "mntr").contains(&followers).then_some(())
        });
        self.servers[follower].wait_until_ready();
    }

    fn running(&self) -> impl Iterator<Item = usize> {
        self.servers.iter().enumerate().filter(|(_, server)| server.is_running()).map(|(number, _)| number)
    }

    fn wait_until_ready(&mut self) {
        for server in self.servers.iter_mut().filter(|server| server.is_running()) {
            server.wait_until_ready();
        }
    }
}
