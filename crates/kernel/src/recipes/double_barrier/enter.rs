//! Going in. What is decided on the way stands in `decide`.

use menagerie_znodes::{Kind, Raw, Znode};

use super::decide::{Entering, Opening, Sight, entering, let_in, let_in_before};
use super::{DoubleBarrier, DoubleBarrierError, Inside, Presence, READY};
use crate::Fence;
use crate::error::CallError;
use crate::recipes::grant::Grant;
use crate::retry;
use crate::session::{Change, Stat, Term, Watch};
use crate::transaction::{Transaction, TransactionError};
use crate::unique;

/// What a look shows, and what tells that it has changed.
struct Look {
    sight: Sight,
    /// Where the participants are that were counted.
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

/// A participant of ours, in the session before or in this one.
struct Been {
    path: String,
    /// The last opening before it came.
    opened: Option<Opening>,
    /// `None` until it is known to have come.
    me: Option<Fence>,
}

impl DoubleBarrier {
    /// Waits until all are there, through lost connections and lost ZooKeeper sessions. Dropping the future gives up, and
    /// leaves nothing behind.
    pub async fn enter(&self) -> Result<Inside, DoubleBarrierError> {
        let mut been: Option<Been> = None;
        let mut terms = self.session.term_by_term();
        loop {
            let entered = self.enter_in(&terms.term().patient(), &mut been).await;
            if let Some(entered) = terms.finished(entered).await {
                return entered;
            }
        }
    }

    /// `been`: as whom we have been there in the session before.
    async fn enter_in(&self, term: &Term, been: &mut Option<Been>) -> Result<Inside, DoubleBarrierError> {
        if let Some(before) = been.take() {
            self.give_up(term, &before).await.inspect_err(|_| *been = Some(before))?;
        }
        loop {
            let name = unique::hex();
            // Before anything is created: dropped from here on, nothing is left behind.
            let presence = Presence { term: term.clone(), path: self.path_of(&name), name, over: false };
            let opened = self.opened(term).await.map_err(|error| self.failed(error))?;
            // Also before: its reply may be lost, and the session with it.
            let now = been.insert(Been { path: presence.path.clone(), opened, me: None });
            let me = self.come(&presence).await.map_err(|error| self.failed(error))?;
            now.me = Some(me);
            if self.wait(&presence, me).await.map_err(|error| self.failed(error))? {
                let grant = Grant::new(term.clone(), presence.path.clone(), me);
                return Ok(Inside { grant, presence, barrier: self.clone() });
            }
        }
    }

    /// Makes sure that who we were in the session before is not there, and that the others have not gone in with it.
    async fn give_up(&self, term: &Term, before: &Been) -> Result<(), DoubleBarrierError> {
        let opened = async {
            // We may know before the server that our session is over; until then we would be counted twice. From here on
            // nobody opens it with us.
            retry::delete(term, &before.path).await?;
            self.opened(term).await
        };
        let now = opened.await.map_err(|error| self.failed(error))?;
        if let_in(before.me, before.opened, now) {
            return Err(DoubleBarrierError::Lost { path: self.dir.clone() });
        }
        Ok(())
    }

    /// The last opening.
    async fn opened(&self, term: &Term) -> Result<Option<Opening>, CallError> {
        term.sync(&self.dir).await?;
        match term.get(&self.dir).await {
            Ok((data, _)) => Ok(Opening::parse(&data)),
            Err(CallError::NoZnode { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn come(&self, presence: &Presence) -> Result<Fence, CallError> {
        let term = &presence.term;
        loop {
            match retry::create(term, &presence.path, self.identifier.as_bytes()).await {
                Err(CallError::NoZnode { .. }) => retry::ensure(term, &self.dir, b"").await?,
                created => return Ok(term.fence(created?.stat.czxid)),
            }
        }
    }

    /// Waits until we are in. `false`: somebody has removed us, and we must come again.
    async fn wait(&self, presence: &Presence, me: Fence) -> Result<bool, CallError> {
        let term = &presence.term;
        loop {
            let look = match self.look(term, &presence.name).await {
                Err(CallError::NoZnode { .. }) => return Ok(false),
                look => look?,
            };
            match entering(me, &look.sight, self.participants) {
                Entering::In => return Ok(true),
                _ if !look.present => return Ok(false),
                Entering::Open => {
                    let after = let_in_before(me, look.sight.opened);
                    let opening = Opening { after, up_to: Fence { zxid: look.newest, ..me } };
                    self.open(presence, &look, opening).await?;
                }
                Entering::TidyUp => drop(retry::remove(term, &self.path_of(READY)).await?),
                Entering::Wait => tokio::select! {
                    // It may be gone again before we can look: then the event is all that there is.
                    change = look.ready.changed() => if change == Change::Created { return Ok(true) },
                    _ = look.opened.changed() => {}
                },
                Entering::WaitForElders => {
                    let (_, _, children) = term.children_watched(&self.dir).await?;
                    tokio::select! {
                        _ = look.ready.changed() => {}
                        _ = children.changed() => {}
                    }
                }
            }
        }
    }

    /// Looks at everything, having asked to be told of changes before.
    async fn look(&self, term: &Term, me: &str) -> Result<Look, CallError> {
        let (ready_stat, ready) = term.stat_watched(&self.path_of(READY)).await?;
        let (data, Stat { version, .. }, watch) = term.get_watched(&self.dir).await?;
        let (names, stat) = term.children_and_stat(&self.dir).await?;
        let names: Vec<String> = names.into_iter().filter(|name| name != READY).collect();
        let paths: Vec<String> = names.iter().map(|name| self.path_of(name)).collect();
        let found = term.get_many(&paths).await?;
        let there = paths.into_iter().zip(found);
        let (counted, present) =
            there.filter_map(|(path, found)| found.map(|(_, stat)| (path, stat.czxid))).unzip();
        let sight =
            Sight { present, ready: ready_stat.map(|stat| stat.czxid), opened: Opening::parse(&data) };
        let present = names.iter().any(|name| name == me);
        Ok(Look { sight, counted, newest: stat.pzxid, version, ready, opened: watch, present })
    }

    /// Opens the barrier for all that were counted, if all of them are still there, and writes down for whom. If it does not
    /// succeed, another look tells why.
    async fn open(&self, presence: &Presence, look: &Look, opening: Opening) -> Result<(), CallError> {
        let ready: Znode<Raw> = Znode::foreign(self.path_of(READY), Kind::Persistent);
        let dir: Znode<Raw> = Znode::foreign(self.dir.as_str(), Kind::Persistent);
        let participants =
            look.counted.iter().map(|path| Znode::<Raw>::foreign(path.as_str(), Kind::Ephemeral));
        let opening = participants
            .fold(Transaction::fenced(&presence.term, &presence.path), |opening, participant| {
                opening.check(&participant, None)
            })
            .create(&ready, &Raw::default())
            .set(&dir, &Raw(opening.to_string().into_bytes()), Some(look.version));
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
