//! kazoo's own test suite against the keeper, including the tests that restart the server.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::run::{cargo, root, step, target};
use crate::test::events::{self, Event};
use crate::test::report::{Outcome, Report};
use crate::test::suite::{Exit, Run, conclude, judge};
use crate::venv::venv;

/// Longest wait for the keeper to start.
const PATIENCE: Duration = Duration::from_secs(120);

/// Below the range for outgoing connections on Linux: one of those could take the port while the keeper restarts.
const PORTS: Range<u16> = 10_000..30_000;

/// pytest's exit code when all tests ran and some failed.
const TESTS_FAILED: i32 = 1;

/// Name of the suite in reports.
const NAME: &str = "kazoo's own suite";

/// Runs the suite; an error unless all tests passed.
pub fn run() -> Result<()> {
    let mut report = Report::default();
    report.add(outcomes()?);
    println!("{}", report.summary());
    match report.refusal() {
        None => Ok(()),
        Some(why) => bail!("{why}"),
    }
}

/// Builds the keeper, runs the suite against it, and stops it.
pub fn outcomes() -> Result<Vec<Outcome>> {
    let venv = venv()?;
    step("build of the keeper", &mut cargo(&["build", "--quiet", "--package", "menagerie"]))?;
    let scratch = target().join("kazoo");
    if scratch.exists() {
        fs::remove_dir_all(&scratch).context("cannot empty the scratch folder")?;
    }
    fs::create_dir_all(&scratch).context("cannot make the scratch folder")?;
    let keeper = Restartable::start(&scratch)?;
    eprintln!("==> {NAME}");
    let began = Instant::now();
    let crowd = pytest(&keeper, &scratch, &venv, None)?;
    // pytest exits with 0 or [`TESTS_FAILED`] only if it ran everything it found.
    let listed: Vec<String> = crowd.ended.keys().cloned().collect();
    let outcomes = judge(NAME, &listed, &crowd, |test| pytest(&keeper, &scratch, &venv, Some(test)))?;
    keeper.stop()?;
    conclude(NAME, &outcomes, began.elapsed());
    Ok(outcomes)
}

/// Runs one test, or all.
fn pytest(keeper: &Restartable, scratch: &Path, venv: &Path, test: Option<&str>) -> Result<Run> {
    let events_file = scratch.join("events");
    let _ = fs::remove_file(&events_file);
    let mut command = Command::new(root().join("e2e/kazoo/run"));
    command
        .arg(&keeper.address)
        .args(["-p", "events"])
        .current_dir(scratch)
        .env("KAZOO_VENV", venv)
        .env("KAZOO_EVENTS", &events_file)
        .env("ZK_STOP_CMD", keeper.script.display().to_string() + " stop")
        .env("ZK_START_CMD", keeper.script.display().to_string() + " start");
    if let Some(test) = test {
        command.env("KAZOO_TESTS", test);
    }
    let status = command.status().context("cannot run kazoo's suite")?;
    let events = fs::read_to_string(&events_file).unwrap_or_default();
    let ended = events.lines().filter_map(|line| match events::parse(line)? {
        Event::Ended { test, ended } => Some((test, ended)),
        Event::Started { .. } => None,
    });
    Ok(Run { ended: ended.collect(), how: status.to_string(), exit: Exit::of(status, TESTS_FAILED) })
}

/// A keeper that shell commands can stop and restart: that is how kazoo's tests restart their server.
struct Restartable {
    script: PathBuf,
    address: String,
}

impl Restartable {
    fn start(scratch: &Path) -> Result<Self> {
        let script = scratch.join("keeper.sh");
        let binary = target().join("debug/menagerie");
        let port = PORTS.into_iter().find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
        let address = format!("{}:{}", Ipv4Addr::LOCALHOST, port.context("there is no free port")?);
        fs::write(&script, restart_script(scratch, &binary, &address))?;
        let mut chmod = Command::new("chmod");
        chmod.arg("+x").arg(&script);
        step("prepare the keeper", &mut chmod)?;
        let keeper = Self { script, address };
        keeper.call("start")?;
        Ok(keeper)
    }

    fn call(&self, verb: &str) -> Result<()> {
        let mut child: Child = Command::new(&self.script)
            .arg(verb)
            .stdin(Stdio::null())
            .spawn()
            .context("cannot run the keeper's script")?;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = child.try_wait()? {
                return if status.success() { Ok(()) } else { bail!("keeper {verb} failed: {status}") };
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill()?;
        bail!("keeper {verb} took longer than {PATIENCE:?}")
    }

    fn stop(&self) -> Result<()> {
        self.call("stop")
    }
}

/// Always on the same port and data: sessions must survive the restart.
fn restart_script(scratch: &Path, binary: &Path, address: &str) -> String {
    format!(
        r#"#!/bin/sh
cd '{scratch}' || exit 1
case $1 in
start)
    : > out
    '{binary}' keeper --listen {address} --data data >> out 2>> log < /dev/null &
    echo $! > pid
    until grep -q '^keeper ready on ' out; do
        kill -0 "$(cat pid)" || {{ cat log >&2; exit 1; }}
        sleep 0.05
    done
    ;;
stop)
    kill "$(cat pid)"
    while kill -0 "$(cat pid)" 2>/dev/null; do sleep 0.05; done
    ;;
esac
"#,
        scratch = scratch.display(),
        binary = binary.display(),
    )
}
