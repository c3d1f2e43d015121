//! Alternates the servers: every round of a row runs the same load on each of them, one after the other, and begins
//! with another one. A disturbance that outlasts a run disturbs all of them.

use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use super::load::{self, Sample, Timing};
use super::rows::Row;
use crate::servers::{Kind, Server};

/// Pause between two runs: the sessions of the last one are being closed, and its log settles.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Serialize)]
pub struct RowResult {
    pub row: Row,
    pub servers: Vec<ServerSamples>,
}

#[derive(Debug, Serialize)]
pub struct ServerSamples {
    pub server: Kind,
    pub rounds: Vec<Sample>,
}

impl RowResult {
    pub fn of(&self, kind: Kind) -> Option<&[Sample]> {
        self.servers.iter().find(|samples| samples.server == kind).map(|samples| samples.rounds.as_slice())
    }
}

pub async fn run(servers: &[Server], row: Row, rounds: usize, timing: Timing) -> Result<RowResult> {
    let mut result = RowResult {
        row,
        servers: servers
            .iter()
            .map(|server| ServerSamples { server: server.kind, rounds: Vec::new() })
            .collect(),
    };
    for round in 0..rounds {
        for turn in 0..servers.len() {
            let index = (round + turn) % servers.len();
            let server = &servers[index];
            let sample = load::run(server, row, timing)
                .await
                .with_context(|| format!("{row} on {}, round {}", server.kind.name(), round + 1))?;
            eprintln!(
                "{row:<12} round {} {:<7} {:>8.0} ops/s",
                round + 1,
                server.kind.name(),
                sample.ops_per_s
            );
            result.servers[index].rounds.push(sample);
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(result)
}
