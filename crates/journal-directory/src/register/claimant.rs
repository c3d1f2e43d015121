//! A journal on its way to its entry, and while it has it: looks, has `claim.rs` decide, and does that.

use std::time::Duration;

use menagerie_journal::StoreError;
use menagerie_kernel::session::{Change, Watch};
use menagerie_kernel::{CallError, Session, Term, retry, whole};
use menagerie_znodes::Payload as _;
use menagerie_znodes::journals::{self, Folder, Server};
use tokio::sync::watch;
use tracing::warn;

use super::claim::{Step, step};
use super::folders::{answers, look, namesake, take};
use super::refusal::Refusal;
use super::{RETRY_PAUSE, Registrant, Standing};

/// Between two looks whether one that does not answer is still registered.
const LOOK: Duration = Duration::from_secs(1);

/// A journal on its way to being registered, or there.
pub(super) struct Claimant<'a> {
    pub(super) journal: &'a Registrant,
    pub(super) standing: &'a watch::Sender<Standing>,
    /// It has the folder and the name, or had them: whoever takes the name while we are away is not waited for any more.
    pub(super) is_settled: bool,
    /// The log says already whom it waits for.
    pub(super) has_warned: bool,
}

/// What came of a look at ZooKeeper.
enum Turn {
    /// We are registered, until one of these changes.
    Held([Watch; 2]),
    /// Something has changed: look again.
    Again,
    /// This one must be gone first.
    Wait(Server),
    Refused(Refusal),
}

/// Why it could not be registered at the first attempt.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Claimant<'_> {
    /// Until it must not serve, or there is no session any more.
    pub(super) async fn run(&mut self, session: &Session) -> Option<Refusal> {
        let mut terms = session.term_by_term();
        loop {
            let refused = self.run_in(&terms.term().patient()).await;
            if let Some(refused) = terms.finished(refused).await {
                return refused.ok();
            }
        }
    }

    /// The same until the term is over.
    async fn run_in(&mut self, term: &Term) -> Result<Refusal, CallError> {
        loop {
            match self.turn(term).await {
                Ok(Turn::Held(watches)) => {
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
                    tokio::time::sleep(LOOK).await;
                }
                Ok(Turn::Refused(refusal)) => return Ok(refusal),
                Err(Trouble::Call(error)) if error.ends_term() => return Err(error),
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

    async fn turn(&self, term: &Term) -> Result<Turn, Trouble> {
        let Registrant { folder, ours, store } = self.journal;
        let (seen, version, watches) = look(term, folder, ours).await?;
        let copied = |one: &Server, other: &Server| {
            Turn::Refused(Refusal::copied(folder, one.clone(), other.clone(), self.journal.data()))
        };
        match step(&seen, ours) {
            Step::Held if self.is_settled => Ok(Turn::Held(watches)),
            Step::Held => match namesake(term, folder, ours).await? {
                None => Ok(Turn::Held(watches)),
                // Of two that began at once, the later one goes.
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
                take(term, folder, version, &seen, &dead, ours).await?;
                Ok(Turn::Again)
            }
            Step::Ask(other) if !answers(other).await => Ok(Turn::Wait(other.clone())),
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
    match answers(&other).await {
        true => Turn::Refused(Refusal::Taken(other)),
        false => Turn::Wait(other),
    }
}
