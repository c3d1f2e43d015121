//! What a server answered, normalised so that two servers can be compared: no session ids, no times, transactions
//! counted from the script's start.

use std::collections::HashMap;
use std::fmt::Write as _;

use menagerie_testkit::Reply;
use menagerie_wire::{Acl, Decode, Id, MultiResult, OpCode, Reader, Response, Stat};

use super::known;

/// What one step led to, line by line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome(pub Vec<String>);

/// All that one script led to.
pub type Transcript = Vec<Outcome>;

/// The first step whose outcomes differ.
pub fn first_difference(a: &Transcript, b: &Transcript) -> Option<usize> {
    assert_eq!(a.len(), b.len(), "two transcripts of one script have its length");
    a.iter().zip(b).position(|(a, b)| a != b)
}

/// What is hidden, because no two runs have it in common.
#[derive(Debug, Default)]
pub struct Masks {
    /// The last transaction before the script.
    pub base_zxid: i64,
    /// Names of sessions.
    names: HashMap<i64, String>,
}

impl Masks {
    /// Names a session, in the order in which they come.
    pub fn name(&mut self, session: i64) -> String {
        let next = format!("S{}", self.names.len());
        self.names.entry(session).or_insert(next).clone()
    }

    pub fn zxid(&self, zxid: i64) -> String {
        match zxid - self.base_zxid {
            since @ 0.. => format!("+{since}"),
            _ if matches!(zxid, -1 | 0) => zxid.to_string(),
            _ => "old".to_owned(),
        }
    }

    fn owner(&self, session: i64) -> &str {
        if session == 0 { "nobody" } else { self.names.get(&session).map_or("stranger", String::as_str) }
    }

    fn stat(&self, stat: &Stat) -> String {
        let time = |ms| if ms == 0 { "never" } else { "T" };
        format!(
            "[c={} m={} p={} ctime={} mtime={} v={} cv={} av={} owner={} len={} children={}]",
            self.zxid(stat.czxid),
            self.zxid(stat.mzxid),
            self.zxid(stat.pzxid),
            time(stat.ctime),
            time(stat.mtime),
            stat.version,
            stat.cversion,
            stat.aversion,
            self.owner(stat.ephemeral_owner),
            stat.data_length,
            stat.num_children,
        )
    }

    /// The reply to operation `op`.
    pub fn reply(&self, op: i32, reply: &Reply) -> String {
        let header = &reply.header;
        let mut line = format!("reply xid={} zxid={} {}", header.xid, self.zxid(header.zxid), header.err);
        let body =
            if header.err.0 == 0 { &reply.body[..] } else { known::body_behind_error(op, &reply.body) };
        if header.err.0 == 0
            && let Some(text) = OpCode::from_code(op).and_then(|op| self.body(op, body))
        {
            let _ = write!(line, " {text}");
        } else if !body.is_empty() {
            let _ = write!(line, " body {body:02x?}");
        }
        line
    }

    /// The body of a successful reply, if it is exactly that.
    fn body(&self, op: OpCode, body: &[u8]) -> Option<String> {
        let mut r = Reader::new(body);
        let response = Response::decode(op, &mut r).ok()?;
        r.rest().is_empty().then(|| self.response(&response))
    }

    fn response(&self, response: &Response<'_>) -> String {
        match response {
            Response::Empty => String::new(),
            Response::Path(path) => format!("{path:?}"),
            Response::Created2 { path, stat } => format!("{path:?} {}", self.stat(stat)),
            Response::Stat(stat) => self.stat(stat),
            Response::Data { data, stat } => format!("{} {}", text(*data), self.stat(stat)),
            Response::Acl { acl, stat } => format!("{:?} {}", sorted(acl.iter().map(entry)), self.stat(stat)),
            Response::Names(names) => format!("{:?}", sorted(names.iter())),
            Response::Children2 { names, stat } => format!("{:?} {}", sorted(names.iter()), self.stat(stat)),
            Response::Multi(results) => {
                format!("{:#?}", results.iter().map(|r| self.result(r)).collect::<Vec<_>>())
            }
            Response::Number(number) => number.to_string(),
            Response::Code(code) => format!("code {code}"),
            Response::Identities(ids) => format!("{:?}", sorted(ids.iter().map(identity))),
        }
    }

    fn result(&self, result: &MultiResult<'_>) -> String {
        match result {
            MultiResult::Created { path } => format!("created {path:?}"),
            MultiResult::Created2 { path, stat } => format!("created2 {path:?} {}", self.stat(stat)),
            MultiResult::Deleted => "deleted".to_owned(),
            MultiResult::DataSet(stat) => format!("set {}", self.stat(stat)),
            MultiResult::Checked => "checked".to_owned(),
            MultiResult::Data { data, stat } => format!("data {} {}", text(*data), self.stat(stat)),
            MultiResult::Children(names) => format!("children {:?}", sorted(names.iter())),
            MultiResult::Error(code) => format!("error {code}"),
        }
    }
}

fn sorted<T: Ord>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.collect();
    items.sort();
    items
}

fn identity(id: &Id) -> String {
    format!("{}:{}", id.scheme, id.id)
}

fn entry(acl: &Acl) -> String {
    format!("{} {}", acl.perms.0, identity(&acl.id))
}

fn text(data: Option<&[u8]>) -> String {
    data.map_or("null".to_owned(), |data| format!("{:?}", String::from_utf8_lossy(data)))
}

#[test]
fn changed_outcomes_are_found() {
    let outcome = |lines: &[&str]| Outcome(lines.iter().map(|line| (*line).to_owned()).collect());
    let story = vec![outcome(&["reply Ok"]), outcome(&["reply NoNode", "S1 sees Created /a"]), outcome(&[])];
    assert_eq!(first_difference(&story, &story.clone()), None);
    let mut forged = story.clone();
    forged[1].0.pop();
    assert_eq!(first_difference(&story, &forged), Some(1));
}

#[test]
fn sessions_times_and_transactions_are_masked_and_nothing_else() {
    let mut masks = Masks { base_zxid: 1000, ..Masks::default() };
    masks.name(0xabc);
    let stat = Stat {
        czxid: 1001,
        mzxid: 1003,
        pzxid: 12,
        ctime: 5,
        ephemeral_owner: 0xabc,
        version: 1,
        ..Stat::default()
    };
    let mut bytes = Vec::new();
    stat.encode(&mut bytes);
    let stat = Stat::decode(&mut Reader::new(&bytes)).unwrap();
    assert_eq!(
        masks.stat(&stat),
        "[c=+1 m=+3 p=old ctime=T mtime=never v=1 cv=0 av=0 owner=S0 len=0 children=0]"
    );
}
