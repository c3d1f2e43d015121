//! `menagerie slots watch POOL --when CHECK -- COMMAND`

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use menagerie_kernel::Moment;
use menagerie_kernel::Session;
use menagerie_kernel::guard::{self, Command, Outcome, Stream};
use menagerie_kernel::session::Rights;
use menagerie_slots::{SlotsError, disarm};
use menagerie_znodes::Name;
use rustix::process::Signal;
use tokio::sync::{mpsc, watch};

use super::work::{WorkArgs, work};
use crate::client::{self, Client, ClientArgs};
use crate::exit::{CliError, cannot};
use crate::{durations, signals};

/// How long a check may take to end after its time is up.
const CHECK_GRACE: Duration = Duration::from_secs(1);

/// Run a watchdog: check this host periodically, and run the command under a slot when the check has failed often
/// enough. After success the host is out of service, and the watchdog idles until `slots rearm`.
#[derive(Debug, Args)]
pub struct Watch {
    #[command(flatten)]
    work: WorkArgs,
    /// Check to run in the shell. Exit code 0: healthy; 126 or 127: the check could not run; anything else: unhealthy.
    #[arg(long, value_name = "CHECK")]
    when: OsString,
    /// Interval between checks; a check that takes longer has failed.
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    every: Duration,
    /// Act after N consecutive failures.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    times: u32,
}

fn interval(text: &str) -> Result<Duration, String> {
    match durations::parse(text)? {
        Duration::ZERO => Err("checking without a pause is too often: write at least 1s".to_owned()),
        every => Ok(every),
    }
}

impl Watch {
    /// Watches until it is stopped or the command fails.
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        self.work.check()?;
        let holder = self.work.who.holder()?;
        let settings = client.settings()?;
        client::block_on(async move {
            let mut signals = signals::forwarded_signals()?;
            let ending = signals::first_end_signal()?;
            let client = tokio::select! {
                client = Client::connect_within(settings, Rights::Owner) => client?,
                signal = end_signal(&ending) => return stop_result(signal),
            };
            let watched = self.watch(&client.session, &holder, &mut signals, &ending).await;
            client::close(client.session).await;
            watched
        })
    }

    async fn watch(
        &self,
        session: &Session,
        holder: &Name,
        signals: &mut mpsc::Receiver<Signal>,
        ending: &EndSignal,
    ) -> Result<(), CliError> {
        let pool = &self.work.pool;
        self.require_pool(session).await?;
        let plan = self.work.plan(Some(holder.clone()));
        loop {
            tokio::select! {
                // Signals first: one may have come while the command ran.
                biased;
                signal = end_signal(ending) => return stop_result(signal),
                armed = self.wait_until_armed(session, holder) => armed?,
            }
            tokio::select! {
                unhealthy = self.wait_until_unhealthy() => unhealthy?,
                signal = end_signal(ending) => return stop_result(signal),
            }
            eprintln!("{holder} is unhealthy: taking a slot of pool {pool}");
            // Signals that came before the command are not forwarded to it.
            while signals.try_recv().is_ok() {}
            match work(session, &self.work, None, &plan, signals).await? {
                0 => eprintln!("{holder} is done"),
                code => return Err(CliError::Ended { code }),
            }
        }
    }

    /// Fails at start rather than when the host is already unhealthy.
    async fn require_pool(&self, session: &Session) -> Result<(), CliError> {
        let pool = &self.work.pool;
        menagerie_slots::Snapshot::read(&session.term(), pool)
            .await
            .map(drop)
            .map_err(cannot(format!("watch for pool {pool}")))
    }

    async fn wait_until_armed(&self, session: &Session, holder: &Name) -> Result<(), CliError> {
        let pool = &self.work.pool;
        let armed: Result<(), SlotsError> = disarm::wait_until_armed(session, pool, holder, |_| {
            eprintln!("{holder} is out of service until `menagerie slots rearm {pool} {holder}`");
        })
        .await;
        armed.map_err(cannot(format!("watch for pool {pool}")))
    }

    /// Runs the check until it has failed often enough in a row.
    async fn wait_until_unhealthy(&self) -> Result<(), CliError> {
        let mut failures = 0;
        let mut ticks = tokio::time::interval(self.every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let command = Command::new("/bin/sh", CHECK_GRACE)
                .arg("-c")
                .arg(&self.when)
                .stdin(Stream::Null)
                // The guard sends SIGTERM one grace before the deadline, so the check has all of `every`.
                .deadline(Moment::after(self.every.saturating_add(CHECK_GRACE)));
            let started = guard::spawn(command, guard::this_program()).await;
            let mut check = started.map_err(CliError::not_started)?;
            let how = match check.wait().await {
                Outcome::Exited(0) => {
                    failures = 0;
                    continue;
                }
                // This says nothing about the host, and a check with a typo must not take a fleet out of service.
                Outcome::Exited(126 | 127) | Outcome::GuardDied => {
                    eprintln!("the check could not be run: {}", self.when.display());
                    continue;
                }
                Outcome::Expired => format!("took longer than {} and ", durations::show(self.every)),
                Outcome::Exited(_) | Outcome::Signaled(_) => String::new(),
            };
            failures += 1;
            eprintln!("the check {how}has failed, {failures} of {} times", self.times);
            if failures >= self.times {
                return Ok(());
            }
        }
    }
}

type EndSignal = watch::Receiver<Option<Signal>>;

/// Waits for the first signal that ends the watch.
async fn end_signal(ending: &EndSignal) -> Signal {
    let mut ending = ending.clone();
    match ending.wait_for(Option::is_some).await.map(|signal| *signal) {
        Ok(Some(signal)) => signal,
        Ok(None) | Err(_) => std::future::pending().await,
    }
}

/// A watch that is told to stop has succeeded.
fn stop_result(signal: Signal) -> Result<(), CliError> {
    match signal {
        Signal::INT | Signal::TERM => Ok(()),
        other => Err(CliError::Interrupted { signal: other.as_raw() }),
    }
}
