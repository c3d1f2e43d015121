//! The load, by rows.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};
use serde::{Serialize, Serializer};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Read the client's own znode.
    Get,
    /// Write the client's own znode.
    Set,
    /// Create a persistent znode with a name of its own.
    Create,
    /// Acquire the one lock of all clients, and release it.
    Lock,
}

impl Op {
    fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Set => "set",
            Self::Create => "create",
            Self::Lock => "lock",
        }
    }
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    pub op: Op,
    /// Sessions, each with a connection of its own.
    pub clients: usize,
    /// Operations that each session keeps in flight.
    pub in_flight: usize,
}

/// All rows. Creates come last, so that the trees they grow burden no other row.
pub const ROWS: [Row; 10] = [
    row(Op::Get, 1, 1),
    row(Op::Get, 8, 1),
    row(Op::Get, 8, 64),
    row(Op::Set, 1, 1),
    row(Op::Set, 8, 1),
    row(Op::Set, 8, 64),
    row(Op::Lock, 8, 1),
    row(Op::Create, 1, 1),
    row(Op::Create, 8, 1),
    row(Op::Create, 8, 64),
];

const fn row(op: Op, clients: usize, in_flight: usize) -> Row {
    Row { op, clients, in_flight }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}-{}x{}", self.op.name(), self.clients, self.in_flight);
        f.pad(&text)
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Rows chosen on the command line: `get` for all rows of an operation, `get-8x64` for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice(String);

impl FromStr for Choice {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let choice = Self(text.to_owned());
        if !ROWS.iter().any(|row| choice.has(*row)) {
            let known: Vec<String> = ROWS.iter().map(Row::to_string).collect();
            bail!(
                "no row {text}; there are {} (and get, set, lock, create for all of a kind)",
                known.join(", ")
            );
        }
        Ok(choice)
    }
}

impl Choice {
    fn has(&self, row: Row) -> bool {
        self.0 == row.op.name() || self.0 == row.to_string()
    }
}

/// The chosen rows; all without a choice.
pub fn chosen(choices: &[Choice]) -> Vec<Row> {
    ROWS.into_iter()
        .filter(|row| choices.is_empty() || choices.iter().any(|choice| choice.has(*row)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_chosen_by_operation_or_by_name() {
        let choose = |texts: &[&str]| {
            let choices: Vec<Choice> = texts.iter().map(|text| text.parse().unwrap()).collect();
            chosen(&choices).iter().map(Row::to_string).collect::<Vec<_>>()
        };
        assert_eq!(choose(&["lock", "get-8x64"]), ["get-8x64", "lock-8x1"]);
        assert_eq!(choose(&["set"]), ["set-1x1", "set-8x1", "set-8x64"]);
        assert_eq!(choose(&[]).len(), ROWS.len());
    }

    #[test]
    fn an_unknown_row_is_refused() {
        assert!("get-9x9".parse::<Choice>().is_err());
    }
}
