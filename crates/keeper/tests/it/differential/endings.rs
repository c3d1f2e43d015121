//! How connections end, and how their sessions come back.

use menagerie_wire::{OpCode, Reader, Request};

use super::generate::{Generator, Kind};
use super::script::{Action, Cut, Message, Resume};

/// Requests that may be in flight when a connection is cut: anything that writes.
const WRITES: [(usize, Kind); 5] = [
    (8, Generator::create),
    (3, Generator::delete),
    (3, Generator::set_data),
    (2, Generator::set_acl),
    (4, Generator::multi),
];

/// The first requests of a resumed session: anything that reads, and watches that are set again.
const LOOKS: [(usize, Kind); 7] = [
    (3, Generator::get_children),
    (3, Generator::get_children2),
    (3, Generator::get_data),
    (2, Generator::exists),
    (1, Generator::get_ephemerals),
    (1, Generator::multi_read),
    (2, Generator::set_watches),
];

impl Generator {
    pub(super) fn close(&mut self, _slot: usize) -> Action {
        Action::Close
    }

    fn message(&mut self, slot: usize, kinds: &[(usize, Kind)]) -> Message {
        match self.dice.weighted(kinds)(self, slot) {
            Action::Send(message) => message,
            other => panic!("not a request: {other:?}"),
        }
    }

    pub(super) fn cut(&mut self, slot: usize) -> Action {
        let count = 1 + self.dice.below(4);
        let mut under_way: Vec<Message> = (0..count).map(|_| self.message(slot, &WRITES)).collect();
        let first = self.look_after(slot, &under_way);
        if self.dice.chance(8) {
            under_way.push(Message::new(&Request::CloseSession));
        }
        self.written += under_way.len();
        Action::Cut(Cut {
            under_way,
            drop_first: self.dice.chance(70),
            timeout_ms: self.dice.weighted(&[(4, 30_000), (1, 12_345)]),
            first,
        })
    }

    /// Mostly a read of what the last of these writes is about, else of anything.
    fn look_after(&mut self, slot: usize, under_way: &[Message]) -> Message {
        let last = under_way.last().and_then(|message| Some((OpCode::from_code(message.op)?, &message.body)));
        let written = last.and_then(|(op, body)| match Request::decode(op, &mut Reader::new(body)).ok()? {
            Request::Create { create, .. } => Some(create.path.to_owned()),
            Request::Delete { path, .. } | Request::SetData { path, .. } => Some(path.to_owned()),
            _ => None,
        });
        let Some(path) = written.filter(|_| self.dice.chance(75)) else { return self.message(slot, &LOOKS) };
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        Message::new(&match self.dice.below(3) {
            0 => Request::GetChildren2 { path: parent, watch: false },
            1 => Request::GetData { path: &path, watch: false },
            _ => Request::Exists { path: &path, watch: false },
        })
    }

    pub(super) fn resume(&mut self, _slot: usize) -> Action {
        let drop_first = self.dice.chance(70);
        Action::Resume(Resume {
            drop_first,
            stranger_first: drop_first && self.dice.chance(30),
            timeout_ms: self.dice.pick(&[30_000, 12_345, 1_000_000]),
            read_only: self.dice.pick(&[None, Some(false), Some(true)]),
        })
    }
}
