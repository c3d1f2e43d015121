//! `menagerie slots acquire POOL`

use std::time::Duration;

use clap::Args;
use menagerie_kernel::Session;
use menagerie_kernel::session::Rights;
use menagerie_slots::core::is_of_this_host;
use menagerie_slots::{HeldSlot, Request, SlotsError, acquire, try_acquire};
use menagerie_znodes::Name;
use menagerie_znodes::slots::Holder;
use serde::Serialize;

use super::waiting::Notice;
use super::who::WhoArgs;
use crate::client::{self, Client, ClientArgs};
use crate::durations;
use crate::exit::{CliError, cannot};
use crate::output::{FormatArg, Show};

/// Acquire a slot for a script that `slots run` cannot wrap, and print the ticket. The slot is held until `slots
/// release`, whatever happens to the script. Idempotent: the holder may acquire again.
#[derive(Debug, Args)]
pub struct Acquire {
    /// Name of the pool.
    pool: Name,
    #[command(flatten)]
    who: WhoArgs,
    /// Give up after this long, with exit code 75; 0: take a slot only if one is free now [default: wait indefinitely].
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = durations::parse)]
    wait: Option<Duration>,
    #[command(flatten)]
    format: FormatArg,
}

#[derive(Debug, Serialize)]
struct Taken {
    pool: String,
    slot: u32,
    holder: String,
    ticket: String,
    fence: Option<String>,
}

impl Show for Taken {
    fn show(&self) -> String {
        format!("{}\n", self.ticket)
    }
}

/// After an interruption, spend at most this long finding out whether the slot was given.
const SLOT_LOOKUP_MAX: Duration = Duration::from_secs(2);

impl Acquire {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        let request = self.who.request()?;
        let settings = client.settings()?;
        client::block_on(async {
            let client = client::until_stopped(Client::connect_within(settings, Rights::Owner)).await?;
            let taken = self.take(&client.session, &request).await;
            client::close(client.session).await;
            taken
        })
    }

    async fn take(&self, session: &Session, request: &Request) -> Result<(), CliError> {
        let held = match client::until_stopped(self.obtain(session, request)).await {
            Err(error @ CliError::Interrupted { .. }) => {
                self.report_kept_slot(session, request).await;
                return Err(error);
            }
            held => held?,
        };
        self.format.print(&Taken {
            pool: self.pool.to_string(),
            slot: held.number(),
            holder: request.holder.clone(),
            ticket: held.ticket().to_owned(),
            fence: held.fence().map(|fence| fence.to_string()),
        })
    }

    async fn obtain(&self, session: &Session, request: &Request) -> Result<HeldSlot, CliError> {
        let doing = || cannot(format!("take a slot of pool {}", self.pool));
        if let Some(held) = self.find(session, request).await.map_err(doing())? {
            return Ok(held);
        }
        let mut notice = Notice::new(&self.pool);
        if self.wait == Some(Duration::ZERO) {
            let held = try_acquire(session, &self.pool, request).await.map_err(doing())?;
            return match held {
                Some(held) => Ok(held),
                None => Err(notice.not_obtained(session, &request.holder, Duration::ZERO).await),
            };
        }
        let acquiring = acquire(session, &self.pool, request, |standing| notice.show(&standing));
        let Some(wait) = self.wait else { return acquiring.await.map_err(doing()) };
        if let Ok(held) = tokio::time::timeout(wait, acquiring).await {
            return held.map_err(doing());
        }
        // The slot may have been given just as the time ran out.
        match self.find(session, request).await.map_err(doing())? {
            Some(held) => Ok(held),
            None => Err(notice.not_obtained(session, &request.holder, wait).await),
        }
    }

    /// The slot that a script on this host holds under this name.
    async fn find(&self, session: &Session, request: &Request) -> Result<Option<HeldSlot>, SlotsError> {
        match HeldSlot::find(session, &self.pool, &request.holder).await {
            Ok(held) => Ok(is_own(held.holder(), request).then_some(held)),
            Err(SlotsError::NotHeld { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// After an interruption: if the slot was given meanwhile, report it. Nothing but a release frees it.
    async fn report_kept_slot(&self, session: &Session, request: &Request) {
        let (pool, holder) = (&self.pool, &request.holder);
        match tokio::time::timeout(SLOT_LOOKUP_MAX, self.find(session, request)).await {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(held))) => eprintln!(
                "slot {} of pool {pool} is held: it was acquired just before the interruption; give it back with \
                 `menagerie slots release {pool} {holder}`",
                held.number()
            ),
            Ok(Err(_)) | Err(_) => eprintln!(
                "a slot of pool {pool} may be held: ZooKeeper did not answer in time; take it with `menagerie slots \
                 acquire {pool}`, or give it back with `menagerie slots release {pool} {holder}`"
            ),
        }
    }
}

/// Whether a script on this host holds it under the same name.
fn is_own(holder: &Holder, request: &Request) -> bool {
    holder.process.is_none() && is_of_this_host(holder, &request.local)
}
