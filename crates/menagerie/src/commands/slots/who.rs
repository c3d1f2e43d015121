//! Whose name and reason a slot request carries.

use clap::Args;
use menagerie_slots::core::Local;
use menagerie_slots::{Request, identity};
use menagerie_znodes::Name;

use crate::exit::CliError;
use crate::who::user;

/// Every list shows the reason: keep it short.
const REASON_BYTES_MAX: usize = 1_000;

/// Who asks for a slot, and why.
#[derive(Debug, Clone, Args)]
pub struct WhoArgs {
    /// Reason, shown to everybody who looks at the pool.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
    /// Name of the holder; one holder never has two slots [default: the host's name].
    #[arg(long, value_name = "NAME")]
    holder: Option<Name>,
    /// Name of this host, if not the system's. Only a later run of the same holder on the same host takes over a slot.
    #[arg(long, value_name = "NAME", env = "MENAGERIE_HOST")]
    host: Option<Name>,
}

fn reason(text: &str) -> Result<String, String> {
    if text.len() > REASON_BYTES_MAX {
        return Err(format!("a reason has at most {REASON_BYTES_MAX} bytes, and this one {}", text.len()));
    }
    Ok(text.to_owned())
}

impl WhoArgs {
    /// The name to hold the slot by.
    pub fn holder(&self) -> Result<Name, CliError> {
        match self.holder.clone().or_else(|| self.host.clone()) {
            Some(name) => Ok(name),
            None => Name::new(identity::host()).map_err(|error| CliError::Usage {
                what: format!("this host's name cannot be used: {error}"),
                help: "name the holder with --holder".to_owned(),
            }),
        }
    }

    /// What identifies this host.
    pub fn local(&self) -> Local {
        let local = identity::local();
        match &self.host {
            Some(host) => Local { host: host.to_string(), ..local },
            None => local,
        }
    }

    /// A request without a process of ours: only a release frees the slot.
    pub fn request(&self) -> Result<Request, CliError> {
        Ok(Request {
            holder: self.holder()?.to_string(),
            priority: 0,
            ephemeral: false,
            who: Some(user()),
            reason: self.reason.clone(),
            command: Vec::new(),
            local: self.local(),
            process: None,
            guard: None,
        })
    }
}
