//! A log of holders in ZooKeeper itself: who held when, ordered by transactions, which no client can get wrong.

use menagerie_kernel::recipes::contest::Mode;
use menagerie_kernel::recipes::grant::Grant;
use menagerie_kernel::{CallError, Session, TransactionError, retry};
use menagerie_znodes::{Kind, Raw, Znode};

/// The log of one lock.
#[derive(Debug, Clone)]
pub struct Log(String);

/// A holder in the log: the zxid of its ticket, which is unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    pub zxid: i64,
    pub mode: Mode,
}

/// A log's summary where several may hold at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crowd {
    pub holders: usize,
    pub at_once: usize,
}

impl Log {
    /// An empty log.
    pub async fn new(session: &Session, path: &str) -> Self {
        retry::ensure(&session.term(), path, b"").await.unwrap();
        Self(path.to_owned())
    }

    /// Logs that a holder enters and leaves. `false`: it was lost meanwhile.
    pub async fn stay(&self, grant: &Grant, mode: Mode) -> bool {
        self.note(grant, mode, "enters").await && self.note(grant, mode, "leaves").await
    }

    /// Writes an entry as a holder writes, fenced.
    async fn note(&self, grant: &Grant, mode: Mode, what: &str) -> bool {
        let path = format!("{}/{}-{mode:?}-{what}", self.0, grant.fence().zxid);
        let entry: Znode<Raw> = Znode::foreign(path, Kind::Persistent);
        loop {
            match grant.transaction().create(&entry, &Raw::default()).commit().await {
                Ok(_) => return true,
                // Only we write this name: it happened, and the reply was lost.
                Err(TransactionError::Part { source: CallError::Exists { .. }, .. }) => return true,
                Err(TransactionError::Call(CallError::Unknown { .. } | CallError::Suspended)) => {}
                Err(TransactionError::Lost { .. } | TransactionError::Call(CallError::Expired)) => {
                    return false;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    /// All holders in the order in which they came.
    ///
    /// # Panics
    /// If two held at the same time that exclude each other, or somebody overtook.
    pub async fn check(&self, session: &Session) -> Vec<Holder> {
        let (mut inside, mut dead, mut all) = (Vec::<Holder>::new(), Vec::new(), Vec::<Holder>::new());
        for (holder, enters) in self.entries(session).await {
            assert!(!dead.contains(&holder), "{holder:?} was still there when somebody else held");
            if !enters {
                inside.retain(|other| *other != holder);
                continue;
            }
            // A holder that lost its ticket cannot log that it left. If it had not lost it, its entry shows that.
            dead.extend(inside.extract_if(.., |other| other.mode.excludes(holder.mode)));
            let overtakes = |other: &Holder| other.mode.excludes(holder.mode) && other.zxid > holder.zxid;
            assert!(!all.iter().any(overtakes), "{holder:?} came after {all:?}");
            inside.push(holder);
            all.push(holder);
        }
        all
    }

    /// How many have held, and how many of them at once, at most. A holder that lost its ticket cannot log that it
    /// left: it counts only for the moment when it entered.
    pub async fn count(&self, session: &Session) -> Crowd {
        let entries = self.entries(session).await;
        let mut inside: Vec<Holder> = Vec::new();
        let mut crowd = Crowd { holders: 0, at_once: 0 };
        for (holder, enters) in &entries {
            if !enters {
                inside.retain(|other| other != holder);
                continue;
            }
            crowd.holders += 1;
            crowd.at_once = crowd.at_once.max(inside.len() + 1);
            if entries.contains(&(*holder, false)) {
                inside.push(*holder);
            }
        }
        crowd
    }

    /// Who came and who went, in order.
    async fn entries(&self, session: &Session) -> Vec<(Holder, bool)> {
        let term = session.term();
        term.sync("/").await.unwrap();
        let names = term.children(&self.0).await.unwrap();
        let paths: Vec<String> = names.iter().map(|name| format!("{}/{name}", self.0)).collect();
        let read = term.get_many(&paths).await.unwrap().into_iter().map(|entry| entry.unwrap().1);
        let mut entries: Vec<_> =
            names.iter().zip(read).map(|(name, stat)| (stat.czxid, parse(name))).collect();
        entries.sort_unstable_by_key(|(when, _)| *when);
        entries.into_iter().map(|(_, entry)| entry).collect()
    }
}

fn parse(name: &str) -> (Holder, bool) {
    let parts: Vec<&str> = name.split('-').collect();
    let mode = if parts[1] == "Shared" { Mode::Shared } else { Mode::Exclusive };
    (Holder { zxid: parts[0].parse().unwrap(), mode }, parts[2] == "enters")
}
