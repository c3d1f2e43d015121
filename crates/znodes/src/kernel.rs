//! The kernel's own znodes.

use serde::{Deserialize, Serialize};

use crate::Name;
use crate::payload::{Json, check};
use crate::spec::{Kind, ZnodeSpec};
use crate::znode::Znode;

const GENERATION: ZnodeSpec = ZnodeSpec {
    pattern: "/generation",
    kind: Kind::Persistent,
    payload: "decimal number: the greater of the old one + 1 and the time in ms",
    check: check::<u64>,
    written_by: "whoever creates, imports or restores the namespace",
    guarded_by: "its version",
    deleted_by: "nobody",
    seed: "none: fences of 000 and 002 rest on it",
};

const LTIME: ZnodeSpec = ZnodeSpec {
    pattern: "/ltime",
    kind: Kind::Persistent,
    payload: "nothing: the transaction that last set it is the logical time",
    check: check::<()>,
    written_by: "whoever asks for the logical time",
    guarded_by: "nothing: every write makes it later",
    deleted_by: "nobody",
    seed: "003: zuul/ltime",
};

const IMPORTING: ZnodeSpec = ZnodeSpec {
    pattern: "/importing",
    kind: Kind::Persistent,
    payload: "JSON: the export's id, since when, and whether it still deletes",
    check: check::<Importing>,
    written_by: "`zk import`",
    guarded_by: "created with the generation, or with a check of it",
    deleted_by: "`zk import`, when all is there",
    seed: "none: whoever owns things refuses a namespace that is half there",
};

const DOCTOR: ZnodeSpec = ZnodeSpec {
    pattern: "/doctor-<id>",
    kind: Kind::Ephemeral,
    payload: "a few bytes",
    check: check::<()>,
    written_by: "`doctor`, to time a write",
    guarded_by: "its name, which is never used again",
    deleted_by: "`doctor`",
    seed: "none",
};

/// The specs of all znodes of the kernel.
pub const SPECS: &[ZnodeSpec] = &[GENERATION, LTIME, IMPORTING, DOCTOR];

/// The first part of every fence: it rises when the namespace moves to a server whose zxids may be lower.
pub fn generation() -> Znode<u64> {
    GENERATION.at(&[])
}

/// The logical clock: each write of it gets a number that is greater than all before.
pub fn ltime() -> Znode<()> {
    LTIME.at(&[])
}

/// An import that is not finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Importing {
    /// The name of the export.
    pub export: String,
    /// When it began.
    pub since_ms: u64,
    /// Whether it is still deleting the old content.
    pub clearing: bool,
}

impl Importing {
    /// Stands for a note that does not decode: it matches no export.
    pub fn unreadable() -> Self {
        Self { export: String::new(), since_ms: 0, clearing: true }
    }
}

impl Json for Importing {
    const WHAT: &'static str = "a note that an import is in progress";
}

/// Exists while an import is in progress: nobody else may use the namespace yet.
pub fn importing() -> Znode<Importing> {
    IMPORTING.at(&[])
}

/// What `doctor` writes to measure latency.
pub fn doctor(id: &Name) -> Znode<()> {
    DOCTOR.at(&[id])
}
