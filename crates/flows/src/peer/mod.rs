//! A virtual peer: it registers, takes a task, works on its share of it, and says when that is drained.
//!
//! - this file: the life of a peer. `payload.rs`: what it is to work on. `work.rs`: the work on one share. `ends.rs`: where
//!   the links into its task end.
//!
//! A peer lives as long as its ZooKeeper session: when that is lost, the peer is dead, and another one begins, under
//! another name. It does not have to be sure that it is alive: the journal refuses the fence of a share that somebody
//! else has.

mod ends;
mod payload;
mod work;

use std::time::Duration;

use menagerie_journal_directory::Journals;
use menagerie_kernel::{CallError, Session, State, Term, Transaction, retry, unique, whole};
use menagerie_znodes::flows::{Ack, Completion, Deployment, Outcome, PeerRecord, Seal};
use menagerie_znodes::{Name, Payload, Znode};
use tracing::{debug, info, warn};

use self::payload::{Payloads, Share};
use self::work::Done;
use crate::{FlowError, layout};

/// Before a peer that failed begins again.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// What virtual peers need.
#[derive(Clone)]
pub struct Peers {
    /// Where links may be.
    pub journals: Journals,
    /// Whose jobs they run.
    pub deployment: Deployment,
    /// Machine and process.
    pub record: PeerRecord,
}

impl Peers {
    /// Runs one peer after the other in this session, which must be its own. `registered` is called once, when the first
    /// has registered. Ends only when the session is closed; to stop, drop it and close the session.
    pub async fn run(&self, session: &Session, registered: impl FnOnce()) -> Result<(), FlowError> {
        let mut registered = Some(registered);
        let mut term = session.term();
        loop {
            let id = Name::new(unique::hex()).expect("hex digits are a name");
            let peer = Peer { peers: self.clone(), session: session.clone(), term: term.clone(), id };
            let lived = tokio::select! {
                lived = peer.live(&mut registered) => lived,
                () = term.lost() => Err(CallError::Expired.into()),
            };
            match lived {
                Err(error) if error.ends_term() => {
                    info!(peer = %peer.id, "session lost: the peer ends, and another one begins");
                }
                Err(error) => {
                    warn!(peer = %peer.id, error = %whole(&error), "the peer failed, and another one begins");
                    // Otherwise it would look alive for as long as the session is.
                    let gone = retry::delete(&term, self.deployment.pulse(&peer.id).path()).await;
                    if let Err(error) = gone {
                        debug!(%error, "the pulse goes with the session");
                    }
                    tokio::time::sleep(RESTART_PAUSE).await;
                }
                Ok(never) => match never {},
            }
            if *term.state().borrow() == State::Lost {
                term = session.term_after(&term).await?;
            }
        }
    }
}

struct Peer {
    peers: Peers,
    session: Session,
    /// It ends with this.
    term: Term,
    id: Name,
}

impl Peer {
    /// Registers, and works until something fails.
    async fn live(
        &self,
        registered: &mut Option<impl FnOnce()>,
    ) -> Result<std::convert::Infallible, FlowError> {
        let deployment = &self.peers.deployment;
        layout::ensure(&self.term, deployment).await?;
        self.register().await?;
        info!(peer = %self.id, deployment = %deployment.name(), "registered");
        if let Some(registered) = registered.take() {
            registered();
        }
        let mut payload = Payloads::follow(&self.session, &self.term, deployment.payload(&self.id));
        loop {
            match payload.share()? {
                Some(share) => self.take(share, &mut payload).await?,
                None => payload.changed(None).await?,
            }
        }
    }

    async fn register(&self) -> Result<(), FlowError> {
        let tree = &self.peers.deployment;
        let transaction = Transaction::new(&self.term)
            .create(&tree.peer(&self.id), &self.peers.record)
            .create(&tree.ack(&self.id), &Ack::default())
            .create(&tree.seal(&self.id), &Seal::default())
            .create(&tree.completion(&self.id), &Completion::default())
            .create(&tree.pulse(&self.id), &());
        let proof = || async { Ok(self.term.stat(tree.pulse(&self.id).path()).await?.map(|_| Vec::new())) };
        retry::commit_ephemeral(transaction, proof).await?;
        Ok(())
    }

    /// Takes an offer, or works on a share of it, until the payload changes.
    async fn take(&self, share: Share, payload: &mut Payloads) -> Result<(), FlowError> {
        let tree = &self.peers.deployment;
        if share.partitions.is_empty() {
            self.publish(&tree.ack(&self.id), &Ack { offer: share.offer }).await?;
            return payload.changed(Some(&share)).await;
        }
        if !self.may_work(&share).await? {
            return payload.changed(Some(&share)).await;
        }
        let is_sealing = self.is_to_seal(&share).await?;
        debug!(peer = %self.id, ?share, is_sealing, "working");
        let done = tokio::select! {
            done = work::run(&self.peers, &self.session, &self.term, &share, is_sealing) => done?,
            changed = payload.changed(Some(&share)) => return changed,
        };
        debug!(peer = %self.id, offer = share.offer, ?done, "done");
        let outcome = match done {
            Done::Drained => {
                let seal = Seal { offer: share.offer, share: share.number };
                self.publish(&tree.seal(&self.id), &seal).await?;
                return payload.changed(Some(&share)).await;
            }
            Done::Sealed(ends) => Outcome::Sealed(ends),
            Done::Failed(why) => Outcome::Failed(why),
        };
        self.publish(&tree.completion(&self.id), &Completion { offer: share.offer, outcome }).await?;
        payload.changed(Some(&share)).await
    }

    /// Whether the coordinator lets us work on this offer.
    async fn may_work(&self, share: &Share) -> Result<bool, FlowError> {
        let status = self.term.patient().read(&self.peers.deployment.status(&self.id)).await?;
        Ok(status.is_some_and(|status| status.value.offer == share.offer))
    }

    /// Whether this share is all of the task, for us to seal.
    async fn is_to_seal(&self, share: &Share) -> Result<bool, FlowError> {
        let answer = self.term.patient().read(&self.peers.deployment.exhaust(&self.id)).await?;
        Ok(answer.is_some_and(|answer| answer.value.offer == share.offer && answer.value.seal))
    }

    /// Writes a signal for the coordinator. Only the newest one of its kind counts.
    async fn publish<T: Payload>(&self, znode: &Znode<T>, signal: &T) -> Result<(), CallError> {
        retry::touch(&self.term, znode.path(), &signal.encode()).await.map(drop)
    }
}
