//! A journal's registration in ZooKeeper, for as long as its role lives.

use menagerie_journal_directory::register::{RETRY_PAUSE, Refusal, Registrant, Standing};
use menagerie_kernel::{Session, whole};
use tokio::sync::{OnceCell, watch};
use tracing::{error, warn};

use crate::client::Connection;
use crate::role::Life;

/// How a journal registers.
pub struct Registration {
    pub connection: Connection,
    pub journal: Registrant,
    pub on_taken: OnTaken,
}

/// What to do when another journal is registered under our name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnTaken {
    /// Stop: nobody would find our messages.
    Stop,
    /// Serve all the same: our only clients are in this process.
    Serve,
}

impl Registration {
    /// Registers as soon as ZooKeeper can be reached, and stays registered. Returns only if the journal must not
    /// serve. The session outlives this future: the registration stays until the journal has drained.
    pub async fn keep(
        &self,
        life: &Life,
        sessions: &OnceCell<Session>,
        standing: &watch::Sender<Standing>,
    ) -> Refusal {
        let session = sessions.get_or_init(|| self.connect(standing)).await;
        let mut registered = standing.subscribe();
        let listed = async {
            let _ = registered.wait_for(|standing| *standing == Standing::Registered).await;
            life.join(session, self.journal.details()).await;
            std::future::pending().await
        };
        let refusal = tokio::select! {
            refusal = self.journal.keep_registered(session, standing) => refusal,
            never = listed => never,
        };
        match refusal {
            Some(Refusal::Taken(_)) if self.on_taken == OnTaken::Serve => {
                standing.send_replace(Standing::Waiting);
                error!("another journal is registered here by our name: this one is not");
            }
            Some(refusal) => return refusal,
            // The session was closed: nobody needs the registration any more.
            None => {}
        }
        std::future::pending().await
    }

    async fn connect(&self, standing: &watch::Sender<Standing>) -> Session {
        loop {
            match self.connection.open().await {
                Ok(session) => return session,
                Err(error) => {
                    standing.send_replace(Standing::Waiting);
                    warn!(error = %whole(&error), "cannot reach ZooKeeper to register the journal; trying again");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }
}
