//! Registers a journal and keeps it registered: reads ZooKeeper, lets `claim.rs` decide, and acts.

use std::time::Duration;

use menagerie_journal::StoreError;
use menagerie_kernel::session::{Change, Watch};
use menagerie_kernel::{CallError, Session, Term, retry, whole};
use menagerie_znodes::Payload as _;
use menagerie_znodes::journals::{self, Folder, Server};
use tokio::sync::watch;
use tracing::warn;

use super::claim::{Step, step};
use super::folders::{claim_folder, is_alive, namesake, read_folder};
use super::refusal::Refusal;
use super::{RETRY_PAUSE, Registrant, Standing};

/// How often to check whether a server that does not answer is still registered.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A journal that is registering or registered.
pub(super) struct Claimant<'a> {
    pub(super) journal: &'a Registrant,
    pub(super) standing: &'a watch::Sender<Standing>,
    /// It has, or had, folder and name. From then on it does not wait for others that take the name while it is
    /// disconnected.
    pub(super) is_settled: bool,
    /// Whether it has logged whom it waits for.
    pub(super) has_warned: bool,
}

/// What to do after a read of ZooKeeper.
enum Turn {
    /// We are registered; wait for one of these to change.
    Registered([Watch; 2]),
    /// Something has changed: read again.
    Again,
    /// Wait until this server is gone.
    Wait(Server),
    Refused(Refusal),
}

/// Why an attempt to register failed.
#[derive(Debug, thiserror::Error)]
enum AttemptError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Claimant<'_> {
    /// Runs until the journal must not serve, or the session is closed.
    pub(super) async fn run(&mut self, session: &Session) -> Option<Refusal> {
        let mut terms = session.term_by_term();
        loop {
            let refused = self.run_in(&terms.term().patient()).await;
            if let Some(refused) = terms.finished(refused).await {
                return refused.ok();
            }
        }
    }

    /// Runs until the term is over.
    async fn run_in(&mut self, term: &Term) -> Result<Refusal, CallError> {
        loop {
            match self.turn(term).await {
                Ok(Turn::Registered(watches)) => {
                    self.is_settled = true;
                    self.standing.send_replace(Standing::Registered);
                    let [folder, servers] = watches.map(Watch::changed);
                    let ended = tokio::select! { change = folder => change, change = servers => change };
                    if ended == Change::Ended {
                        return Err(CallError::Expired);
                    }
                }
                Ok(Turn::Again) => {}
                Ok(Turn::Wait(other)) => {
                    self.wait_for(&other);
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                Ok(Turn::Refused(refusal)) => return Ok(refusal),
                Err(AttemptError::Call(error)) if error.ends_term() => return Err(error),
                Err(error) => {
                    warn!(error = %whole(&error), "cannot register the journal; trying again");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    fn wait_for(&mut self, other: &Server) {
        self.standing.send_if_modified(|standing| match standing {
            Standing::Undecided => {
                *standing = Standing::Waiting;
                true
            }
            Standing::Waiting | Standing::Registered => false,
        });
        if !std::mem::replace(&mut self.has_warned, true) {
            let Server { name, address, host, .. } = other;
            warn!(
                name,
                address,
                host,
                "a journal of our name or folder is registered and does not answer; waiting for its end"
            );
        }
    }

    async fn turn(&self, term: &Term) -> Result<Turn, AttemptError> {
        let Registrant { folder, ours, store } = self.journal;
        let (seen, version, watches) = read_folder(term, folder, ours).await?;
        let copied = |one: &Server, other: &Server| {
            Turn::Refused(Refusal::copied(folder, one.clone(), other.clone(), self.journal.data()))
        };
        match step(&seen, ours) {
            Step::Serving if self.is_settled => Ok(Turn::Registered(watches)),
            Step::Serving => match namesake(term, folder, ours).await? {
                None => Ok(Turn::Registered(watches)),
                // Of two that registered at the same time, the later one yields.
                Some(other) => {
                    retry::delete(term, journals::server(folder, &ours.server.start).path()).await?;
                    Ok(ask_namesake(other).await)
                }
            },
            Step::Take { dead } => {
                if !self.is_settled
                    && let Some(other) = namesake(term, folder, ours).await?
                {
                    return Ok(ask_namesake(other).await);
                }
                store.note_start()?;
                claim_folder(term, folder, version, &seen, &dead, ours).await?;
                Ok(Turn::Again)
            }
            Step::Ask(other) if !is_alive(other).await => Ok(Turn::Wait(other.clone())),
            Step::Ask(other) | Step::Contest(other) => {
                let contest = Folder { last: Some(other.clone()), contested_by: Some(ours.server.clone()) };
                match retry::set(term, journals::folder(folder).path(), &contest.encode(), version).await {
                    Ok(_) => Ok(copied(other, &ours.server)),
                    Err(CallError::BadVersion { .. } | CallError::Unknown { .. }) => Ok(Turn::Again),
                    Err(error) => Err(error.into()),
                }
            }
            Step::Contested(one, other) => Ok(copied(one, other)),
        }
    }
}

async fn ask_namesake(other: Server) -> Turn {
    match is_alive(&other).await {
        true => Turn::Refused(Refusal::Taken(other)),
        false => Turn::Wait(other),
    }
}
