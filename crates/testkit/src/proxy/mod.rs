//! A TCP proxy that fails on demand, between a client and a server.
//!
//! # Layout
//! - `units.rs`: a stream of bytes as units that are forwarded or lost as a whole: frames, if it is ZooKeeper's protocol.
//! - `faults.rs`: what is done to them, and the count of requests. Pure.
//! - `link.rs`: one connection, its queues and its four threads.
//! - this file: the listener, and the verbs.
//!
//! Reading and forwarding are apart, so that what is held or delayed still drains from its sender: neither side can tell
//! a held connection from a slow network.

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
    /// Told of whatever may let a thread go on: new units, faults set or healed, links closed.
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
    /// Numbers are never used twice: a fault meant for one link must not hit another.
    last_link: u64,
    stopped: bool,
}

impl Proxy {
    /// One that forwards ZooKeeper's protocol to `target`, frame by frame. Four-letter words pass too.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn new(target: SocketAddr) -> Self {
        Self::start(target, Reading::Frames, Duration::ZERO)
    }

    /// One before the first server of a connect string, `host:port[,host:port…][/chroot]`, and the connect string of those
    /// who come through it: the same root, one address.
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

    /// One that forwards whatever it is, and knows no requests and replies: for other protocols, and for TLS.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn of_bytes(target: SocketAddr) -> Self {
        Self::start(target, Reading::Bytes, Duration::ZERO)
    }

    /// One between two servers that elect: a connection to one that does not listen yet waits for it.
    ///
    /// A follower that is quicker than its leader is refused, and tries again. A proxy cannot refuse: it would accept and
    /// close, which a follower takes for the end of this leader. It would go back to the election, alone, until the leader
    /// has waited for it in vain and comes there too, 20 seconds later; and then again.
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

    /// Closes all connections, on both sides. New ones are welcome.
    pub fn lose_connections(&self) {
        self.shared.change(State::close_all);
    }

    /// Closes all connections, and every new one as soon as it is there.
    pub fn cut(&self) {
        self.shared.change(|state| {
            state.faults.cut = true;
            state.close_all();
        });
    }

    /// Lets so many more requests reach the server (pings, credentials and restored watches do not count), and cuts at the
    /// next: the client dies between two steps, as far as the server can tell.
    pub fn cut_after(&self, requests: usize) {
        self.shared.change(|state| state.faults.requests_left = Some(requests));
    }

    /// Whether everything is cut by now.
    pub fn is_cut(&self) -> bool {
        self.shared.lock().faults.cut
    }

    /// Forwards everything so much later, in both directions and in order. What is on its way keeps its pace.
    pub fn delay(&self, delay: Duration) {
        self.shared.change(|state| state.faults.delay = delay);
    }

    /// Holds back what clients send: the server hears nothing, and goes on talking.
    pub fn hold_requests(&self) {
        self.shared.change(|state| state.faults.hold(Direction::Requests));
    }

    /// Lets so many requests of this kind reach the server (heartbeats do not count), and holds back the next and all that
    /// follow: somebody else can act between two steps of a client.
    pub fn hold_requests_after(&self, passed: usize, op: OpCode) {
        self.shared.change(|state| state.faults.hold_after(passed, op));
    }

    /// Whether requests are held back by now.
    pub fn holds_requests(&self) -> bool {
        self.shared.lock().faults.holds(Direction::Requests)
    }

    /// Holds back what the server sends: it hears and does what it is asked, and clients do not learn of it.
    pub fn hold_replies(&self) {
        self.shared.change(|state| state.faults.hold(Direction::Replies));
    }

    /// Holds back everything; connections stay open.
    pub fn partition(&self) {
        self.shared.change(|state| {
            state.faults.hold(Direction::Requests);
            state.faults.hold(Direction::Replies);
        });
    }

    /// Lets the next request reach the server (pings, heartbeats, credentials, restored watches and ends of sessions do not count), swallows its reply,
    /// and closes that connection: the client cannot know whether the request took effect. Once.
    pub fn drop_next_reply(&self) {
        self.shared.change(|state| state.faults.drop_next(None));
    }

    /// The same for the next request of this kind; others before it are answered as ever.
    pub fn drop_reply_of(&self, op: OpCode) {
        self.shared.change(|state| state.faults.drop_next(Some(op)));
    }

    /// The same, and everything is cut from then on: the client does not come back to ask what became of it.
    pub fn cut_at_reply_of(&self, op: OpCode) {
        self.shared.change(|state| state.faults.cut_at_reply_of(op));
    }

    /// The same as [`drop_next_reply`](Self::drop_next_reply) for every request, until [`heal`](Self::heal). Sessions can still be opened and resumed.
    pub fn drop_replies(&self) {
        self.shared.change(|state| state.faults.drop_all());
    }

    /// Ends all faults. What was held is delivered now, on those connections that are still there.
    pub fn heal(&self) {
        self.shared.change(|state| state.faults.heal());
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.shared.lock().links.len()
    }

    /// How many replies were swallowed so far.
    pub fn dropped_replies(&self) -> usize {
        self.shared.lock().faults.dropped
    }

    /// How many requests have reached the server so far, by operation code; connect requests count as
    /// [`OpCode::CreateSession`].
    pub fn requests(&self) -> BTreeMap<i32, usize> {
        self.shared.lock().faults.requests.clone()
    }

    /// The same, and counts anew.
    pub fn take_requests(&self) -> BTreeMap<i32, usize> {
        std::mem::take(&mut self.shared.lock().faults.requests)
    }

    /// How many requests of this kind have reached the server so far.
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
        // The listener looks up only when somebody comes.
        let woken = TcpStream::connect(self.address);
        if let (Ok(_), Some(listener)) = (woken, self.listener.take()) {
            // A panic there has been printed; a second one while dropping would abort.
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
        // Without a server behind it the client's connection closes, as near to a refusal as a proxy can come.
        let server = poll(shared.patience, || match TcpStream::connect(target) {
            Err(_) if !shared.lock().stopped => None,
            end => Some(end),
        });
        if let Some(Ok(server)) = server {
            link::open(shared, client, server);
        }
    }
}
