//! A znode's stat: what ZooKeeper knows about it besides its data.

use serde::{Serialize, Serializer};

/// The stat of a znode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Stat {
    /// The transaction that created it.
    pub czxid: i64,
    /// The one that last changed its data.
    pub mzxid: i64,
    /// The one that last changed its children.
    pub pzxid: i64,
    /// When it was created, by the server's clock.
    pub ctime_ms: i64,
    /// When its data was last changed.
    pub mtime_ms: i64,
    /// How often its data was changed.
    pub version: i32,
    /// How often its children were changed.
    pub cversion: i32,
    /// How often its access list was changed.
    pub aversion: i32,
    /// The ZooKeeper session that owns it; 0 for none. In JSON a string, `null` for none: many programs cannot
    /// represent numbers of that size.
    #[serde(serialize_with = "session")]
    pub ephemeral_owner: i64,
    /// Bytes of data.
    pub data_length: i32,
    /// Number of children.
    pub children: i32,
}

fn session<S: Serializer>(id: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    match id {
        0 => serializer.serialize_none(),
        id => serializer.serialize_some(&format!("{id:#x}")),
    }
}

impl From<zookeeper_client::Stat> for Stat {
    fn from(stat: zookeeper_client::Stat) -> Self {
        Self {
            czxid: stat.czxid,
            mzxid: stat.mzxid,
            pzxid: stat.pzxid,
            ctime_ms: stat.ctime,
            mtime_ms: stat.mtime,
            version: stat.version,
            cversion: stat.cversion,
            aversion: stat.aversion,
            ephemeral_owner: stat.ephemeral_owner,
            data_length: stat.data_length,
            children: stat.num_children,
        }
    }
}
