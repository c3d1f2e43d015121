//! Entering. `decide` makes the decisions.

use menagerie_znodes::{Kind, Raw, Znode};

use super::decide::{Entering, Opening, Snapshot, entering, let_in, let_in_before};
use super::{DoubleBarrier, DoubleBarrierError, Inside, Presence, READY};
use crate::Fence;
use crate::error::CallError;
use crate::recipes::grant::Grant;
use crate::retry;
use crate::session::{Change, Stat, Term, Watch};
use crate::transaction::{Transaction, TransactionError};
use crate::unique;

/// A snapshot, and watches for its changes.
struct WatchedSnapshot {
    snapshot: Snapshot,
    /// Paths of the participants that were counted.
    counted: Vec<String>,
    /// The newest change among the participants that were counted.
    newest: i64,
    /// The version of what the directory says.
    version: i32,
    ready: Watch,
    opened: Watch,
    /// Whether our own znode is there.
    present: bool,
}

/// Our participant in this ZooKeeper session, or in the previous one.
struct Participation {
    path: String,
    /// The last opening before it was created.
    opened: Option<Opening>,
    /// `None` until its creation is confirmed.
    me: Option<Fence>,
}

impl DoubleBarrier {
    /// Waits until all participants are there, through lost connections and lost ZooKeeper sessions. Dropping the
    /// future gives up, and leaves nothing behind.
    pub async fn enter(&self) -> Result<Inside, DoubleBarrierError> {
        let mut last: Option<Participation> = None;
        let mut terms = self.session.term_by_term();
        loop {
            let entered = self.enter_in(&terms.term().patient(), &mut last).await;
            if let Some(entered) = terms.finished(entered).await {
                return entered;
            }
        }
    }

    /// `last`: our participant in the previous session.
    async fn enter_in(
        &self,
        term: &Term,
        last: &mut Option<Participation>,
    ) -> Result<Inside, DoubleBarrierError> {
        if let Some(before) = last.take() {
            self.give_up(term, &before).await.inspect_err(|_| *last = Some(before))?;
        }
        loop {
            let name = unique::hex();
            // Before anything is created, so that dropping the future leaves nothing behind.
            let presence = Presence { term: term.clone(), path: self.path_of(&name), name, over: false };
            let opened = self.read_opening(term).await.map_err(|error| self.call_error(error))?;
            // Also before: the reply to the creation may be lost, and the session with it.
            let now = last.insert(Participation { path: presence.path.clone(), opened, me: None });
            let me = self.join(&presence).await.map_err(|error| self.call_error(error))?;
            now.me = Some(me);
            if self.wait(&presence, me).await.map_err(|error| self.call_error(error))? {
                let grant = Grant::new(term.clone(), presence.path.clone(), me);
                return Ok(Inside { grant, presence, barrier: self.clone() });
            }
        }
    }

    /// Makes sure that our participant of the previous session is gone, and that the barrier was not opened with it.
    async fn give_up(&self, term: &Term, before: &Participation) -> Result<(), DoubleBarrierError> {
        let opened = async {
            // We may know before the server that our session is over, and would be counted twice until then. From here
            // on nobody opens the barrier with the old participant.
            retry::delete(term, &before.path).await?;
            self.read_opening(term).await
        };
        let now = opened.await.map_err(|error| self.call_error(error))?;
        if let_in(before.me, before.opened, now) {
            return Err(DoubleBarrierError::Lost { path: self.dir.clone() });
        }
        Ok(())
    }

    /// The last opening.
    async fn read_opening(&self, term: &Term) -> Result<Option<Opening>, CallError> {
        term.sync(&self.dir).await?;
        match term.get(&self.dir).await {
            Ok((data, _)) => Ok(Opening::parse(&data)),
            Err(CallError::NoZnode { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn join(&self, presence: &Presence) -> Result<Fence, CallError> {
        let term = &presence.term;
        loop {
            match retry::create(term, &presence.path, self.identifier.as_bytes()).await {
                Err(CallError::NoZnode { .. }) => retry::ensure(term, &self.dir, b"").await?,
                created => return Ok(term.fence(created?.stat.czxid)),
            }
        }
    }

    /// Waits until we are in. `false`: somebody removed our znode, and we must join again.
    async fn wait(&self, presence: &Presence, me: Fence) -> Result<bool, CallError> {
        let term = &presence.term;
        loop {
            let read = match self.read_watched(term, &presence.name).await {
                Err(CallError::NoZnode { .. }) => return Ok(false),
                read => read?,
            };
            match entering(me, &read.snapshot, self.participants) {
                Entering::In => return Ok(true),
                _ if !read.present => return Ok(false),
                Entering::Open => {
                    let after = let_in_before(me, read.snapshot.opened);
                    let opening = Opening { after, up_to: Fence { zxid: read.newest, ..me } };
                    self.open(presence, &read, opening).await?;
                }
                Entering::TidyUp => drop(retry::remove(term, &self.path_of(READY)).await?),
                Entering::Wait => tokio::select! {
                    // The znode may be gone again before we read it, so the event alone must do.
                    change = read.ready.changed() => if change == Change::Created { return Ok(true) },
                    _ = read.opened.changed() => {}
                },
                Entering::WaitForElders => {
                    let (_, _, children) = term.children_watched(&self.dir).await?;
                    tokio::select! {
                        _ = read.ready.changed() => {}
                        _ = children.changed() => {}
                    }
                }
            }
        }
    }

    /// Sets the watches, then reads everything.
    async fn read_watched(&self, term: &Term, me: &str) -> Result<WatchedSnapshot, CallError> {
        let (ready_stat, ready) = term.stat_watched(&self.path_of(READY)).await?;
        let (data, Stat { version, .. }, watch) = term.get_watched(&self.dir).await?;
        let (names, stat) = term.children_and_stat(&self.dir).await?;
        let names: Vec<String> = names.into_iter().filter(|name| name != READY).collect();
        let paths: Vec<String> = names.iter().map(|name| self.path_of(name)).collect();
        let found = term.get_many(&paths).await?;
        let there = paths.into_iter().zip(found);
        let (counted, present) =
            there.filter_map(|(path, found)| found.map(|(_, stat)| (path, stat.czxid))).unzip();
        let snapshot =
            Snapshot { present, ready: ready_stat.map(|stat| stat.czxid), opened: Opening::parse(&data) };
        let present = names.iter().any(|name| name == me);
        Ok(WatchedSnapshot { snapshot, counted, newest: stat.pzxid, version, ready, opened: watch, present })
    }

    /// Opens the barrier for all that were counted, if all of them are still there, and records them. If that fails,
    /// the next snapshot shows why.
    async fn open(
        &self,
        presence: &Presence,
        read: &WatchedSnapshot,
        opening: Opening,
    ) -> Result<(), CallError> {
        let ready: Znode<Raw> = Znode::foreign(self.path_of(READY), Kind::Persistent);
        let dir: Znode<Raw> = Znode::foreign(self.dir.as_str(), Kind::Persistent);
        let participants =
            read.counted.iter().map(|path| Znode::<Raw>::foreign(path.as_str(), Kind::Ephemeral));
        let opening = participants
            .fold(Transaction::fenced(&presence.term, &presence.path), |opening, participant| {
                opening.check(&participant, None)
            })
            .create(&ready, &Raw::default())
            .set(&dir, &Raw(opening.to_string().into_bytes()), Some(read.version));
        match opening.commit().await {
            Ok(_)
            | Err(TransactionError::Lost { .. } | TransactionError::Call(CallError::Unknown { .. }))
            | Err(TransactionError::Part {
                source: CallError::Exists { .. } | CallError::NoZnode { .. } | CallError::BadVersion { .. },
                ..
            }) => Ok(()),
            Err(TransactionError::Part { source, .. } | TransactionError::Call(source)) => Err(source),
        }
    }
}
