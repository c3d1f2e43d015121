//! `menagerie slots acquire POOL`

use std::time::Duration;

use clap::Args;
use menagerie_kernel::Session;
use menagerie_slots::{Held, Request, SlotsError, acquire, try_acquire};
use menagerie_znodes::Name;
use menagerie_znodes::slots::Holder;
use serde::Serialize;

use super::waiting::Notice;
use super::who::WhoArgs;
use super::{change, failed};
use crate::client::ClientArgs;
use crate::durations;
use crate::exit::CliError;
use crate::output::{FormatArg, Show};

/// Take a slot for a script that cannot be run by `slots run`, and print its ticket. It is held until `slots release`,
/// whatever becomes of the script. Acquiring again what one holds is fine.
#[derive(Debug, Args)]
pub struct Acquire {
    /// Which pool.
    pool: Name,
    #[command(flatten)]
    who: WhoArgs,
    /// Give up after that long, with exit code 75; 0: take it only if it is free now [default: wait].
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

impl Acquire {
    /// Takes it.
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        let request = self.who.request()?;
        change(client, async |session| {
            let held = self.obtain(session, &request).await?;
            self.format.print(&Taken {
                pool: self.pool.to_string(),
                slot: held.number(),
                holder: request.holder.clone(),
                ticket: held.ticket().to_owned(),
                fence: held.fence().map(|fence| fence.to_string()),
            })
        })
    }

    async fn obtain(&self, session: &Session, request: &Request) -> Result<Held, CliError> {
        let doing = || failed(format!("take a slot of pool {}", self.pool));
        match Held::find(session, &self.pool, &request.holder).await {
            Ok(held) if is_own(held.holder(), request) => return Ok(held),
            Ok(_) | Err(SlotsError::NotHeld { .. }) => {}
            Err(error) => return Err(doing()(error)),
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
        match self.wait {
            None => acquiring.await.map_err(doing()),
            Some(wait) => match tokio::time::timeout(wait, acquiring).await {
                Ok(held) => held.map_err(doing()),
                Err(_) => Err(notice.not_obtained(session, &request.holder, wait).await),
            },
        }
    }
}

/// Whether a script on this host has taken it, in the same name.
fn is_own(holder: &Holder, request: &Request) -> bool {
    holder.process.is_none()
        && holder.host.as_ref() == Some(&request.local.host)
        && holder.machine_id == request.local.machine_id
}
