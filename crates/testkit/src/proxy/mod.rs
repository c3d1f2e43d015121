//! A TCP proxy that fails on demand, between a client and a server.
//!
//! # Layout
//! - `units.rs`: splits a stream of bytes into units that are forwarded or lost as a whole: frames, in ZooKeeper's
//!   protocol.
//! - `faults.rs`: faults and counters. Pure.
//! - `link.rs`: one connection, its queues and its four threads.
//! - this file: the listener, and the verbs.
//!
//! Reading and forwarding are separate, so that held or delayed bytes still drain from their sender: neither side can
//! tell a held connection from a slow network.

mod faults;
mod link;
mod units;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use menagerie_wire::OpCode;

use self::faults::{Direction, Faults};
use self::link::Link;
use self::units::Reading;
use crate::wait::poll;

/// A proxy in front of one server. All verbs take effect before they return and last until [`heal`](Self::heal).
/// Dropping it closes everything.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Notified of everything that may let a thread go on: new units, faults set or healed, links closed.
    changed: Condvar,
    reading: Reading,
    /// How long a connection waits for a server that does not listen.
    patience: Duration,
}

#[derive(Debug)]
struct State {
    target: SocketAddr,
    faults: Faults,
    links: BTreeMap<u64, Link>,
    /// Never reused: a fault meant for one link must not hit another.
    last_link: u64,
    stopped: bool,
}

impl Proxy {
    /// A proxy that forwards ZooKeeper's protocol to `target`, frame by frame. Four-letter words pass, too.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn new(target: SocketAddr) -> Self {
        Self::start(target, Reading::Frames, Duration::ZERO)
    }

    /// A proxy in front of the first server of a connect string, `host:port[,host:port…][/chroot]`, and the connect
    /// string through it: the same chroot, one address.
    ///
    /// # Panics
    /// If the first server is not given by its address, or the proxy cannot listen.
    pub fn before(servers: &str) -> (String, Self) {
        let (hosts, root) = match servers.find('/') {
            Some(at) => servers.split_at(at),
            None => (servers, ""),
        };
        let first = hosts.split(',').next().and_then(|host| host.parse().ok());
        let proxy = Self::new(first.unwrap_or_else(|| panic!("{servers} does not begin with an address")));
        (format!("{}{root}", proxy.address()), proxy)
    }

    /// A proxy that forwards bytes and knows no requests and replies: for other protocols, and for TLS.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn of_bytes(target: SocketAddr) -> Self {
        Self::start(target, Reading::Bytes, Duration::ZERO)
    }

    /// A proxy between two servers of an ensemble: a connection to a server that does not listen yet waits for it.
    ///
    /// A follower that is quicker than its leader is refused, and tries again. A proxy cannot refuse: it would accept
    /// and close, which the follower takes for the leader's end. The follower would go back to the election, alone,
    /// until the leader has waited for it in vain and returns to the election, too, 20 seconds later; and so on.
    pub(crate) fn between_servers(target: SocketAddr) -> Self {
        Self::start(target, Reading::Bytes, Duration::from_secs(10))
    }

    fn start(target: SocketAddr, reading: Reading, patience: Duration) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there are free ports");
        let address = listener.local_addr().expect("a listener has an address");
        let state =
            State { target, faults: Faults::default(), links: BTreeMap::new(), last_link: 0, stopped: false };
        let shared =
            Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), reading, patience });
        let accepting = Arc::clone(&shared);
        let listener = Some(thread::spawn(move || accept(&listener, &accepting)));
        Self { address, shared, listener }
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Forwards new connections to another server; those that are open stay where they are.
    pub fn forward_to(&self, target: SocketAddr) {
        self.shared.lock().target = target;
    }

    /// Closes all connections, on both sides, and accepts new ones.
    pub fn lose_connections(&self) {
        self.shared.change(State::close_all);
    }

    /// Closes all connections, and every new one as soon as it is accepted.
    pub fn cut(&self) {
        self.shared.change(|state| {
            state.faults.cut = true;
            state.close_all();
        });
    }

    /// Lets this many more requests reach the server (not counting pings, credentials and restored watches), and cuts
    /// at the next: to the server, the client dies between two steps.
    pub fn cut_after(&self, requests: usize) {
        self.shared.change(|state| state.faults.requests_left = Some(requests));
    }

    /// Whether everything is cut.
    pub fn is_cut(&self) -> bool {
        self.shared.lock().faults.cut
    }

    /// Delays everything by this much, in both directions and in order. Units already queued keep their delay.
    pub fn delay(&self, delay: Duration) {
        self.shared.change(|state| state.faults.delay = delay);
    }

    /// Holds requests: the server receives nothing, and goes on sending.
    pub fn hold_requests(&self) {
        self.shared.change(|state| state.faults.hold(Direction::Requests));
    }

    /// Lets this many requests of this kind reach the server (not counting heartbeats), and holds the next and
    /// everything after it: so that another client can act between two steps.
    pub fn hold_requests_after(&self, passed: usize, op: OpCode) {
        self.shared.change(|state| state.faults.hold_after(passed, op));
    }

    /// Whether requests are held.
    pub fn holds_requests(&self) -> bool {
        self.shared.lock().faults.holds(Direction::Requests)
    }

    /// Holds replies: the server receives and executes requests, and clients do not learn of it.
    pub fn hold_replies(&self) {
        self.shared.change(|state| state.faults.hold(Direction::Replies));
    }

    /// Holds both directions; connections stay open.
    pub fn partition(&self) {
        self.shared.change(|state| {
            state.faults.hold(Direction::Requests);
            state.faults.hold(Direction::Replies);
        });
    }

    /// Lets the next request reach the server (not counting pings, heartbeats, credentials, restored watches and
    /// closed sessions), swallows its reply, and closes that connection: the client cannot know whether the request
    /// took effect. Once.
    pub fn drop_next_reply(&self) {
        self.shared.change(|state| state.faults.drop_next(None));
    }

    /// The same for the next request of this kind; earlier ones are answered.
    pub fn drop_reply_of(&self, op: OpCode) {
        self.shared.change(|state| state.faults.drop_next(Some(op)));
    }

    /// The same, and cuts everything from then on: the client cannot come back to ask for the outcome.
    pub fn cut_at_reply_of(&self, op: OpCode) {
        self.shared.change(|state| state.faults.cut_at_reply_of(op));
    }

    /// The same as [`drop_next_reply`](Self::drop_next_reply) for every request, until [`heal`](Self::heal). Sessions can still be opened and resumed.
    pub fn drop_replies(&self) {
        self.shared.change(|state| state.faults.drop_all());
    }

    /// Ends all faults. Delivers what was held, on connections that are still open.
    pub fn heal(&self) {
        self.shared.change(|state| state.faults.heal());
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.shared.lock().links.len()
    }

    /// Swallowed replies so far.
    pub fn dropped_replies(&self) -> usize {
        self.shared.lock().faults.dropped
    }

    /// Requests that have reached the server so far, by operation code; connect requests count as
    /// [`OpCode::CreateSession`].
    pub fn requests(&self) -> BTreeMap<i32, usize> {
        self.shared.lock().faults.requests.clone()
    }

    /// The same, and resets the counters.
    pub fn take_requests(&self) -> BTreeMap<i32, usize> {
        std::mem::take(&mut self.shared.lock().faults.requests)
    }

    /// Requests of this kind that have reached the server so far.
    pub fn requests_of(&self, op: OpCode) -> usize {
        self.shared.lock().faults.requests.get(&op.code()).copied().unwrap_or(0)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.change(|state| {
            state.stopped = true;
            state.close_all();
        });
        // Wake the listener, which blocks in accept.
        let woken = TcpStream::connect(self.address);
        if let (Ok(_), Some(listener)) = (woken, self.listener.take()) {
            // A panic there was printed already; a second one while dropping would abort.
            let _ = listener.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

impl State {
    fn close_all(&mut self) {
        while let Some((_, link)) = self.links.pop_first() {
            link.close();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        let State { target, stopped, faults: Faults { cut, .. }, .. } = *shared.lock();
        if stopped {
            return;
        }
        let Ok(client) = client else { continue };
        if cut {
            continue;
        }
        // Without a server behind it the proxy closes the client's connection, as near to a refusal as a proxy can
        // come.
        let server = poll(shared.patience, || match TcpStream::connect(target) {
            Err(_) if !shared.lock().stopped => None,
            end => Some(end),
        });
        if let Some(Ok(server)) = server {
            link::open(shared, client, server);
        }
    }
}
