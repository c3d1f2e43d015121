//! `menagerie config show`: each value, and where it comes from.

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::client::ClientArgs;
use crate::config::worker::show_commit;
use crate::config::{Auth, Chosen, Origin, Settings};
use crate::durations;
use crate::exit::CliError;
use crate::output::{self, FormatArg, Table};

/// What stands for a secret.
const MASK: &str = "********";

/// Show every effective value; secrets are masked.
#[derive(Debug, Args)]
pub struct Show {
    /// Show where each value comes from: a flag, an environment variable, a line of a file, or the default.
    #[arg(long)]
    origin: bool,
    #[command(flatten)]
    format: FormatArg,
}

/// One value.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Entry {
    key: &'static str,
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Shown(Vec<Entry>);

impl Show {
    /// Decides and prints; nobody is connected to.
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        let mut entries = entries(&client.settings()?);
        if !self.origin {
            entries.iter_mut().for_each(|entry| entry.origin = None);
        }
        self.format.print(&Shown(entries))
    }
}

fn entries(settings: &Settings) -> Vec<Entry> {
    fn entry<T>(key: &'static str, chosen: Option<&Chosen<T>>, show: impl Fn(&T) -> String) -> Entry {
        let value = chosen.map(|chosen| show(&chosen.value));
        let origin = chosen.map_or(&Origin::Default, |chosen| &chosen.origin);
        Entry { key, value, origin: Some(origin.to_string()) }
    }
    let path = |path: &std::path::PathBuf| path.display().to_string();
    let auth = settings.auth.as_ref();
    let inline = auth.filter(|auth| matches!(auth.value, Auth::Digest(_)));
    let filed = auth.filter(|auth| matches!(auth.value, Auth::File(_)));
    let mut entries = vec![
        entry("config", settings.file.as_ref(), path),
        entry("zookeeper.servers", Some(&settings.servers), ToString::to_string),
        entry("zookeeper.namespace", Some(&settings.namespace), Clone::clone),
        entry("zookeeper.session_timeout", Some(&settings.session_timeout), |timeout| {
            durations::show(*timeout)
        }),
        entry("zookeeper.auth", inline, |_| MASK.to_owned()),
        entry("zookeeper.auth_file", filed, |auth| match auth {
            Auth::File(file) => path(file),
            Auth::Digest(_) => MASK.to_owned(),
        }),
        entry("zookeeper.tls.ca", settings.tls_ca.as_ref(), path),
        entry("zookeeper.tls.cert", settings.tls_cert.as_ref(), path),
        entry("zookeeper.tls.key", settings.tls_key.as_ref(), path),
    ];
    let journal = [
        entry("journal.token_file", settings.journal_token_file.as_ref(), path),
        entry("journal.ca", settings.journal_ca.as_ref(), path),
    ];
    entries.extend(journal.into_iter().filter(|entry| entry.value.is_some()));
    let worker = &settings.worker;
    let time = |time: &Duration| format!("{}ms", time.as_millis());
    // They are many, and count for one command: only those that somebody has set.
    let set = [
        entry("worker.concurrency", worker.concurrency.as_ref(), ToString::to_string),
        entry("worker.strict", worker.strict.as_ref(), ToString::to_string),
        entry("worker.attempts", worker.attempts.as_ref(), ToString::to_string),
        entry("worker.backoff", worker.backoff.as_ref(), time),
        entry("worker.backoff_max", worker.backoff_max.as_ref(), time),
        entry("worker.on_failure", worker.on_failure.as_ref(), |on| format!("{on:?}").to_lowercase()),
        entry("worker.settle", worker.settle.as_ref(), time),
        entry("worker.batch", worker.batch.as_ref(), ToString::to_string),
        entry("worker.commit", worker.commit.as_ref(), |commit| show_commit(*commit)),
    ];
    entries.extend(set.into_iter().filter(|entry| entry.value.is_some()));
    let applications = settings.applications.iter();
    entries.extend(applications.map(|one| {
        entry("applications", Some(one), |one| {
            format!("{} ({})", one.name, output::count(one.application.keys.len() as u64, "key"))
        })
    }));
    entries
}

impl output::Show for Shown {
    fn show(&self) -> String {
        let origins = self.0.iter().any(|entry| entry.origin.is_some());
        let mut table = Table::new(["KEY", "VALUE"].into_iter().chain(origins.then_some("ORIGIN")));
        for Entry { key, value, origin } in &self.0 {
            let value = value.clone().unwrap_or_else(|| "-".to_owned());
            table.row([(*key).to_owned(), value].into_iter().chain(origin.clone()));
        }
        table.text()
    }
}
