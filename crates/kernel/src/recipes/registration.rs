//! An ephemeral znode that exists until we leave: created again in every new ZooKeeper session, and when somebody
//! removes it. Membership, party and presence differ only in its name.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{debug, info};

use crate::error::CallError;
use crate::retry;
use crate::session::{Session, Term};
use crate::unique;

/// The name of the znode.
#[derive(Debug, Clone)]
pub(super) enum Naming {
    /// `<prefix><number>`; others use the prefix too, so the data must be unique.
    Numbered { prefix: String },
    /// `<uuid><suffix>`.
    Unique { suffix: &'static str },
    /// Exactly this. If another session has it, we wait until that session ends.
    Fixed { name: String },
}

/// The wanted state. Each change has a number, so that its caller can wait for it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    data: Vec<u8>,
    change: u64,
    leaving: bool,
}

/// The stored state, as far as we know.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Stored {
    /// `None` while there is no znode.
    path: Option<String>,
    /// The last change that is stored.
    change: u64,
    /// Why nothing more will be stored.
    failure: Option<CallError>,
}

/// A registration. Dropping it deletes the znode in the background.
#[derive(Debug)]
pub(super) struct Registration {
    wanted: watch::Sender<Wanted>,
    stored: watch::Receiver<Stored>,
    keeper: JoinHandle<()>,
}

impl Registration {
    /// Registers, and waits until the znode exists.
    pub async fn begin(
        session: &Session,
        dir: &str,
        naming: Naming,
        data: Vec<u8>,
    ) -> Result<Self, CallError> {
        let (wanted, wanted_seen) = watch::channel(Wanted { data, change: 1, leaving: false });
        let (stored, stored_seen) = watch::channel(Stored::default());
        let mut keeping = Keeping {
            session: session.clone(),
            dir: dir.to_owned(),
            naming: Arc::new(naming),
            wanted: wanted_seen,
            stored,
            old: None,
        };
        let keeper = tokio::spawn(async move { keeping.run().await });
        let registration = Self { wanted, stored: stored_seen, keeper };
        registration.reach(1).await?;
        Ok(registration)
    }

    /// The znode's path; `None` between two sessions.
    pub fn path(&self) -> Option<String> {
        self.stored.borrow().path.clone()
    }

    /// Changes the data. It will be stored in this session or a later one; wait for it with [`reach`](Self::reach).
    pub fn want(&self, data: Vec<u8>) -> u64 {
        let mut change = 0;
        self.wanted.send_modify(|wanted| {
            wanted.data = data;
            wanted.change += 1;
            change = wanted.change;
        });
        change
    }

    /// Deletes the znode, and waits until it is gone. Between two sessions it returns at once: the znode ends with its
    /// session.
    pub async fn leave(mut self) -> Result<(), CallError> {
        self.wanted.send_modify(|wanted| wanted.leaving = true);
        // Nobody else aborts the loop, and a panic would have been printed.
        let _ = (&mut self.keeper).await;
        self.stored.borrow().failure.clone().map_or(Ok(()), Err)
    }

    /// Waits until this change, or a later one, is stored.
    pub async fn reach(&self, change: u64) -> Result<(), CallError> {
        let mut stored = self.stored.clone();
        let reached = stored.wait_for(|stored| stored.change >= change || stored.failure.is_some()).await;
        match reached.as_deref() {
            Ok(Stored { failure: Some(failure), .. }) => Err(failure.clone()),
            Ok(_) => Ok(()),
            Err(_) => Err(CallError::Closed),
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Dropping the loop drops its [`OwnZnode`], which deletes the znode.
        self.keeper.abort();
    }
}

/// The loop that keeps the znode.
struct Keeping {
    session: Session,
    dir: String,
    naming: Arc<Naming>,
    wanted: watch::Receiver<Wanted>,
    stored: watch::Sender<Stored>,
    /// The znode's path in the previous session, and that session's id.
    old: Option<(String, i64)>,
}

impl Keeping {
    async fn run(&mut self) {
        let mut term = self.session.term();
        loop {
            let ended = self.keep_in(&term.patient()).await;
            if let Some(path) = self.stored.borrow().path.clone() {
                self.old = Some((path, term.session_id()));
            }
            self.stored.send_modify(|stored| stored.path = None);
            let mut leaving = self.wanted.clone();
            let failure = match ended {
                Ok(()) => return,
                Err(error) if error.ends_term() => tokio::select! {
                    next = self.session.term_after(&term) => match next {
                        Ok(next) => {
                            info!(path = self.dir, term = next.number(), "registering again in a new session");
                            term = next;
                            continue;
                        }
                        Err(error) => error,
                    },
                    // The znode ends with its session. There may never be another session in which to check.
                    _ = leaving.wait_for(|wanted| wanted.leaving) => return,
                },
                Err(error) => error,
            };
            if self.wanted.borrow().leaving && failure == CallError::Closed {
                return;
            }
            self.stored.send_modify(|stored| stored.failure = Some(failure));
            return;
        }
    }

    /// Keeps the znode during one ZooKeeper session. `Ok` when we leave.
    async fn keep_in(&mut self, term: &Term) -> Result<(), CallError> {
        // We may know before the server that our session is over, and would be listed twice until then.
        if let Some((old, session_id)) = &self.old {
            term.sync(&self.dir).await?;
            // A fixed name may belong to somebody else by now.
            match term.stat(old).await? {
                Some(stat) if stat.ephemeral_owner == *session_id => {
                    retry::remove_created(term, old, stat.czxid).await?;
                }
                Some(_) | None => {}
            }
            self.old = None;
        }
        loop {
            let wanted = self.wanted.borrow_and_update().clone();
            if wanted.leaving {
                return Ok(());
            }
            let mut znode = OwnZnode::new(term, &self.dir, &self.naming, &wanted.data);
            let mut leaving = self.wanted.clone();
            tokio::select! {
                created = znode.create() => created?,
                _ = leaving.wait_for(|wanted| wanted.leaving) => return Ok(()),
            }
            debug!(path = znode.path, "registered");
            if self.follow(term, &mut znode, wanted).await? == Followed::Leaving {
                return znode.delete().await;
            }
            info!(path = znode.path, "registration was removed; registering again");
        }
    }

    /// Keeps the data up to date, until the znode is gone or we leave.
    async fn follow(
        &mut self,
        term: &Term,
        znode: &mut OwnZnode,
        mut wanted: Wanted,
    ) -> Result<Followed, CallError> {
        loop {
            let (data, watch) = match term.get_watched(&znode.path).await {
                Ok((data, stat, watch)) if stat.ephemeral_owner == term.session_id() => (data, watch),
                Ok(_) | Err(CallError::NoZnode { .. }) => {
                    znode.over = true;
                    return Ok(Followed::Removed);
                }
                Err(error) => return Err(error),
            };
            if data == wanted.data {
                let (path, change) = (Some(znode.path.clone()), wanted.change);
                self.stored.send_replace(Stored { path, change, failure: None });
                tokio::select! {
                    _ = watch.changed() => continue,
                    changed = self.wanted.changed() => if changed.is_err() { return Ok(Followed::Leaving) },
                }
            } else {
                match term.set(&znode.path, &wanted.data, None).await {
                    // Only we write it, so the write is idempotent.
                    Ok(_) | Err(CallError::Unknown { .. } | CallError::NoZnode { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            wanted = self.wanted.borrow_and_update().clone();
            if wanted.leaving {
                return Ok(Followed::Leaving);
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Followed {
    Leaving,
    Removed,
}

/// A znode of ours, which may exist. Dropping it deletes the znode in the background.
struct OwnZnode {
    term: Term,
    dir: String,
    naming: Arc<Naming>,
    /// The data that it was created with, to find it by.
    data: Vec<u8>,
    /// Empty until its creation is confirmed.
    path: String,
    /// The transaction that created it, once known: it tells this znode from a later one with the same name and
    /// session.
    czxid: Option<i64>,
    over: bool,
}

impl OwnZnode {
    fn new(term: &Term, dir: &str, naming: &Arc<Naming>, data: &[u8]) -> Self {
        let path = match &**naming {
            Naming::Numbered { .. } => String::new(),
            Naming::Unique { suffix } => format!("{dir}/{}{suffix}", unique::hex()),
            Naming::Fixed { name } => format!("{dir}/{name}"),
        };
        let (term, naming) = (term.clone(), naming.clone());
        Self { term, dir: dir.to_owned(), naming, data: data.to_vec(), path, czxid: None, over: false }
    }

    async fn create(&mut self) -> Result<(), CallError> {
        loop {
            let Self { term, dir, data, path, .. } = &*self;
            let created = match &*self.naming {
                Naming::Numbered { prefix } => retry::create_marked(term, dir, prefix, data).await,
                Naming::Unique { .. } | Naming::Fixed { .. } => retry::create(term, path, data).await,
            };
            match created {
                Err(CallError::Exists { .. }) if !path.is_empty() => wait_for_name(term, path).await?,
                Err(CallError::NoZnode { .. }) => retry::ensure(term, dir, b"").await?,
                Err(error) => return Err(error),
                Ok(created) => {
                    (self.path, self.czxid) = (created.path, Some(created.stat.czxid));
                    return Ok(());
                }
            }
        }
    }

    async fn delete(mut self) -> Result<(), CallError> {
        match retry::delete(&self.term, &self.path).await {
            Ok(()) | Err(CallError::Expired) => {}
            Err(error) => return Err(error),
        }
        self.over = true;
        Ok(())
    }
}

impl Drop for OwnZnode {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let (term, dir, czxid) = (self.term.clone(), std::mem::take(&mut self.dir), self.czxid);
        let (path, data, naming) =
            (std::mem::take(&mut self.path), std::mem::take(&mut self.data), self.naming.clone());
        self.term.in_background(async move {
            // Fails only if the session is over, and then the znode is gone.
            let _ = match &*naming {
                Naming::Numbered { prefix } if path.is_empty() => {
                    retry::withdraw_marked(&term, &dir, prefix, &data).await
                }
                Naming::Numbered { .. } | Naming::Unique { .. } | Naming::Fixed { .. } => {
                    async {
                        // Its creation may still be in flight, and a fixed name may belong to somebody else.
                        term.sync("/").await?;
                        match term.stat(&path).await? {
                            Some(stat)
                                if stat.ephemeral_owner == term.session_id()
                                    && czxid.is_none_or(|czxid| czxid == stat.czxid) =>
                            {
                                retry::remove_created(&term, &path, stat.czxid).await.map(drop)
                            }
                            Some(_) | None => Ok(()),
                        }
                    }
                    .await
                }
            };
        });
    }
}

/// Waits until no other session has this name: a namesake that is gone has it until its session ends.
async fn wait_for_name(term: &Term, path: &str) -> Result<(), CallError> {
    let (stat, watch) = term.stat_watched(path).await?;
    if let Some(stat) = stat {
        info!(path, session = stat.ephemeral_owner, "another session has our name; waiting for its end");
        watch.changed().await;
    }
    Ok(())
}
