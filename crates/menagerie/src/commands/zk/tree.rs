//! `menagerie zk tree PATH`

use std::collections::HashMap;

use clap::Args;
use menagerie_kernel::CallError;
use menagerie_kernel::subtree::{self, SeenZnode};
use menagerie_znodes::lookup;
use serde::Serialize;

use super::marks::Marks;
use super::path::{self};
use crate::client::{self, Client, ClientArgs};
use crate::exit::{CliError, cannot};
use crate::output::{OutputArgs, Show};

/// Show a znode and its subtree, and explain the znodes that Menagerie knows.
#[derive(Debug, Args)]
pub struct Tree {
    /// Znode to start at.
    #[arg(value_parser = path::parse, default_value = "/")]
    path: String,
    /// Show at most this many levels below it.
    #[arg(short, long, value_name = "LEVELS")]
    depth: Option<usize>,
    #[command(flatten)]
    output: OutputArgs,
}

/// A znode and its subtree.
#[derive(Debug, Serialize)]
struct Branch {
    name: String,
    path: String,
    kind: Marks,
    bytes: i32,
    /// All children, including those not shown.
    children_count: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    map: Option<OnMap>,
    children: Vec<Branch>,
}

/// What the znode map says of this path.
#[derive(Debug, Serialize)]
struct OnMap {
    owner: &'static str,
    pattern: &'static str,
    holds: &'static str,
}

impl Tree {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        client::run(client, async |client| self.output.print(async || self.read_tree(client).await).await)
    }

    async fn read_tree(&self, client: &Client) -> Result<Branch, CliError> {
        let levels = subtree::levels(&client.term(), &self.path, self.depth.unwrap_or(usize::MAX)).await;
        let grown = levels.and_then(|levels| {
            grow(levels, client.namespace()).ok_or_else(|| CallError::NoZnode { path: self.path.clone() })
        });
        grown.map_err(cannot(format!("show {}", self.path)))
    }
}

/// Builds the tree from its levels, deepest first, so that each znode finds its children ready.
fn grow(levels: Vec<Vec<SeenZnode>>, namespace: &str) -> Option<Branch> {
    let mut ready: HashMap<String, Vec<Branch>> = HashMap::new();
    for level in levels.into_iter().rev() {
        let mut grown: HashMap<String, Vec<Branch>> = HashMap::new();
        for SeenZnode { path, stat } in level {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", &path));
            let (parent, name) = (parent.to_owned(), name.to_owned());
            let branch = Branch {
                name,
                kind: Marks::of(&path, &stat),
                bytes: stat.data_length,
                children_count: stat.children,
                map: on_map(&path, namespace),
                children: ready.remove(if path == "/" { "" } else { &path }).unwrap_or_default(),
                path,
            };
            grown.entry(parent).or_default().push(branch);
        }
        ready = grown;
    }
    ready.into_values().flatten().next()
}

fn on_map(path: &str, namespace: &str) -> Option<OnMap> {
    let below = if namespace == "/" { path } else { path.strip_prefix(namespace)? };
    let (owner, entry) = lookup::find(below)?;
    Some(OnMap { owner, pattern: entry.pattern, holds: entry.payload })
}

impl Branch {
    fn line(&self) -> String {
        let mut notes = Vec::new();
        if !self.kind.words().is_empty() {
            notes.push(self.kind.words().to_owned());
        }
        if self.bytes > 0 {
            notes.push(format!("{} B", self.bytes));
        }
        let hidden = usize::try_from(self.children_count).unwrap_or(0).saturating_sub(self.children.len());
        if hidden > 0 {
            notes.push(format!("{hidden} below"));
        }
        let notes = if notes.is_empty() { String::new() } else { format!("  ({})", notes.join(", ")) };
        let map = self.map.as_ref().map_or(String::new(), |map| format!("  · {}: {}", map.owner, map.holds));
        format!("{notes}{map}\n")
    }

    fn draw(&self, indent: &str, out: &mut String) {
        for (at, child) in self.children.iter().enumerate() {
            let last = at + 1 == self.children.len();
            let (fork, more) = if last { ("└── ", "    ") } else { ("├── ", "│   ") };
            out.push_str(&format!("{indent}{fork}{}{}", child.name, child.line()));
            child.draw(&format!("{indent}{more}"), out);
        }
    }
}

impl Show for Branch {
    fn show(&self) -> String {
        let mut out = format!("{}{}", self.path, self.line());
        self.draw("", &mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use menagerie_kernel::session::Stat;

    use super::*;

    fn seen(path: &str, children: i32, ephemeral_owner: i64) -> SeenZnode {
        let stat = Stat {
            czxid: 0,
            mzxid: 0,
            pzxid: 0,
            ctime_ms: 0,
            mtime_ms: 0,
            version: 0,
            cversion: 0,
            aversion: 0,
            ephemeral_owner,
            data_length: 3,
            children,
        };
        SeenZnode { path: path.to_owned(), stat }
    }

    #[test]
    fn branches_are_drawn_with_marks_and_the_map() {
        let levels = vec![
            vec![seen("/", 2, 0)],
            vec![seen("/m", 2, 0), seen("/other", 4, 0)],
            vec![seen("/m/generation", 0, 0), seen("/m/x-0000000001", 0, 9)],
        ];
        let root = grow(levels, "/m").unwrap();
        let expected = "\
/  (3 B)
├── m  (3 B)
│   ├── generation  (3 B)  · kernel: decimal number: the greater of the old one + 1 and the time in ms
│   └── x-0000000001  (ephemeral sequence, 3 B)
└── other  (3 B, 4 below)
";
        assert_eq!(root.show(), expected);
    }
}
