//! A script on a server: one step at a time, and after each a ping of every session, so that all that a step led to has
//! arrived before the next one.

use std::net::SocketAddr;
use std::time::Duration;

use menagerie_testkit::{Connect, Incoming, Notification, RawClient, Refusal, Session};
use menagerie_wire::{ErrorCode, Request, Write as _, framed};

use super::known::{self, Make};
use super::script::{Action, Cut, Message, Resume, SLOTS, Step};
use super::transcript::{Masks, Outcome, Transcript};

/// How long a reply, or the end of a connection that must end, may take. A server that sends none costs a test this much.
const PATIENCE: Duration = Duration::from_secs(30);

/// A transaction that no server reaches in a test.
const FAR_AHEAD: i64 = 1 << 40;

/// A server to run scripts on.
#[derive(Debug, Clone, Copy)]
pub struct Stage {
    pub make: Make,
    pub address: SocketAddr,
}

/// Runs the script and records what happened, including its sessions' end.
pub fn run(stage: Stage, script: &[Step]) -> Transcript {
    let mut run = Run::new(stage);
    let mut transcript: Transcript = script.iter().map(|step| run.step(step)).collect();
    // Ends what the script left behind, and compares who sees it go.
    for slot in 0..SLOTS {
        transcript.push(run.step(&Step { slot, action: Action::Close }));
    }
    run.end();
    transcript
}

struct Run {
    stage: Stage,
    slots: Vec<RawClient>,
    masks: Masks,
    last_xid: i32,
    /// The transaction that this step's events belong to, once its reply is known.
    cause: Option<i64>,
    /// The events that the acting session saw before its reply.
    before_reply: Vec<Notification>,
}

impl Run {
    fn new(stage: Stage) -> Self {
        let mut masks = Masks::default();
        let mut slots: Vec<RawClient> = (0..SLOTS).map(|_| RawClient::open(stage.address)).collect();
        for client in &slots {
            masks.name(client.session().id);
        }
        masks.base_zxid = slots[0].ping();
        Self { stage, slots, masks, last_xid: 0, cause: None, before_reply: Vec::new() }
    }

    /// Closes the sessions that took the places of the closed ones, so that the next script starts from nothing.
    fn end(mut self) {
        for client in &mut self.slots {
            client.call(&Request::CloseSession);
        }
    }

    fn step(&mut self, step: &Step) -> Outcome {
        let mut lines = Vec::new();
        let slot = step.slot;
        self.cause = None;
        match &step.action {
            Action::Send(message) => self.send(slot, message, &mut lines),
            Action::Close => self.close(slot, &mut lines),
            Action::Resume(resume) => self.resume(slot, resume, &mut lines),
            Action::Cut(cut) => self.cut(slot, cut, &mut lines),
            Action::ConnectAhead => self.connect_ahead(&mut lines),
        }
        let now = self.settle(&mut lines);
        let before_reply = std::mem::take(&mut self.before_reply);
        self.events(slot, " before the reply", before_reply, step, &mut lines);
        for slot in 0..SLOTS {
            let events = self.slots[slot].take_events();
            self.events(slot, "", events, step, &mut lines);
        }
        lines.push(format!("now {}", self.masks.zxid(now)));
        Outcome(lines)
    }

    fn send(&mut self, slot: usize, message: &Message, lines: &mut Vec<String>) {
        let bytes = self.frame(message);
        let client = &mut self.slots[slot];
        client.send_bytes(&bytes);
        match client.reply(PATIENCE) {
            Some(Incoming::Reply(reply)) => {
                lines.push(self.masks.reply(message.op, &reply));
                self.cause = Some(reply.header.zxid);
                self.before_reply = client.take_events();
                if matches!(reply.header.err, ErrorCode::Unimplemented | ErrorCode::AuthFailed) {
                    lines.push(end_of(client));
                    self.come_back(slot, lines);
                }
            }
            Some(Incoming::Closed) => {
                lines.push("closed without a reply".to_owned());
                self.come_back(slot, lines);
            }
            Some(Incoming::Event(_)) | None => lines.push("no reply".to_owned()),
        }
    }

    /// The request as it is sent, under its own number or the next one.
    fn frame(&mut self, message: &Message) -> Vec<u8> {
        let xid = message.xid.unwrap_or_else(|| {
            self.last_xid += 1;
            self.last_xid
        });
        let mut bytes = Vec::new();
        framed(&mut bytes, |out| {
            out.put_int(xid);
            out.put_int(message.op);
            out.extend_from_slice(&message.body_from(self.masks.base_zxid));
        });
        bytes
    }

    fn cut(&mut self, slot: usize, cut: &Cut, lines: &mut Vec<String>) {
        let bytes: Vec<u8> = cut.under_way.iter().flat_map(|message| self.frame(message)).collect();
        let old = &mut self.slots[slot];
        old.send_bytes(&bytes);
        // The server may drop what it has not read when it learns of the new connection: not a question of order.
        old.wait_until_taken();
        // Apache takes a request off the socket in one thread and decides it in the next; all sessions share that one.
        // The keeper decides at once, and answers this ping although the writes are still under way.
        self.slots[(slot + 1) % SLOTS].ping();
        let old = &mut self.slots[slot];
        let resumption = Connect { timeout_ms: cut.timeout_ms, ..old.resumption() };
        if cut.drop_first {
            old.hang_up();
        }
        self.reconnect(slot, &resumption, lines);
        self.send(slot, &cut.first, lines);
    }

    fn close(&mut self, slot: usize, lines: &mut Vec<String>) {
        let client = &mut self.slots[slot];
        let reply = client.call(&Request::CloseSession);
        lines.push(self.masks.reply(Request::CloseSession.op().code(), &reply));
        lines.push(end_of(client));
        self.cause = Some(reply.header.zxid);
        self.before_reply = client.take_events();
        let resumption = client.resumption();
        match RawClient::connect(self.stage.address, &resumption) {
            Ok(_) => lines.push("a closed session came back".to_owned()),
            Err(refusal) => lines.push(self.refusal(&refusal)),
        }
        self.replace(slot, lines);
    }

    fn resume(&mut self, slot: usize, resume: &Resume, lines: &mut Vec<String>) {
        let old = &mut self.slots[slot];
        let right =
            Connect { timeout_ms: resume.timeout_ms, read_only: resume.read_only, ..old.resumption() };
        if resume.drop_first {
            old.hang_up();
        }
        if resume.stranger_first {
            let wrong = Connect { session: Some((old.session().id, vec![1; 16])), ..right.clone() };
            match RawClient::connect(self.stage.address, &wrong) {
                Ok(_) => lines.push("a stranger was let in".to_owned()),
                Err(refusal) => lines.push(self.refusal(&refusal)),
            }
        }
        match RawClient::connect(self.stage.address, &right) {
            Ok(client) => {
                lines.push(self.granted(client.session()));
                let mut old = std::mem::replace(&mut self.slots[slot], client);
                if !resume.drop_first {
                    lines.push(format!("old connection {}", end_of(&mut old)));
                }
            }
            Err(refusal) => {
                lines.push(self.refusal(&refusal));
                self.replace(slot, lines);
            }
        }
    }

    fn connect_ahead(&mut self, lines: &mut Vec<String>) {
        let ahead = Connect { last_zxid: self.masks.base_zxid + FAR_AHEAD, ..Connect::default() };
        match RawClient::connect(self.stage.address, &ahead) {
            Ok(_) => lines.push("who has seen the future was let in".to_owned()),
            Err(refusal) => lines.push(self.refusal(&refusal)),
        }
    }

    /// After a connection that the server closed: the session must still be there.
    fn come_back(&mut self, slot: usize, lines: &mut Vec<String>) {
        let resumption = self.slots[slot].resumption();
        self.reconnect(slot, &resumption, lines);
    }

    /// Asks for the slot's session on a new connection; refused, the slot gets a new session.
    fn reconnect(&mut self, slot: usize, resumption: &Connect, lines: &mut Vec<String>) {
        match RawClient::connect(self.stage.address, resumption) {
            Ok(client) => {
                lines.push(self.granted(client.session()));
                self.slots[slot] = client;
            }
            Err(refusal) => {
                lines.push(self.refusal(&refusal));
                self.replace(slot, lines);
            }
        }
    }

    /// Puts a new session into the slot.
    fn replace(&mut self, slot: usize, lines: &mut Vec<String>) {
        let client = RawClient::open(self.stage.address);
        self.masks.name(client.session().id);
        lines.push(self.granted(client.session()));
        self.slots[slot] = client;
    }

    fn granted(&mut self, session: &Session) -> String {
        let name = self.masks.name(session.id);
        format!("{name} granted for {} ms, read-only {:?}", session.timeout_ms, session.read_only)
    }

    fn refusal(&self, refusal: &Refusal) -> String {
        match refusal {
            Refusal::Closed => "refused without a word".to_owned(),
            Refusal::Gone(session) => format!("refused with {session:?}"),
        }
    }

    /// Pings every session, so that all events are there. Returns where the server is.
    fn settle(&mut self, lines: &mut Vec<String>) -> i64 {
        let mut now = None;
        for slot in 0..SLOTS {
            self.slots[slot].send(&Request::Ping);
        }
        for slot in 0..SLOTS {
            match self.slots[slot].reply(PATIENCE) {
                Some(Incoming::Reply(reply)) => now = now.max(Some(reply.header.zxid)),
                other => {
                    lines.push(format!(
                        "slot {slot} is lost: {}",
                        if other.is_none() { "no reply" } else { "closed" }
                    ));
                    self.come_back(slot, lines);
                }
            }
        }
        now.unwrap_or(self.masks.base_zxid)
    }

    fn events(
        &mut self,
        slot: usize,
        when: &str,
        mut events: Vec<Notification>,
        step: &Step,
        lines: &mut Vec<String>,
    ) {
        if known::events_have_no_order(&step.action) {
            events.sort_by(|a, b| (&a.path, a.kind).cmp(&(&b.path, b.kind)));
        }
        for event in events {
            let right = known::event_zxid_is_right(self.stage.make, &event, &step.action, self.cause);
            let wrong =
                if right { String::new() } else { format!(" with zxid {}", self.masks.zxid(event.zxid)) };
            lines.push(format!("slot {slot} sees {:?} {:?}{when}{wrong}", event.kind, event.path));
        }
    }
}

/// Waits for the end of a connection that must end.
fn end_of(client: &mut RawClient) -> String {
    match client.reply(PATIENCE) {
        Some(Incoming::Closed) => "closed".to_owned(),
        other => format!("stays open: {other:?}"),
    }
}
