//! Random scripts. Paths and versions are resolved when their step runs, so that most writes are meaningful and scripts
//! stay sensible while they shrink.

use menagerie_wire::request::Create;
use menagerie_wire::{Acl, Id, MultiOp, OpCode, Perms, Request};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::model::Model;

/// One step.
#[derive(Debug, Clone)]
pub enum Step {
    Write(Who, Write),
    Multi(Who, Vec<Write>),
    Open,
    Close(usize),
    Expire(usize),
    /// Time passes, and idle znodes are swept.
    Sweep(i64),
    /// A quota is set, and its missing znodes are created again.
    Quota(Who, Quota),
    /// One znode is swept if it is idle.
    SweepOne(Pick),
    /// This many of the writes in flight become durable.
    Durable(usize),
}

/// Hard limits of what is at and below one of a few paths.
#[derive(Debug, Clone)]
pub struct Quota {
    path: usize,
    count: i64,
    bytes: i64,
}

/// Paths that may have a quota, each below the one before.
const QUOTA_PATHS: [&str; 2] = ["/a", "/a/x"];

impl Quota {
    /// The znodes that it takes, with their data.
    pub fn znodes(&self) -> Vec<(String, String)> {
        let folder = |path: &&str| (format!("/zookeeper/quota{path}"), String::new());
        let mut znodes: Vec<_> = QUOTA_PATHS[..=self.path].iter().map(folder).collect();
        let (last, _) = &znodes[self.path];
        let limits = format!("count=-1,bytes=-1=;byteHardLimit={};countHardLimit={}", self.bytes, self.count);
        let own = [
            (format!("{last}/zookeeper_limits"), limits),
            (format!("{last}/zookeeper_stats"), String::new()),
        ];
        znodes.extend(own);
        znodes
    }
}

/// Which session, and with which identities.
#[derive(Debug, Clone, Copy)]
pub struct Who {
    pub session: usize,
    pub user: usize,
}

#[derive(Debug, Clone)]
pub enum Write {
    Create { mode: usize, path: Pick, data: Option<Vec<u8>>, acl: usize },
    Delete { path: Pick, version: Version },
    SetData { path: Pick, data: Option<Vec<u8>>, version: Version },
    SetAcl { path: Pick, acl: usize, version: Version },
    Check { path: Pick, version: Version },
}

/// A path.
#[derive(Debug, Clone)]
pub enum Pick {
    /// One of a fixed few, odd ones among them.
    Known(usize),
    /// One that exists.
    Existing(usize),
    /// A child of one that exists.
    Below(usize, usize),
}

#[derive(Debug, Clone, Copy)]
pub enum Version {
    Any,
    Current,
    Off,
}

/// Few, so that writes meet.
const PATHS: [&str; 8] = ["/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/q", "/a/x/r", "/zookeeper/n"];
const ODD_PATHS: [&str; 12] = [
    "",
    "a",
    "/",
    "/a/",
    "/a//x",
    "/a/./x",
    "/a/..",
    "/a\0",
    "/a/\u{1}",
    "/zookeeper",
    "/zookeeper/config",
    "/zookeeper/config/x",
];
const NAMES: [&str; 3] = ["x", "y", "n-"];

/// Operation, flags and time to live, good and bad.
const MODES: [(OpCode, i32, Option<i64>); 18] = [
    (OpCode::Create, 0, None),
    (OpCode::Create, 1, None),
    (OpCode::Create, 2, None),
    (OpCode::Create2, 0, None),
    (OpCode::Create2, 1, None),
    (OpCode::Create2, 2, None),
    (OpCode::Create2, 3, None),
    (OpCode::Create2, 4, None),
    (OpCode::CreateContainer, 4, None),
    (OpCode::CreateContainer, 3, None),
    (OpCode::CreateTtl, 5, Some(20)),
    (OpCode::CreateTtl, 6, Some(1)),
    (OpCode::CreateTtl, 5, Some(0xff_ffff_ffff)),
    (OpCode::CreateTtl, 5, Some(1 << 40)),
    (OpCode::CreateTtl, 5, Some(0)),
    (OpCode::CreateTtl, 0, Some(-1)),
    (OpCode::Create, 5, None),
    (OpCode::Create, 7, None),
];

/// The identities that a user has proved.
pub fn identities(user: usize) -> Vec<Id> {
    let address = Id::new("ip", "127.0.0.1");
    match user % 3 {
        0 => vec![address],
        1 => vec![address, Id::new("digest", "alice:1")],
        _ => vec![address, Id::new("digest", "alice:1"), Id::new("digest", "bob:2")],
    }
}

fn acl(number: usize) -> Vec<Acl> {
    let entry = |perms, scheme: &str, id: &str| Acl { perms, id: Id::new(scheme, id) };
    match number % 8 {
        0..3 => vec![Acl::open()],
        3 => vec![entry(Perms::ALL, "digest", "alice:1"), entry(Perms::READ, "world", "anyone")],
        4 => vec![entry(Perms::CREATE.or(Perms::DELETE), "world", "anyone")],
        5 => vec![entry(Perms::ALL, "auth", "")],
        6 => vec![],
        _ => vec![Acl::open(), entry(Perms::ALL, "nonsense", "x")],
    }
}

impl Pick {
    pub fn resolve(&self, model: &Model) -> String {
        let existing = |number: usize| model.nodes.keys().nth(number % model.nodes.len());
        match self {
            Self::Known(number) => PATHS.iter().chain(&ODD_PATHS).nth(*number).expect("in range").to_string(),
            Self::Existing(number) => existing(*number).expect("in range").clone(),
            Self::Below(number, name) => {
                format!("{}/{}", existing(*number).expect("in range").trim_end_matches('/'), NAMES[*name])
            }
        }
    }
}

impl Version {
    fn resolve(self, current: i32) -> i32 {
        match self {
            Self::Any => -1,
            Self::Current => current,
            Self::Off => current + 3,
        }
    }
}

/// A write whose path and version are known.
#[derive(Debug)]
pub struct Resolved<'a> {
    write: &'a Write,
    path: String,
    version: i32,
}

impl Write {
    pub fn resolve<'a>(&'a self, model: &Model) -> Resolved<'a> {
        let (path, version) = match self {
            Self::Create { path, .. } => (path.resolve(model), 0),
            Self::Delete { path, version }
            | Self::SetData { path, version, .. }
            | Self::Check { path, version } => {
                let path = path.resolve(model);
                let current = model.nodes.get(&path).map_or(0, |node| node.stat.version);
                (path, version.resolve(current))
            }
            Self::SetAcl { path, version, .. } => {
                let path = path.resolve(model);
                let current = model.nodes.get(&path).map_or(0, |node| node.stat.aversion);
                (path, version.resolve(current))
            }
        };
        Resolved { write: self, path, version }
    }
}

impl Resolved<'_> {
    pub fn request(&self) -> Request<'_> {
        let (path, version) = (self.path.as_str(), self.version);
        match self.write {
            Write::Create { .. } => {
                let (op, create) = self.creation();
                Request::Create { op, create }
            }
            Write::Delete { .. } => Request::Delete { path, version },
            Write::SetData { data, .. } => Request::SetData { path, data: data.as_deref(), version },
            Write::SetAcl { acl: number, .. } => Request::SetAcl { path, acl: acl(*number), version },
            Write::Check { .. } => Request::Check { path, version },
        }
    }

    /// The same inside a multi, which knows no `setACL`: a check stands in for it.
    pub fn operation(&self) -> MultiOp<'_> {
        let (path, version) = (self.path.as_str(), self.version);
        match self.write {
            Write::Create { .. } => {
                let (op, create) = self.creation();
                MultiOp::Create { op, create }
            }
            Write::Delete { .. } => MultiOp::Delete { path, version },
            Write::SetData { data, .. } => MultiOp::SetData { path, data: data.as_deref(), version },
            Write::SetAcl { .. } | Write::Check { .. } => MultiOp::Check { path, version },
        }
    }

    fn creation(&self) -> (OpCode, Create<'_>) {
        let Write::Create { mode, data, acl: number, .. } = self.write else {
            panic!("not a creation: {self:?}")
        };
        let (op, flags, ttl) = MODES[*mode];
        (op, Create { path: &self.path, data: data.as_deref(), acl: acl(*number), flags, ttl })
    }
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![
        5 => (0..PATHS.len()).prop_map(Pick::Known),
        1 => (0..PATHS.len() + ODD_PATHS.len()).prop_map(Pick::Known),
        4 => (0..100usize).prop_map(Pick::Existing),
        2 => ((0..100usize), (0..NAMES.len())).prop_map(|(number, name)| Pick::Below(number, name)),
    ]
}

fn version() -> impl Strategy<Value = Version> {
    prop_oneof![3 => Just(Version::Any), 3 => Just(Version::Current), 1 => Just(Version::Off)]
}

fn data() -> impl Strategy<Value = Option<Vec<u8>>> {
    option::weighted(0.9, vec(any::<u8>(), 0..4))
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        6 => (0..MODES.len(), pick(), data(), 0..8usize)
            .prop_map(|(mode, path, data, acl)| Write::Create { mode, path, data, acl }),
        3 => (pick(), version()).prop_map(|(path, version)| Write::Delete { path, version }),
        3 => (pick(), data(), version())
            .prop_map(|(path, data, version)| Write::SetData { path, data, version }),
        1 => (pick(), 0..8usize, version())
            .prop_map(|(path, acl, version)| Write::SetAcl { path, acl, version }),
        1 => (pick(), version()).prop_map(|(path, version)| Write::Check { path, version }),
    ]
}

fn who() -> impl Strategy<Value = Who> {
    (0..100usize, 0..3usize).prop_map(|(session, user)| Who { session, user })
}

fn quota() -> impl Strategy<Value = Quota> {
    (0..QUOTA_PATHS.len(), -1..6i64, -1..12i64).prop_map(|(path, count, bytes)| Quota { path, count, bytes })
}

/// One step.
pub fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (who(), write()).prop_map(|(who, write)| Step::Write(who, write)),
        6 => (who(), vec(write(), 0..5)).prop_map(|(who, ops)| Step::Multi(who, ops)),
        1 => Just(Step::Open),
        1 => (0..100usize).prop_map(Step::Close),
        1 => (0..100usize).prop_map(Step::Expire),
        2 => (0..40i64).prop_map(Step::Sweep),
        1 => pick().prop_map(Step::SweepOne),
        3 => (who(), quota()).prop_map(|(who, quota)| Step::Quota(who, quota)),
        8 => (0..6usize).prop_map(Step::Durable),
    ]
}

/// A script of up to `steps_max` steps.
pub fn script(steps_max: usize) -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 0..steps_max)
}
