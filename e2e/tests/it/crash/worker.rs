//! A client that writes without pause, and knows after each crash what must exist.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use menagerie_testkit::{Connect, DEADLINE, Incoming, RawClient, Refusal, Reply, eventually};
use menagerie_wire::{ErrorCode, MultiResult, OpCode, Request, Response};

use super::model::{ExpectedZnode, Write, Znodes};
use crate::ask::{EPHEMERAL, SEQUENTIAL, create, create_as, delete, done, get, resumption};
use crate::dice::Dice;

/// Where all workers draw their tickets.
pub const TICKETS: &str = "/tickets";

const ALIVE: &str = "a worker that panics holds no lock";

/// State shared by all workers.
#[derive(Debug)]
pub struct Shared {
    pub address: SocketAddr,
    pub stop: AtomicBool,
    /// Replies received.
    pub answered: AtomicU64,
    /// The newest zxid that any worker has seen.
    seen_zxid: AtomicI64,
    /// All acknowledged zxids.
    zxids: Mutex<HashSet<i64>>,
    /// All tickets handed out.
    tickets: Mutex<HashSet<String>>,
}

impl Shared {
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            stop: AtomicBool::new(false),
            answered: AtomicU64::new(0),
            seen_zxid: AtomicI64::new(0),
            zxids: Mutex::default(),
            tickets: Mutex::default(),
        }
    }

    pub fn seen_zxid(&self) -> i64 {
        self.seen_zxid.load(Ordering::SeqCst)
    }
}

/// A request sent and not yet answered.
#[derive(Debug)]
enum Sent {
    Write(Write),
    Draw,
    Return(String),
}

/// The tickets of one worker whose fate is certain.
#[derive(Debug, Default)]
pub struct Tickets {
    pub kept: BTreeSet<String>,
    pub returned: BTreeSet<String>,
}

pub struct Worker<'a> {
    shared: &'a Shared,
    client: RawClient,
    root: String,
    dice: Dice,
    /// As the last acknowledged write left them.
    znodes: Znodes,
    /// In the order sent, with the newest zxid that any worker had seen by then.
    unanswered: VecDeque<(Sent, i64)>,
    to_return: Vec<String>,
    tickets: Tickets,
}

impl<'a> Worker<'a> {
    /// Opens a session and creates the permanent znodes: one to work below, and an ephemeral one as a sign of life.
    pub fn new(shared: &'a Shared, number: u64, seed: u64) -> Self {
        let mut client = RawClient::open(shared.address);
        let root = format!("/worker-{number}");
        let alive = format!("{root}/alive");
        done(&mut client, &create(&root, b""));
        done(&mut client, &create_as(&alive, b"", EPHEMERAL));
        let znodes = Znodes::from([(alive, ExpectedZnode { data: Vec::new(), version: 0, ephemeral: true })]);
        Self {
            shared,
            client,
            root,
            dice: Dice::new(seed.wrapping_add(number)),
            znodes,
            unanswered: VecDeque::new(),
            to_return: Vec::new(),
            tickets: Tickets::default(),
        }
    }

    /// Works until stopped.
    pub fn run(mut self) -> Tickets {
        while !self.shared.stop.load(Ordering::SeqCst) {
            for _ in 0..=self.dice.below(32) {
                self.send();
            }
            while let Some((sent, seen)) = self.unanswered.pop_front() {
                match self.client.reply(DEADLINE) {
                    Some(Incoming::Reply(reply)) => self.settle(sent, seen, &reply),
                    Some(Incoming::Closed) => {
                        self.unanswered.push_front((sent, seen));
                        self.recover();
                    }
                    other => panic!("no answer to {sent:?}: {other:?}"),
                }
            }
        }
        self.tickets
    }

    fn send(&mut self) {
        let sent = match (self.dice.below(8), self.to_return.pop()) {
            (0, None) => Sent::Draw,
            (_, Some(name)) => Sent::Return(name),
            _ => Sent::Write(Write::random(&self.root, &mut self.dice)),
        };
        let seen = self.shared.seen_zxid();
        match &sent {
            Sent::Write(write) => write.with_request(|request| self.client.send(request)),
            Sent::Draw => self.client.send(&create_as(&format!("{TICKETS}/t-"), b"", SEQUENTIAL)),
            Sent::Return(name) => {
                // From now on it may be gone.
                self.tickets.kept.remove(name);
                self.client.send(&delete(&format!("{TICKETS}/{name}")))
            }
        };
        self.unanswered.push_back((sent, seen));
    }

    fn settle(&mut self, sent: Sent, seen: i64, reply: &Reply) {
        let zxid = reply.header.zxid;
        assert!(zxid > seen, "{sent:?} has zxid {zxid:#x}, but {seen:#x} was seen before it was sent");
        assert!(self.shared.zxids.lock().expect(ALIVE).insert(zxid), "zxid {zxid:#x} was given out twice");
        self.shared.seen_zxid.fetch_max(zxid, Ordering::SeqCst);
        self.shared.answered.fetch_add(1, Ordering::SeqCst);
        match sent {
            Sent::Write(write) => {
                let expected = write.apply(&mut self.znodes);
                assert_eq!(verdict(&write, reply), expected, "the answer to {write:?}");
            }
            Sent::Draw => self.draw(reply),
            Sent::Return(name) => {
                assert_eq!(reply.header.err, ErrorCode::Ok, "returning {name}, which was given to us");
                self.tickets.returned.insert(name);
            }
        }
    }

    fn draw(&mut self, reply: &Reply) {
        let Ok(Response::Path(path)) = reply.response(OpCode::Create) else { panic!("no ticket: {reply:?}") };
        let name = path.rsplit_once('/').expect("a path has a slash").1.to_owned();
        assert!(self.shared.tickets.lock().expect(ALIVE).insert(name.clone()), "{name} was given out twice");
        if self.dice.below(2) == 0 {
            self.to_return.push(name.clone());
        }
        self.tickets.kept.insert(name);
    }

    /// Recovers after a crash: the same session, everything acknowledged, and a prefix of the rest.
    fn recover(&mut self) {
        let found = eventually("the keeper lets the session resume and read", || {
            self.reconnect()?;
            self.read()
        });
        let mut expected = self.znodes.clone();
        let mut lost = std::mem::take(&mut self.unanswered).into_iter();
        let mut tried = vec![expected.clone()];
        while found != expected {
            let Some((sent, _)) = lost.next() else {
                panic!("{} is {found:#?}\nafter a crash; any of these would be right: {tried:#?}", self.root);
            };
            if let Sent::Write(write) = sent {
                write.apply(&mut expected);
                tried.push(expected.clone());
            }
        }
        self.znodes = found;
    }

    fn reconnect(&mut self) -> Option<()> {
        let session = self.client.session().clone();
        // A server that lags refuses a client that names the zxid it has seen; a client that does not name it must
        // see nothing stale.
        let last_zxid = if self.dice.below(2) == 0 { self.shared.seen_zxid() } else { 0 };
        let connect = Connect { last_zxid, ..resumption(&session) };
        match RawClient::try_connect(self.shared.address, &connect) {
            Ok(Ok(client)) => self.client = client,
            // No server, or it was killed before it could answer.
            Err(_) | Ok(Err(Refusal::Closed)) => return None,
            Ok(Err(Refusal::Gone(_))) => panic!("session {:#x} is gone before its time", session.id),
        }
        assert_eq!(self.client.session(), &session, "a session that is resumed stays what it was");
        Some(())
    }

    /// All znodes of this worker; `None` if the next crash comes first.
    fn read(&mut self) -> Option<Znodes> {
        let reply = self.ask(&Request::GetChildren { path: &self.root.clone(), watch: false })?;
        let Ok(Response::Names(names)) = reply.response(OpCode::GetChildren) else { panic!("{reply:?}") };
        let mut found = Znodes::new();
        for name in names {
            let path = format!("{}/{name}", self.root);
            let reply = self.ask(&get(&path))?;
            let Ok(Response::Data { data, stat }) = reply.response(OpCode::GetData) else {
                panic!("{path} is listed but answers {reply:?}")
            };
            let ephemeral = stat.ephemeral_owner == self.client.session().id;
            assert!(ephemeral || stat.ephemeral_owner == 0, "{path} belongs to {:#x}", stat.ephemeral_owner);
            let data = data.unwrap_or_default().to_owned();
            found.insert(path, ExpectedZnode { data, version: stat.version, ephemeral });
        }
        Some(found)
    }

    fn ask(&mut self, request: &Request<'_>) -> Option<Reply> {
        let seen = self.shared.seen_zxid();
        self.client.send(request);
        match self.client.reply(DEADLINE) {
            Some(Incoming::Reply(reply)) => {
                let zxid = reply.header.zxid;
                assert!(zxid >= seen, "a reply is at zxid {zxid:#x}, but {seen:#x} was seen before");
                self.shared.seen_zxid.fetch_max(zxid, Ordering::SeqCst);
                Some(reply)
            }
            Some(Incoming::Closed) => None,
            other => panic!("no answer to {request:?}: {other:?}"),
        }
    }
}

/// The outcome of a write. A multi has its error in the body.
fn verdict(write: &Write, reply: &Reply) -> ErrorCode {
    let multi = matches!(write, Write::SetBoth { .. } | Write::Swap { .. });
    if !multi || reply.header.err != ErrorCode::Ok {
        return reply.header.err;
    }
    let Ok(Response::Multi(results)) = reply.response(OpCode::Multi) else { panic!("{write:?}: {reply:?}") };
    let culprit = results.iter().find_map(|result| match result {
        MultiResult::Error(code) if !matches!(*code, ErrorCode::Ok | ErrorCode::RuntimeInconsistency) => {
            Some(*code)
        }
        _ => None,
    });
    culprit.unwrap_or(ErrorCode::Ok)
}
