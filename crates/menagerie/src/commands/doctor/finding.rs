//! What the doctor finds.

use std::error::Error as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use menagerie_slots::identity;
use serde::Serialize;

use crate::config::{self, Auth, Origin, Settings};
use crate::output::{Show, Table};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    Ok,
    /// Works, but could be better.
    Warn,
    /// Does not work.
    Fail,
}

/// The result of one check.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    check: &'static str,
    health: Health,
    finding: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

/// All findings, in the order of the checks.
#[derive(Debug, Default, Serialize)]
pub struct Findings {
    findings: Vec<Finding>,
}

impl Findings {
    pub fn ok(&mut self, check: &'static str, finding: impl Into<String>) {
        self.findings.push(Finding { check, health: Health::Ok, finding: finding.into(), remedy: None });
    }

    pub fn warn(&mut self, check: &'static str, finding: impl Into<String>, remedy: impl Into<String>) {
        let (finding, remedy) = (finding.into(), Some(remedy.into()));
        self.findings.push(Finding { check, health: Health::Warn, finding, remedy });
    }

    pub fn fail(&mut self, check: &'static str, finding: impl Into<String>, remedy: impl Into<String>) {
        let (finding, remedy) = (finding.into(), Some(remedy.into()));
        self.findings.push(Finding { check, health: Health::Fail, finding, remedy });
    }

    pub fn count(&self, health: Health) -> usize {
        self.findings.iter().filter(|finding| finding.health == health).count()
    }
}

impl Show for Findings {
    fn show(&self) -> String {
        let mut table = Table::default();
        for Finding { check, health, finding, remedy } in &self.findings {
            let health = match health {
                Health::Ok => "ok",
                Health::Warn => "warn",
                Health::Fail => "FAIL",
            };
            table.row([health.to_owned(), (*check).to_owned(), finding.clone()]);
            if let Some(remedy) = remedy {
                table.row([String::new(), String::new(), format!("→ {remedy}")]);
            }
        }
        table.text()
    }
}

/// Checks what needs no connection.
pub fn settings(settings: &Settings, findings: &mut Findings) {
    let servers = &settings.servers;
    findings.ok("configuration", format!("servers {} (from {})", servers.value, servers.origin));
    if let Some(path) = exposed(settings) {
        findings.warn(
            "secrets",
            format!("{path} holds a password, and others on this machine may read it"),
            format!("chmod 600 {path}"),
        );
    }
    match (&settings.tls_ca, servers.value.is_loopback()) {
        (Some(_), _) => {
            let mutual = if settings.tls_cert.is_some() { ", mutual" } else { "" };
            findings.ok("encryption", format!("TLS{mutual}"));
        }
        (None, true) => findings.ok("encryption", "none, and nothing leaves this machine"),
        (None, false) => findings.warn(
            "encryption",
            "none: data and passwords cross the network in plain text",
            "set zookeeper.tls.ca in the configuration and use the servers' TLS port",
        ),
    }
}

/// Checks that this host has a machine id, by which it proves who it is after a reboot.
pub fn host(findings: &mut Findings) {
    match identity::local().machine_id {
        Some(_) => findings.ok("host", format!("{}, with a machine id", identity::host())),
        None => findings.warn(
            "host",
            format!(
                "{} has no machine id in {}: after a reboot it cannot resume a slot that it holds",
                identity::host(),
                identity::MACHINE_ID
            ),
            "run systemd-machine-id-setup, or write 32 hexadecimal digits there that no other host has",
        ),
    }
}

/// Checks that the files named by settings are usable; without them we cannot connect.
pub fn files(settings: &Settings, findings: &mut Findings) -> bool {
    let Err(error) = config::credentials(settings) else { return true };
    let because = error.source().map_or(String::new(), |cause| format!(": {cause}"));
    findings.fail("credentials", format!("{error}{because}"), error.help());
    false
}

/// A file with a password or a key that other users can read.
fn exposed(settings: &Settings) -> Option<String> {
    fn in_file(origin: &Origin) -> Option<&std::path::PathBuf> {
        match origin {
            Origin::File { path, .. } => Some(path),
            _ => None,
        }
    }
    let password = settings.auth.as_ref().and_then(|auth| match &auth.value {
        Auth::File(path) => Some(path),
        Auth::Digest(_) => in_file(&auth.origin),
    });
    let keys = settings.applications.first().and_then(|one| in_file(&one.origin));
    let open = |path: &&std::path::PathBuf| {
        fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
    };
    password.into_iter().chain(keys).find(open).map(|path| path.display().to_string())
}
