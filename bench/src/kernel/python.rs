//! kazoo's recipes: a Python process for each contender, so that no contender waits for another's interpreter.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::rows::{PERMITS, Recipe, Row};

/// Waits until all contenders are connected, contends for a while, and prints its number of cycles.
const PROGRAM: &str = include_str!("cycles.py");

pub fn cycles_per_s(python: &Path, address: SocketAddr, path: &str, row: Row, time: Duration) -> Result<f64> {
    let recipe = match row.recipe {
        Recipe::Lock => "lock",
        Recipe::Semaphore => "semaphore",
    };
    let contenders: Vec<Child> = (0..row.contenders)
        .map(|_| {
            Command::new(python)
                .args(["-c", PROGRAM, &address.to_string(), path, recipe])
                .args([row.contenders.to_string(), PERMITS.to_string(), time.as_secs_f64().to_string()])
                .stdout(Stdio::piped())
                .spawn()
                .with_context(|| format!("cannot run {}", python.display()))
        })
        .collect::<Result<_>>()?;
    let mut rate = 0.0;
    for contender in contenders {
        let output = contender.wait_with_output()?;
        ensure!(output.status.success(), "a kazoo contender failed: {}", output.status);
        rate += String::from_utf8_lossy(&output.stdout).trim().parse::<f64>().context("no rate")?;
    }
    Ok(rate)
}
