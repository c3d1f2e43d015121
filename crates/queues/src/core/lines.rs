//! Lines of messages that must be handled one after the other.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use menagerie_journal::MessageId;

/// A line. Numbers, because each message is looked up in its line several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineId(u64);

impl LineId {
    /// The line of all messages, where their order is that of their partition.
    pub const ALL: Self = Self(0);
}

/// All lines of a partition that have members.
#[derive(Debug, Clone, Default)]
pub struct Lines {
    by_key: HashMap<String, LineId>,
    lines: BTreeMap<LineId, Line>,
    last: u64,
}

#[derive(Debug, Clone, Default)]
struct Line {
    key: Option<String>,
    members: BTreeSet<MessageId>,
}

impl Lines {
    /// A message joins the line of its key.
    pub fn join_key(&mut self, key: String, id: MessageId) -> LineId {
        let line = self.by_key.get(&key).copied().unwrap_or_else(|| {
            self.last += 1;
            let line = LineId(self.last);
            self.by_key.insert(key.clone(), line);
            self.lines.insert(line, Line { key: Some(key), members: BTreeSet::new() });
            line
        });
        self.join(line, id);
        line
    }

    /// A message joins a line: again, or that of all messages.
    pub fn join(&mut self, line: LineId, id: MessageId) {
        self.lines.entry(line).or_default().members.insert(id);
    }

    /// A message leaves its line, which ends with its last member.
    pub fn leave(&mut self, line: LineId, id: MessageId) {
        let Some(found) = self.lines.get_mut(&line) else { return };
        found.members.remove(&id);
        if found.members.is_empty()
            && let Some(Line { key: Some(key), .. }) = self.lines.remove(&line)
        {
            self.by_key.remove(&key);
        }
    }

    /// The members of a line, oldest first.
    pub fn members(&self, line: LineId) -> impl Iterator<Item = MessageId> + '_ {
        self.lines.get(&line).into_iter().flat_map(|line| line.members.iter().copied())
    }

    /// The first member of a line.
    pub fn first(&self, line: LineId) -> Option<MessageId> {
        self.lines.get(&line)?.members.first().copied()
    }
}
