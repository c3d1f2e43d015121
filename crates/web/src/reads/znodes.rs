//! Znodes: read-only, with what the map says about each.

use std::sync::Arc;

use menagerie_kernel::CallError;
use menagerie_znodes::{ZnodeSpec, lookup};
use schemars::JsonSchema;
use serde::Serialize;

use super::Listing;
use crate::params::Params;
use crate::problem::Problem;
use crate::sources::Sources;

/// Bytes of data that are shown.
const DATA_BYTES_MAX: usize = 64 << 10;

/// A znode with its children.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ZnodeView {
    /// Its path, below the namespace.
    pub path: String,
    /// Its data as text; bytes that are not text are replaced. Cut after 64 KiB.
    pub data: String,
    /// Length of its data.
    pub bytes: usize,
    /// The transaction that created it.
    pub czxid: i64,
    /// The transaction that changed it last.
    pub mzxid: i64,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// How often its data was changed.
    pub version: i32,
    /// The session that it lives with; 0 if it stays.
    pub ephemeral_owner: i64,
    /// What the map says about it; `null` if it is none of ours.
    pub about: Option<ZnodeAbout>,
    /// Names of its children.
    pub children: Listing<String>,
}

/// What the map says about a znode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ZnodeAbout {
    /// The part of Menagerie that it belongs to.
    pub owner: String,
    /// Its pattern.
    pub pattern: String,
    /// How long it lives.
    pub kind: String,
    /// What its data means.
    pub payload: String,
    /// Who writes it.
    pub written_by: String,
    /// How conflicts are avoided.
    pub guarded_by: String,
    /// Who deletes it.
    pub deleted_by: String,
}

impl ZnodeAbout {
    fn of(owner: &str, spec: &ZnodeSpec) -> Self {
        Self {
            owner: owner.to_owned(),
            pattern: spec.pattern.to_owned(),
            kind: spec.kind.to_string(),
            payload: spec.payload.to_owned(),
            written_by: spec.written_by.to_owned(),
            guarded_by: spec.guarded_by.to_owned(),
            deleted_by: spec.deleted_by.to_owned(),
        }
    }
}

/// One znode of the namespace.
pub async fn znode(sources: Arc<Sources>, params: Params) -> Result<ZnodeView, Problem> {
    let path = params.text("path").unwrap_or("/");
    check(path)?;
    let term = sources.session.term();
    let missing = || Problem::missing(format!("there is no znode {path}"), "look at its parent");
    let (data, stat) = match term.get(path).await {
        Err(CallError::NoZnode { .. }) => return Err(missing()),
        found => found?,
    };
    let mut names = match term.children(path).await {
        Err(CallError::NoZnode { .. }) => return Err(missing()),
        names => names?,
    };
    names.retain(|name| params.wants(name));
    names.sort_unstable();
    Ok(ZnodeView {
        path: path.to_owned(),
        data: String::from_utf8_lossy(&data[..data.len().min(DATA_BYTES_MAX)]).into_owned(),
        bytes: data.len(),
        czxid: stat.czxid,
        mzxid: stat.mzxid,
        created_ms: stat.ctime_ms,
        version: stat.version,
        ephemeral_owner: stat.ephemeral_owner,
        about: lookup::find(path).map(|(owner, spec)| ZnodeAbout::of(owner, spec)),
        children: Listing::page(names, Clone::clone, &params),
    })
}

/// Refuses what no znode can be called.
fn check(path: &str) -> Result<(), Problem> {
    let is_component =
        |part: &str| !part.is_empty() && !matches!(part, "." | "..") && !part.contains(char::is_control);
    let is_path = path == "/" || path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_component));
    match is_path {
        true => Ok(()),
        false => Err(Problem::bad(
            format!("{path:?} is no path of a znode"),
            "write it as /a/b, from the namespace on",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn paths_are_checked_before_zookeeper_is_asked() {
        for path in ["/", "/a", "/a/b-1", "/a b"] {
            assert!(check(path).is_ok(), "{path}");
        }
        for path in ["", "a", "/a/", "//a", "/a//b", "/./a", "/../a", "/a\u{0}", "/a\n"] {
            assert!(check(path).is_err(), "{path}");
        }
    }
}
