//! Journals: which data folders there are, and which process serves each of them.

use serde::{Deserialize, Serialize};

use crate::payload::{Json, check};
use crate::quote::Quoted;
use crate::spec::{Kind, ZnodeSpec};
use crate::znode::Znode;

const ROOT: ZnodeSpec = ZnodeSpec {
    pattern: "/journals",
    kind: Kind::Persistent,
    payload: "nothing",
    check: check::<()>,
    written_by: "the first journal",
    guarded_by: "nothing: it is only a folder",
    deleted_by: "nobody",
    seed: "none",
};

const FOLDER: ZnodeSpec = ZnodeSpec {
    pattern: "/journals/<folder>",
    kind: Kind::Persistent,
    payload: "JSON: the last start that served this data folder; and the one that found another serving a copy of it, if any",
    check: check::<Folder>,
    written_by: "the journal that serves the folder, or finds that another one does",
    guarded_by: "its version: whoever begins to serve the folder writes it in the same transaction",
    deleted_by: "nobody",
    seed: "none",
};

const SERVER: ZnodeSpec = ZnodeSpec {
    pattern: "/journals/<folder>/<start>",
    kind: Kind::Ephemeral,
    payload: "JSON: the journal's name, where it listens, whether it speaks TLS, the folders that this one goes on from",
    check: check::<Server>,
    written_by: "the journal when it begins to serve the folder, and again in every new session",
    guarded_by: "its name, which is drawn at every start, and the version of its parent",
    deleted_by: "the journal when it ends, the end of its session, or the next start on the same folder of the same machine",
    seed: "none",
};

/// The specs of all znodes of journals.
pub const SPECS: &[ZnodeSpec] = &[ROOT, FOLDER, SERVER];

/// All data folders.
pub fn root() -> Znode<()> {
    ROOT.at(&[])
}

/// A data folder, by its id.
pub fn folder(folder: &str) -> Znode<Folder> {
    FOLDER.at(&[&Quoted(folder)])
}

/// A process that serves it, by the id of its start.
pub fn server(folder: &str, start: &str) -> Znode<Server> {
    SERVER.at(&[&Quoted(folder), &Quoted(start)])
}

/// The state of a data folder.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Folder {
    /// The process that served it last, and perhaps still does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Server>,
    /// The process that found that `last` serves a copy of the same folder. Neither serves from then on: both have the
    /// same id, and nobody can tell which of them has the acknowledged messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contested_by: Option<Server>,
}

impl Json for Folder {
    const WHAT: &'static str = "what is known of a journal's folder";
}

/// A process that serves a data folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// The id of its start, which is in its answers, too.
    pub start: String,
    /// The journal's name, as queues refer to it.
    pub name: String,
    /// The machine that it runs on.
    pub host: String,
    /// `HOST:PORT`, as others reach it.
    pub address: String,
    /// Whether it requires TLS.
    #[serde(default)]
    pub tls: bool,
    /// Predecessors of this folder: it was restored or copied from them, and got another id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub continues: Vec<String>,
    /// The folder's lock, as the kernel of its machine identifies it. Two starts with the same value ran one after the
    /// other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl Json for Server {
    const WHAT: &'static str = "a journal that serves a folder";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Payload as _;

    #[test]
    fn what_newer_versions_add_is_passed_over() {
        let server = Server::decode(br#"{"start":"1","name":"main","host":"a","address":"a:1","zone":"x"}"#);
        assert_eq!(server.unwrap().address, "a:1");
        assert_eq!(Folder::decode(b"{}").unwrap(), Folder::default());
    }
}
