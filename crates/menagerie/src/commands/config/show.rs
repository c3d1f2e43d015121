//! `menagerie config show`: each setting, and where it comes from.

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::client::ClientArgs;
use crate::config::pipelines::shown_url;
use crate::config::worker::show_commit;
use crate::config::{Auth, Chosen, Origin, Settings};
use crate::durations;
use crate::exit::CliError;
use crate::output::{self, FormatArg, Table};

/// SettingRows instead of a secret.
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

#[derive(Debug, PartialEq, Eq, Serialize)]
struct SettingRow {
    key: &'static str,
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct SettingRows(Vec<SettingRow>);

impl Show {
    /// Resolves the settings and prints them, without connecting to anything.
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        let mut rows = rows(&client.settings()?);
        if !self.origin {
            rows.iter_mut().for_each(|row| row.origin = None);
        }
        self.format.print(&SettingRows(rows))
    }
}

fn rows(settings: &Settings) -> Vec<SettingRow> {
    fn row<T>(key: &'static str, chosen: Option<&Chosen<T>>, show: impl Fn(&T) -> String) -> SettingRow {
        let value = chosen.map(|chosen| show(&chosen.value));
        let origin = chosen.map_or(&Origin::Default, |chosen| &chosen.origin);
        SettingRow { key, value, origin: Some(origin.to_string()) }
    }
    let path = |path: &std::path::PathBuf| path.display().to_string();
    let auth = settings.auth.as_ref();
    let inline = auth.filter(|auth| matches!(auth.value, Auth::Digest(_)));
    let filed = auth.filter(|auth| matches!(auth.value, Auth::File(_)));
    let mut rows = vec![
        row("config", settings.file.as_ref(), path),
        row("zookeeper.servers", Some(&settings.servers), ToString::to_string),
        row("zookeeper.namespace", Some(&settings.namespace), Clone::clone),
        row("zookeeper.session_timeout", Some(&settings.session_timeout), |timeout| {
            durations::show(*timeout)
        }),
        row("zookeeper.auth", inline, |_| MASK.to_owned()),
        row("zookeeper.auth_file", filed, |auth| match auth {
            Auth::File(file) => path(file),
            Auth::Digest(_) => MASK.to_owned(),
        }),
        row("zookeeper.tls.ca", settings.tls_ca.as_ref(), path),
        row("zookeeper.tls.cert", settings.tls_cert.as_ref(), path),
        row("zookeeper.tls.key", settings.tls_key.as_ref(), path),
    ];
    let journal = [
        row("journal.token_file", settings.journal_token_file.as_ref(), path),
        row("journal.ca", settings.journal_ca.as_ref(), path),
    ];
    rows.extend(journal.into_iter().filter(|row| row.value.is_some()));
    let worker = &settings.worker;
    let time = |time: &Duration| format!("{}ms", time.as_millis());
    // Workers have many settings, which only one command uses: show those that somebody set.
    let set = [
        row("worker.concurrency", worker.concurrency.as_ref(), ToString::to_string),
        row("worker.strict", worker.strict.as_ref(), ToString::to_string),
        row("worker.attempts", worker.attempts.as_ref(), ToString::to_string),
        row("worker.backoff", worker.backoff.as_ref(), time),
        row("worker.backoff_max", worker.backoff_max.as_ref(), time),
        row("worker.on_failure", worker.on_failure.as_ref(), |on| format!("{on:?}").to_lowercase()),
        row("worker.settle", worker.settle.as_ref(), time),
        row("worker.batch", worker.batch.as_ref(), ToString::to_string),
        row("worker.commit", worker.commit.as_ref(), |commit| show_commit(*commit)),
    ];
    rows.extend(set.into_iter().filter(|row| row.value.is_some()));
    let applications = settings.applications.iter();
    rows.extend(applications.map(|one| {
        row("applications", Some(one), |one| {
            format!("{} ({})", one.name, output::count(one.application.keys.len() as u64, "key"))
        })
    }));
    if let Some(pipelines) = &settings.pipelines {
        rows.push(row("pipelines.tenants", Some(&pipelines.tenants), path));
        rows.extend(pipelines.connections.iter().map(|(name, connection)| {
            row("pipelines.connections", Some(connection), |one| {
                let votes: Vec<String> =
                    one.submit.iter().map(|(label, value)| format!("{label}={value}")).collect();
                let url = shown_url(&one.baseurl);
                let every = time(&one.poll);
                format!("{name} (git {url}, host {}, every {every}, submit {})", one.host, votes.join(" "))
            })
        }));
    }
    rows
}

impl output::Show for SettingRows {
    fn show(&self) -> String {
        let origins = self.0.iter().any(|row| row.origin.is_some());
        let mut table = Table::new(["KEY", "VALUE"].into_iter().chain(origins.then_some("ORIGIN")));
        for SettingRow { key, value, origin } in &self.0 {
            let value = value.clone().unwrap_or_else(|| "-".to_owned());
            table.row([(*key).to_owned(), value].into_iter().chain(origin.clone()));
        }
        table.text()
    }
}
