//! The tree as a map from paths, changed at once: what every write should answer and leave behind.

use std::collections::BTreeMap;

use menagerie_wire::request::Create;
use menagerie_wire::{Acl, ErrorCode, Id, MultiOp, OpCode, Perms, Request, Stat};

use crate::core::znode::Kind;
use crate::core::{Caller, Outcome, SessionId};

/// A znode. Nothing here is derived from anything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub data: Option<Vec<u8>>,
    pub acl: Vec<Acl>,
    pub kind: Kind,
    pub next_sequence: i32,
    /// All but `data_length` and `num_children`, which are counted when asked for.
    pub stat: Stat,
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    pub nodes: BTreeMap<String, Node>,
    /// Bytes of the transaction in the making; 0 when there is none.
    written: usize,
}

/// Bytes of what a request may become.
pub const TRANSACTION_BYTES_MAX: usize = 400;

type Answer = Result<Outcome, ErrorCode>;

impl Model {
    pub fn new() -> Self {
        let mut model = Self { nodes: BTreeMap::new(), written: 0 };
        let readable = vec![Acl { perms: Perms::READ, id: Id::new("world", "anyone") }];
        // Initial znodes were never counted as created.
        for (path, acl, cversion, aversion) in [
            ("/", vec![Acl::open()], -1, 0),
            ("/zookeeper", vec![Acl::open()], -2, 0),
            ("/zookeeper/config", readable, 0, -1),
            ("/zookeeper/quota", vec![Acl::open()], 0, 0),
        ] {
            let stat = Stat { cversion, aversion, ..Stat::default() };
            let node = Node { data: Some(vec![]), acl, kind: Kind::Persistent, next_sequence: 0, stat };
            model.nodes.insert(path.to_owned(), node);
        }
        model
    }

    pub fn stat(&self, path: &str) -> Stat {
        let node = &self.nodes[path];
        Stat {
            data_length: node.data.as_ref().map_or(0, Vec::len) as i32,
            num_children: self.children(path).len() as i32,
            ..node.stat
        }
    }

    pub fn children(&self, path: &str) -> Vec<&str> {
        self.nodes
            .keys()
            .filter(|other| *other != "/" && parent(other) == Some(path))
            .map(String::as_str)
            .collect()
    }

    /// Answers a write, which uses its zxid whatever the outcome.
    pub fn write(&mut self, caller: Caller<'_>, request: &Request<'_>, zxid: i64, time: i64) -> Outcome {
        let at = At { zxid, time };
        // The zxid, and how many changes there are.
        self.written = 8 + 4;
        let answer = match request {
            Request::Create { op, create } => self.create(caller, *op, create, at),
            Request::Delete { path, version } => self.delete(caller, path, *version, at),
            Request::SetData { path, data, version } => self.set_data(caller, path, *data, *version, at),
            Request::SetAcl { path, acl, version } => self.set_acl(caller, path, acl, *version),
            Request::Check { path, version } => {
                self.check(caller, path, *version).map(|()| Outcome::Stat(self.stat(path)))
            }
            Request::Multi(ops) => Ok(self.multi(caller, ops, at)),
            other => panic!("not a write of the script: {other:?}"),
        };
        self.written = 0;
        answer.unwrap_or_else(Outcome::Refused)
    }

    /// Adds this many bytes, if they are within the limit.
    fn store(&mut self, bytes: usize) -> Result<(), ErrorCode> {
        if self.written + bytes > TRANSACTION_BYTES_MAX {
            return Err(ErrorCode::BadArguments);
        }
        self.written += bytes;
        Ok(())
    }

    fn multi(&mut self, caller: Caller<'_>, ops: &[MultiOp<'_>], at: At) -> Outcome {
        let before = self.clone();
        let mut outcomes = Vec::new();
        for (number, op) in ops.iter().enumerate() {
            let answer = match op {
                MultiOp::Create { op: OpCode::Create2, create } => {
                    self.create(caller, OpCode::Create, create, at)
                }
                MultiOp::Create { op, create } => self.create(caller, *op, create, at),
                MultiOp::Delete { path, version } => self.delete(caller, path, *version, at),
                MultiOp::SetData { path, data, version } => self.set_data(caller, path, *data, *version, at),
                MultiOp::Check { path, version } => {
                    self.check(caller, path, *version).map(|()| Outcome::Checked)
                }
                read => panic!("not a write of the script: {read:?}"),
            };
            match answer {
                Ok(outcome) => outcomes.push(outcome),
                Err(code) => {
                    *self = before;
                    outcomes = vec![Outcome::Refused(ErrorCode::Ok); number];
                    outcomes.push(Outcome::Refused(code));
                    outcomes.resize(ops.len(), Outcome::Refused(ErrorCode::RuntimeInconsistency));
                    break;
                }
            }
        }
        Outcome::Multi(outcomes)
    }

    fn create(&mut self, caller: Caller<'_>, op: OpCode, create: &Create<'_>, at: At) -> Answer {
        let (kind, sequential) = mode(caller.session, op, create).ok_or(ErrorCode::BadArguments)?;
        let above = parent(create.path).ok_or(ErrorCode::BadArguments)?.to_owned();
        let acl = granted(&create.acl, caller.ids).ok_or(ErrorCode::InvalidAcl)?;
        let above_node = self.nodes.get(&above).ok_or(ErrorCode::NoNode)?;
        permit(above_node, caller, Perms::CREATE)?;
        let mut path = create.path.to_owned();
        if sequential {
            path += &format!("{:010}", above_node.next_sequence);
        }
        well_formed(&path)?;
        if self.nodes.contains_key(&path) {
            return Err(ErrorCode::NodeExists);
        }
        if matches!(above_node.kind, Kind::Ephemeral(_)) {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        let data = create.data.map(<[u8]>::to_vec);
        self.fits(&path, 1, data.as_ref().map_or(0, Vec::len) as i64)?;
        self.store(4 + 4 + path.len() + 4 + data.as_ref().map_or(0, Vec::len) + acl_bytes(&acl) + 64 + 12)?;
        let stat = Stat {
            czxid: at.zxid,
            mzxid: at.zxid,
            pzxid: at.zxid,
            ctime: at.time,
            mtime: at.time,
            ephemeral_owner: if let Kind::Ephemeral(session) = kind { session.0 } else { 0 },
            ..Stat::default()
        };
        self.nodes.insert(path.clone(), Node { data, acl, kind, next_sequence: 0, stat });
        self.node(&above).next_sequence += 1;
        self.family_changed(&above, at);
        self.show_usage();
        let stat = self.stat(&path);
        Ok(Outcome::Created { path: path.into(), stat, with_stat: op != OpCode::Create })
    }

    fn delete(&mut self, caller: Caller<'_>, path: &str, version: i32, at: At) -> Answer {
        let planted = ["/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"];
        let above = parent(path).filter(|_| !planted.contains(&path)).ok_or(ErrorCode::BadArguments)?;
        permit(self.nodes.get(above).ok_or(ErrorCode::NoNode)?, caller, Perms::DELETE)?;
        matches_version(self.nodes.get(path).ok_or(ErrorCode::NoNode)?.stat.version, version)?;
        if !self.children(path).is_empty() {
            return Err(ErrorCode::NotEmpty);
        }
        self.store(4 + 4 + path.len() + 12)?;
        self.remove(path, at.zxid);
        Ok(Outcome::Deleted)
    }

    /// Removes a znode that has no children.
    pub fn remove(&mut self, path: &str, zxid: i64) {
        self.nodes.remove(path).expect("the script removes what is there");
        self.family_changed(parent(path).expect("the root stays"), At { zxid, time: 0 });
        self.show_usage();
    }

    fn family_changed(&mut self, path: &str, at: At) {
        let stat = &mut self.node(path).stat;
        stat.cversion += 1;
        stat.pzxid = at.zxid;
    }

    fn set_data(
        &mut self,
        caller: Caller<'_>,
        path: &str,
        data: Option<&[u8]>,
        version: i32,
        at: At,
    ) -> Answer {
        well_formed(path)?;
        let node = self.nodes.get(path).ok_or(ErrorCode::NoNode)?;
        permit(node, caller, Perms::WRITE)?;
        let (before, after) = (node.data.as_ref().map_or(0, Vec::len), data.map_or(0, <[u8]>::len));
        self.fits(path, 0, after as i64 - before as i64)?;
        matches_version(node.stat.version, version)?;
        self.store(4 + 4 + path.len() + 4 + after + 4 + 8 + 8)?;
        let node = self.node(path);
        node.data = data.map(<[u8]>::to_vec);
        node.stat.version += 1;
        node.stat.mzxid = at.zxid;
        node.stat.mtime = at.time;
        self.show_usage();
        Ok(Outcome::Stat(self.stat(path)))
    }

    fn set_acl(&mut self, caller: Caller<'_>, path: &str, sent: &[Acl], version: i32) -> Answer {
        well_formed(path)?;
        let acl = granted(sent, caller.ids).ok_or(ErrorCode::InvalidAcl)?;
        let node = self.nodes.get(path).ok_or(ErrorCode::NoNode)?;
        permit(node, caller, Perms::ADMIN)?;
        matches_version(node.stat.aversion, version)?;
        self.store(4 + 4 + path.len() + acl_bytes(&acl) + 4)?;
        let node = self.node(path);
        node.acl = acl;
        node.stat.aversion += 1;
        Ok(Outcome::Stat(self.stat(path)))
    }

    fn check(&self, caller: Caller<'_>, path: &str, version: i32) -> Result<(), ErrorCode> {
        well_formed(path)?;
        let node = self.nodes.get(path).ok_or(ErrorCode::NoNode)?;
        permit(node, caller, Perms::READ)?;
        matches_version(node.stat.version, version)
    }

    /// Removes the session's ephemerals.
    pub fn close(&mut self, session: SessionId, zxid: i64) {
        let is_its = |node: &Node| node.kind == Kind::Ephemeral(session);
        let its: Vec<String> =
            self.nodes.iter().filter(|(_, node)| is_its(node)).map(|(path, _)| path.clone()).collect();
        for path in its {
            self.remove(&path, zxid);
        }
    }

    /// Whether the sweep should take it.
    pub fn is_idle(&self, path: &str, time: i64) -> bool {
        let Some(node) = self.nodes.get(path) else { return false };
        let outlived = match node.kind {
            Kind::Container => node.next_sequence > 0,
            Kind::Ttl(ttl) => node.stat.mtime + ttl < time,
            Kind::Persistent | Kind::Ephemeral(_) => false,
        };
        outlived && self.children(path).is_empty()
    }

    /// Whether this much more is within all hard limits above.
    fn fits(&self, path: &str, count: i64, bytes: i64) -> Result<(), ErrorCode> {
        let mut above = path;
        while above != "/" && !path.starts_with(QUOTAS) {
            if let Some(limits) =
                self.nodes.get(&format!("{}{above}/zookeeper_limits", QUOTAS.trim_end_matches('/')))
                && self
                    .nodes
                    .contains_key(&format!("{}{above}/zookeeper_stats", QUOTAS.trim_end_matches('/')))
            {
                let (used_count, used_bytes) = self.usage(above);
                for (name, more, used) in
                    [("countHardLimit", count, used_count), ("byteHardLimit", bytes, used_bytes)]
                {
                    let limit = limit(limits.data.as_deref().unwrap_or_default(), name);
                    if more > 0 && limit.is_some_and(|limit| used + more > limit) {
                        return Err(ErrorCode::QuotaExceeded);
                    }
                }
            }
            above = parent(above).expect("only the root has none");
        }
        Ok(())
    }

    /// Znodes at and below a path, and bytes of their data.
    fn usage(&self, top: &str) -> (i64, i64) {
        let below = format!("{top}/");
        let counts = |path: &str| (path == top || path.starts_with(&below)) && !path.starts_with(QUOTAS);
        let lengths = self.nodes.iter().filter(|(path, _)| counts(path)).map(|(_, node)| node.data.as_ref());
        lengths.fold((0, 0), |(count, bytes), data| (count + 1, bytes + data.map_or(0, Vec::len) as i64))
    }

    /// Updates all znodes that show a usage.
    fn show_usage(&mut self) {
        let shows = |path: &&String| path.starts_with(QUOTAS) && path.ends_with("/zookeeper_stats");
        let paths: Vec<String> = self.nodes.keys().filter(shows).cloned().collect();
        for path in paths {
            let top = path[QUOTAS.len() - 1..].trim_end_matches("/zookeeper_stats");
            if !top.is_empty() {
                let (count, bytes) = self.usage(top);
                self.node(&path).data = Some(format!("count={count},bytes={bytes}").into_bytes());
            }
        }
    }

    fn node(&mut self, path: &str) -> &mut Node {
        self.nodes.get_mut(path).expect("the caller looked it up")
    }
}

/// The prefix of all quota znodes.
const QUOTAS: &str = "/zookeeper/quota/";

/// The limit of that name, if there is one.
fn limit(data: &[u8], name: &str) -> Option<i64> {
    let text = std::str::from_utf8(data).ok()?;
    let value = text.split(';').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))?;
    value.parse().ok().filter(|limit| *limit > -1)
}

/// When a write happens.
#[derive(Debug, Clone, Copy)]
struct At {
    zxid: i64,
    time: i64,
}

/// Everything before the last slash (the root for its children and itself); `None` without a slash or with a NUL.
pub fn parent(path: &str) -> Option<&str> {
    let (above, _) = path.rsplit_once('/').filter(|_| !path.contains('\0'))?;
    Some(if above.is_empty() { "/" } else { above })
}

fn mode(session: SessionId, op: OpCode, create: &Create<'_>) -> Option<(Kind, bool)> {
    let is_ttl = create.ttl.is_some_and(|ttl| (1..1 << 40).contains(&ttl));
    match (op, create.flags) {
        (OpCode::CreateContainer, 0 | 1 | 4) => Some((Kind::Container, false)),
        (OpCode::CreateContainer, 2 | 3) => Some((Kind::Container, true)),
        (OpCode::CreateTtl, 5 | 6) if is_ttl => Some((Kind::Ttl(create.ttl?), create.flags == 6)),
        (OpCode::Create | OpCode::Create2, 0 | 2) => Some((Kind::Persistent, create.flags == 2)),
        (OpCode::Create | OpCode::Create2, 1 | 3) => Some((Kind::Ephemeral(session), create.flags == 3)),
        (OpCode::Create | OpCode::Create2, 4) => Some((Kind::Container, false)),
        _ => None,
    }
}

fn well_formed(path: &str) -> Result<(), ErrorCode> {
    let names = || path.split('/').skip(1);
    let good = path == "/"
        || path.starts_with('/')
            && names().all(|name| !name.is_empty() && name != "." && name != "..")
            && !path.chars().any(char::is_control);
    if good { Ok(()) } else { Err(ErrorCode::BadArguments) }
}

/// The list that a sent one becomes. The scripts know only `world:anyone`, whole digests, `auth`, and one bad scheme.
fn granted(sent: &[Acl], ids: &[Id]) -> Option<Vec<Acl>> {
    let mut list = Vec::new();
    for entry in sent {
        match entry.id.scheme.as_str() {
            "world" | "digest" => list.push(entry.clone()),
            "auth" => {
                let own = ids.iter().filter(|id| id.scheme == "digest");
                let before = list.len();
                list.extend(own.map(|id| Acl { perms: entry.perms, id: id.clone() }));
                if list.len() == before {
                    return None;
                }
            }
            _ => return None,
        }
    }
    (!list.is_empty()).then_some(list)
}

fn acl_bytes(acl: &[Acl]) -> usize {
    4 + acl.iter().map(|entry| 4 + 4 + entry.id.scheme.len() + 4 + entry.id.id.len()).sum::<usize>()
}

fn permit(node: &Node, caller: Caller<'_>, wanted: Perms) -> Result<(), ErrorCode> {
    let grants = |entry: &Acl| {
        entry.perms.0 & wanted.0 != 0 && (entry.id.scheme == "world" || caller.ids.contains(&entry.id))
    };
    if node.acl.iter().any(grants) { Ok(()) } else { Err(ErrorCode::NoAuth) }
}

fn matches_version(actual: i32, wanted: i32) -> Result<(), ErrorCode> {
    if wanted == -1 || wanted == actual { Ok(()) } else { Err(ErrorCode::BadVersion) }
}
