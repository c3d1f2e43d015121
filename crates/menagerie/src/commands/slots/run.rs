//! `menagerie slots run POOL -- COMMAND`

use std::time::Duration;

use clap::Args;
use menagerie_kernel::Session;
use menagerie_kernel::session::Rights;
use menagerie_slots::view;

use super::work::{WorkArgs, work};
use crate::client::{self, Client, ClientArgs};
use crate::exit::{CliError, cannot};
use crate::output::escape_for_terminal;
use crate::{clock, durations, output, signals};

/// Wait for a slot, run a command while holding it, and release it. Exits with the command's code (128+n for signal n);
/// 69 if ZooKeeper cannot be reached, 73 if the slot was lost while the command ran, 75 if no slot was free in time.
#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    work: WorkArgs,
    /// Give up after this long; 0: run only if a slot is free now [default: wait indefinitely].
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, value_parser = durations::parse)]
    wait: Option<Duration>,
    /// Only print what would happen.
    #[arg(long)]
    dry_run: bool,
}

impl Run {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        self.work.check()?;
        if self.dry_run {
            return client::run_within(client, Rights::Observer, async |client| {
                self.preview(&client.session).await
            });
        }
        let settings = client.settings()?;
        client::block_on(async move {
            let mut signals = signals::forwarded_signals()?;
            let client = tokio::select! {
                client = Client::connect_within(settings, Rights::Owner) => client?,
                signal = super::work::next_end_signal(&mut signals) => {
                    return Err(CliError::Interrupted { signal: signal.as_raw() });
                }
            };
            let plan = self.work.plan(None);
            let code = work(&client.session, &self.work, self.wait, &plan, &mut signals).await;
            client::close(client.session).await;
            match code? {
                0 => Ok(()),
                code => Err(CliError::Ended { code }),
            }
        })
    }

    async fn preview(&self, session: &Session) -> Result<(), CliError> {
        let (pool, holder) = (&self.work.pool, self.work.who.holder()?);
        let now_ms = u64::try_from(clock::now_ms()).unwrap_or(0);
        let view = view::show(session, pool, now_ms).await;
        let view = view.map_err(cannot(format!("look at pool {pool}")))?;
        let own = view.holders.iter().find(|other| other.holder.holder == holder.as_str());
        let held: Vec<String> =
            view.holders.iter().map(|other| escape_for_terminal(Some(&other.holder.holder))).collect();
        let outcome = match own {
            Some(own) => format!(
                "{holder} has slot {} already: it would resume it once its earlier run is gone",
                own.slot
            ),
            None if view.frozen.is_some() => "the pool is frozen: it would wait".to_owned(),
            None if view.used < view.max as usize && view.waiters.is_empty() => {
                "a slot is free: it would run now".to_owned()
            }
            None => format!("it would wait, with {} ahead; held by {}", view.waiters.len(), held.join(", ")),
        };
        let words: Vec<String> =
            self.work.command.iter().map(|word| escape_for_terminal(Some(&word.to_string_lossy()))).collect();
        output::write(&format!("{outcome}\ncommand: {}\n", words.join(" ")))
    }
}
