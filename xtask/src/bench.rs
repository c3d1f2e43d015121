//! `cargo xtask bench`: benchmarks, side by side with peers.

use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::packages;
use crate::run::{cargo, step, target};
use crate::venv::{nats_server, task_queues, venv};

/// Run a benchmark side by side with its peers, in release builds.
#[derive(Debug, Args)]
pub struct Bench {
    /// Which one: `keeper`, `kernel`, `journal`, `slots`, `queues`, `queue-http`, `pipelines` or `web`.
    name: String,
    /// Passed on; `-- --help` lists what there is.
    #[arg(last = true)]
    arguments: Vec<String>,
}

impl Bench {
    /// Builds in release mode and runs.
    pub fn run(self) -> Result<()> {
        packages::install()?;
        step(
            "build",
            &mut cargo(&["build", "--release", "--quiet", "--package", "menagerie", "--package", "bench"]),
        )?;
        // Peers of single benchmarks.
        let peer = match self.name.as_str() {
            "journal" => Some(("NATS_SERVER", nats_server()?)),
            "queues" => Some(("QUEUES_PYTHON", task_queues()?)),
            "queue-http" => {
                packages::install_also(&[("nginx-light", "what a server costs that does nothing")])?;
                Some(("NGINX_SERVER", "/usr/sbin/nginx".into()))
            }
            _ => None,
        };
        step(
            &format!("benchmark {}", self.name),
            Command::new(target().join("release/bench"))
                .arg(&self.name)
                .args(&self.arguments)
                .env("KAZOO_PYTHON", venv()?.join("bin/python"))
                .envs(peer),
        )
    }
}
