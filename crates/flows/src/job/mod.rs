//! A job as data: a catalogue of tasks, and the edges between them. Pure.
//!
//! - this file: the types. [`document`]: TOML and JSON. [`read`]: from there to a [`Job`], or every reason why not.
//!   [`graph`]: rules for the edges, and the tasks and links that they make.

pub mod document;
pub mod graph;
pub mod read;

use std::path::PathBuf;

use menagerie_znodes::Name;
use serde_json::{Map, Value, json};

pub use document::{Document, Problem};

use crate::segments::KeyPath;

/// Segments of a batch, unless the job says otherwise.
pub const BATCH_SIZE: u32 = 1_000;
/// Most segments of a batch: a batch is one message of the journal.
pub const BATCH_SIZE_MAX: u32 = 100_000;
/// Partitions of a link, unless the job says otherwise.
pub const PARTITIONS: u32 = 16;
/// Most partitions of a link.
pub const PARTITIONS_MAX: u32 = 1_024;
/// Most tasks of a job.
pub const TASKS_MAX: usize = 200;
/// Most edges that leave a task: a commit has a copy of its segments for each.
pub const EDGES_OUT_MAX: usize = 8;
/// Most bytes of a submitted job, as JSON: the event that plans it is one transaction, and has it twice.
pub const JOB_BYTES_MAX: usize = 256 << 10;

/// A valid job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// What people call it.
    pub name: Name,
    /// From task to task, by name.
    pub workflow: Vec<(Name, Name)>,
    /// The tasks, in the order of the file.
    pub catalog: Vec<CatalogEntry>,
}

/// A task as the catalogue describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// Unique within the job.
    pub name: Name,
    /// What it does.
    pub function: Function,
    /// Whether several peers may share it.
    pub consumption: Consumption,
    /// Most segments of a batch.
    pub batch_size: u32,
    /// Partitions of each link into it.
    pub partitions: u32,
}

/// Whether several peers may share a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consumption {
    /// They may; order is kept within a partition.
    Concurrent,
    /// One partition, one peer: order is kept.
    Sequential,
}

/// What a task does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Function {
    /// Reads files of one JSON object a line.
    JsonlInput {
        /// Their names; with `*` and the like.
        path: PathBuf,
    },
    /// Writes such files.
    JsonlOutput {
        /// The folder for them.
        path: PathBuf,
    },
    /// Passes segments on as they are.
    Identity,
    /// Sends segments of one key to one partition.
    Group {
        /// Where the key is.
        key: KeyPath,
    },
    /// Counts the segments of each key.
    Count,
}

impl Function {
    /// The `type` of the catalogue.
    pub fn task_type(&self) -> &'static str {
        match self {
            Self::JsonlInput { .. } => "input",
            Self::JsonlOutput { .. } => "output",
            Self::Identity => "transformer",
            Self::Group { .. } => "grouper",
            Self::Count => "aggregator",
        }
    }
}

impl Consumption {
    /// As the catalogue spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Concurrent => "concurrent",
            Self::Sequential => "sequential",
        }
    }
}

impl CatalogEntry {
    /// Partitions of each link into it.
    pub fn link_partitions(&self) -> u32 {
        match self.consumption {
            Consumption::Sequential => 1,
            Consumption::Concurrent => self.partitions,
        }
    }

    fn to_value(&self) -> Value {
        let mut entry = Map::new();
        entry.insert("name".into(), self.name.as_str().into());
        entry.insert("type".into(), self.function.task_type().into());
        match &self.function {
            Function::JsonlInput { path } | Function::JsonlOutput { path } => {
                entry.insert("plugin".into(), "jsonl".into());
                entry.insert("path".into(), path.to_string_lossy().into_owned().into());
            }
            Function::Identity => drop(entry.insert("builtin".into(), "identity".into())),
            Function::Group { key } => drop(entry.insert("key".into(), key.to_string().into())),
            Function::Count => drop(entry.insert("builtin".into(), "count".into())),
        }
        entry.insert("consumption".into(), self.consumption.as_str().into());
        entry.insert("batch_size".into(), self.batch_size.into());
        entry.insert("partitions".into(), self.partitions.into());
        Value::Object(entry)
    }
}

impl Job {
    /// The catalogue as data; what [`read::job`] reads.
    pub fn catalog_value(&self) -> Value {
        Value::Array(self.catalog.iter().map(CatalogEntry::to_value).collect())
    }

    /// The workflow as data.
    pub fn workflow_value(&self) -> Value {
        self.workflow.iter().map(|(from, to)| json!([from.as_str(), to.as_str()])).collect()
    }

    /// The whole job as data.
    pub fn to_value(&self) -> Value {
        json!({
            "name": self.name.as_str(),
            "workflow": self.workflow_value(),
            "catalog": self.catalog_value(),
        })
    }

    /// The entry of this name.
    pub fn entry(&self, name: &Name) -> Option<&CatalogEntry> {
        self.catalog.iter().find(|entry| entry.name == *name)
    }
}
