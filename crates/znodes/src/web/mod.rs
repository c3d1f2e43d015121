//! Who may use the web interface, and what was done there.

mod rights;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use rights::{Area, Grant, GrantError, Rights, Scope};

use crate::Name;
use crate::payload::{Json, check};
use crate::quote::Component;
use crate::spec::{Kind, ZnodeSpec};
use crate::znode::{Dir, Znode};

const TOKENS: ZnodeSpec = ZnodeSpec {
    pattern: "/tokens",
    kind: Kind::Persistent,
    payload: "nothing",
    check: check::<()>,
    written_by: "whoever creates the first token",
    guarded_by: "nothing: it is only a folder",
    deleted_by: "nobody",
    seed: "none",
};

const TOKEN: ZnodeSpec = ZnodeSpec {
    pattern: "/tokens/<id>",
    kind: Kind::Persistent,
    payload: "JSON: name, SHA-256 of the token, what it allows, who created it and when",
    check: check::<Token>,
    written_by: "`token create`, or `menagerie up` for its own user",
    guarded_by: "its name, which is the beginning of the hash; it never changes",
    deleted_by: "`token revoke`",
    seed: "none",
};

const AUDIT: ZnodeSpec = ZnodeSpec {
    pattern: "/audit",
    kind: Kind::Persistent,
    payload: "nothing",
    check: check::<()>,
    written_by: "the first web server",
    guarded_by: "nothing: it is only a folder",
    deleted_by: "nobody",
    seed: "none",
};

const ENTRY: ZnodeSpec = ZnodeSpec {
    pattern: "/audit/entry-<id>-",
    kind: Kind::PersistentSequence,
    payload: "JSON: who, from where, what, and how it ended",
    check: check::<AuditEntry>,
    written_by: "the web server, before it makes a change, and again with the outcome",
    guarded_by: "being written by one process only",
    deleted_by: "any web server, when there are more than 1,000 newer ones of those who submit, or of others",
    seed: "none",
};

/// The specs of all znodes of the web interface.
pub const SPECS: &[ZnodeSpec] = &[TOKENS, TOKEN, AUDIT, ENTRY];

/// All tokens.
pub fn tokens() -> Znode<Dir> {
    TOKENS.at(&[])
}

/// A token, by its id.
pub fn token(id: &Name) -> Znode<Token> {
    TOKEN.at(&[id])
}

/// All entries of the audit trail.
pub fn audit() -> Znode<Dir> {
    AUDIT.at(&[])
}

/// A new entry of the audit trail: `id` is drawn for it, and the server appends its number.
pub fn audit_entry(id: &dyn Component) -> Znode<AuditEntry> {
    ENTRY.at(&[id])
}

/// What is stored of a token: never the token itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Who uses it, or what for.
    pub name: Name,
    /// Its SHA-256, in hexadecimal digits. Tokens are drawn at random and long, so it needs no salt.
    pub sha256: String,
    /// What it allows.
    pub rights: Rights,
    /// Who created it.
    pub by: String,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: u64,
}

impl Json for Token {
    const WHAT: &'static str = "a token of the web interface";
}

/// A change that somebody made over the web interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    /// Name of the token.
    pub who: String,
    /// Id of the token.
    pub token: String,
    /// Address of the client.
    pub from: String,
    /// What was done, such as `slots.freeze`.
    pub act: String,
    /// To what: the path of the request.
    pub target: String,
    /// What else was asked for, such as the reason; shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// How it ended.
    pub outcome: AuditOutcome,
    /// What was reported to the client: what was done, or why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How a change ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuditOutcome {
    /// It was begun, and its end was not recorded: its web server has died, or lost ZooKeeper.
    Begun,
    /// It was done.
    Done,
    /// It was not done.
    Failed,
}

impl AuditOutcome {
    /// As tables and JSON spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

impl Json for AuditEntry {
    const WHAT: &'static str = "an entry of the audit trail";
}
