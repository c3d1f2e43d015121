//! The probable outcome of a script so far. Only a guess, to aim with: without it, most requests would go to missing
//! znodes and watches.

use std::collections::BTreeMap;

use menagerie_wire::request::Create;
use menagerie_wire::{Acl, OpCode, Reader, Request};

use super::dice::Dice;
use super::script::{Action, SLOTS};

/// The bit of an ephemeral znode in the flags of a creation, and that of a sequential one.
const EPHEMERAL: i32 = 1;
const SEQUENTIAL: i32 = 2;

#[derive(Debug)]
pub struct Guess {
    /// Znodes, and the slot that an ephemeral one goes with.
    znodes: BTreeMap<String, Option<usize>>,
    /// By slot: paths that it watches.
    watched: [Vec<String>; SLOTS],
}

impl Guess {
    pub fn new() -> Self {
        Self { znodes: BTreeMap::new(), watched: Default::default() }
    }

    pub fn exists(&self, path: &str) -> bool {
        self.znodes.contains_key(path)
    }

    /// One of the znodes.
    pub fn znode(&self, dice: &mut Dice) -> Option<String> {
        let at = dice.below(self.znodes.len().max(1));
        self.znodes.keys().nth(at).cloned()
    }

    /// One of the paths that the session watches.
    pub fn watched(&self, slot: usize, dice: &mut Dice) -> Option<String> {
        let watched = &self.watched[slot];
        (!watched.is_empty()).then(|| watched[dice.below(watched.len())].clone())
    }

    fn sent(&mut self, slot: usize, request: &Request<'_>) {
        match request {
            Request::Create { create, .. } => self.created(slot, create),
            Request::Delete { path, version: -1 } if !self.has_children(path) => {
                self.znodes.remove(*path);
            }
            Request::Exists { path, watch: true } | Request::AddWatch { path, mode: 0 | 1 } => {
                self.watches(slot, path)
            }
            Request::GetData { path, watch: true }
            | Request::GetChildren { path, watch: true }
            | Request::GetChildren2 { path, watch: true }
                if self.exists(path) =>
            {
                self.watches(slot, path);
            }
            Request::CloseSession => self.znodes.retain(|_, owner| *owner != Some(slot)),
            Request::RemoveWatches { path, kind: 3 } => self.watched[slot].retain(|watched| watched != path),
            _ => {}
        }
    }

    /// Records the probable effect of a step. A request that cannot be decoded has none.
    pub fn acted(&mut self, slot: usize, action: &Action) {
        match action {
            Action::Close => {
                self.watched[slot].clear();
                self.znodes.retain(|_, owner| *owner != Some(slot));
            }
            Action::Resume(_) => self.watched[slot].clear(),
            Action::Send(message) => {
                let decode = |op| Request::decode(op, &mut Reader::new(&message.body)).ok();
                match OpCode::from_code(message.op).map(decode) {
                    Some(Some(request)) => self.sent(slot, &request),
                    Some(None) => {}
                    // Unknown operations end the connection.
                    None => self.watched[slot].clear(),
                }
            }
            Action::Cut(cut) => {
                for message in &cut.under_way {
                    self.acted(slot, &Action::Send(message.clone()));
                }
                self.watched[slot].clear();
                self.acted(slot, &Action::Send(cut.first.clone()));
            }
            Action::ConnectAhead => {}
        }
    }

    fn watches(&mut self, slot: usize, path: &str) {
        self.watched[slot].push(path.to_owned());
    }

    fn has_children(&self, path: &str) -> bool {
        let below = format!("{path}/");
        self.znodes.keys().any(|znode| znode.starts_with(&below))
    }

    fn created(&mut self, slot: usize, create: &Create<'_>) {
        let ephemeral = create.flags == EPHEMERAL;
        let parent = create.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let parent_takes_it = self.znodes.get(parent) == Some(&None) || self.znodes.is_empty();
        let plain = !matches!(create.flags, SEQUENTIAL | 3 | 6) && create.acl == [Acl::open()];
        if plain && parent_takes_it && !self.exists(create.path) {
            self.znodes.insert(create.path.to_owned(), ephemeral.then_some(slot));
        }
    }
}
