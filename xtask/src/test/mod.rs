//! `cargo xtask test`: the one command that decides whether the tree is good.

pub mod events;
mod manifest;
pub mod report;
pub mod suite;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::run::{cargo, output, step, target};
use crate::venv::{axe_core, schemathesis, venv};
use crate::{kazoo, licences, packages, znode_map};
use manifest::Manifests;
use report::Report;
use suite::Suite;

/// File with the flaky tests of the last run and their full output.
const FLAKY_FILE: &str = "flaky.txt";

/// Installs what is needed and runs everything; reports failures at the end, so that one run finds all of them.
pub fn run() -> Result<()> {
    let began = Instant::now();
    packages::install()?;
    let manifests = Manifests::read()?;
    let features = manifests.features.as_str();
    let mut report = Report::default();
    checks(&mut report, features);
    step("build of the tests", &mut cargo(&["test", "--no-run", "--workspace", "--features", features]))?;
    step("build of the program", &mut cargo(&["build", "--package", "menagerie"]))?;
    let environment = vec![
        // Otherwise every suite would build it again.
        ("MENAGERIE_BIN".into(), target().join("debug/menagerie").into()),
        ("KAZOO_VENV".into(), venv()?.into()),
        ("SCHEMATHESIS".into(), schemathesis()?.into()),
        ("AXE_CORE".into(), axe_core()?.into()),
    ];
    // Otherwise gigabytes of dirty pages from the compiler would delay every fdatasync of the first tests for
    // seconds.
    step("sync", &mut Command::new("sync"))?;
    for suite in suites(&manifests, &environment)? {
        report.add(suite.run()?);
    }
    doc_tests(&mut report, features)?;
    report.add(kazoo::outcomes()?);
    conclude(&report, began)
}

/// Prints the summary; an error unless all is well.
fn conclude(report: &Report, began: Instant) -> Result<()> {
    std::fs::write(target().join(FLAKY_FILE), report.flaky_file()).context("cannot write flaky.txt")?;
    println!("{}, {:.0} min", report.summary(), began.elapsed().as_secs_f64() / 60.0);
    match report.refusal() {
        None => Ok(()),
        Some(why) => bail!("{why}"),
    }
}

/// Static checks.
fn checks(report: &mut Report, features: &str) {
    let lints = ["clippy", "--quiet", "--workspace", "--all-targets", "--features", features];
    let lints = || step("lints", cargo(&lints).args(["--", "--deny", "warnings"]));
    let checks: [(&str, &dyn Fn() -> Result<()>); 4] = [
        ("format", &|| step("format", &mut cargo(&["fmt", "--all", "--check"]))),
        ("licences", &licences::run),
        ("znode map", &znode_map::check),
        ("lints", &lints),
    ];
    for (name, check) in checks {
        if let Err(why) = check() {
            eprintln!("    {name}: {why:#}");
            report.step_failed(name, &format!("{why:#}"));
        }
    }
}

/// Examples in the documentation: only cargo can build them, so cargo runs them, and we only count them.
fn doc_tests(report: &mut Report, features: &str) -> Result<()> {
    eprintln!("==> examples in the documentation");
    let ran = cargo(&["test", "--doc", "--workspace", "--features", features]).output()?;
    let said = String::from_utf8_lossy(&ran.stdout);
    let passed = said.lines().filter_map(|line| {
        line.strip_prefix("test result: ok. ")?.split_once(" passed")?.0.parse::<usize>().ok()
    });
    report.count(passed.sum());
    if !ran.status.success() {
        eprint!("{said}{}", String::from_utf8_lossy(&ran.stderr));
        report.step_failed("examples in the documentation", &ran.status.to_string());
    }
    Ok(())
}

/// All suites, in the order in which they run: each on the keeper, then some on other ensembles.
fn suites(manifests: &Manifests, environment: &[(OsString, OsString)]) -> Result<Vec<Suite>> {
    let built = built(&manifests.features, environment)?;
    let mut suites = built.clone();
    for elsewhere in &manifests.elsewhere {
        let name = format!("{} it", elsewhere.package);
        let suite = built.iter().find(|suite| suite.name == name);
        let mut suite = suite.with_context(|| format!("cargo does not tell where it built {name}"))?.clone();
        suite.name = format!("{name} on {}", elsewhere.ensemble);
        suite.only.clone_from(&elsewhere.only);
        suite.skip.clone_from(&elsewhere.once);
        suite.environment.push(("MENAGERIE_TEST_ENSEMBLE".into(), elsewhere.ensemble.clone().into()));
        suites.push(suite);
    }
    Ok(suites)
}

/// The suites as they were built before. To ask cargo to run one alone would choose other features of dependencies, and
/// build everything again.
fn built(features: &str, environment: &[(OsString, OsString)]) -> Result<Vec<Suite>> {
    let mut build = cargo(&["test", "--quiet", "--workspace", "--features", features]);
    let messages = output(build.args(["--no-run", "--message-format", "json"]))?;
    let suite = |message: Value| {
        let program = PathBuf::from(message["executable"].as_str()?);
        message["profile"]["test"].as_bool().filter(|is_test| *is_test)?;
        let folder = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
        let package = folder.file_name()?.to_str()?.to_owned();
        let target = message["target"]["name"].as_str()?;
        let is_unit = message["target"]["kind"][0] != "test";
        let name = if is_unit { package } else { format!("{package} {target}") };
        let environment = environment.to_vec();
        Some(Suite { name, program, folder, only: Vec::new(), skip: Vec::new(), environment })
    };
    let mut suites: Vec<Suite> =
        messages.lines().filter_map(|line| serde_json::from_str(line).ok()).filter_map(suite).collect();
    // Cargo lists them in the order they were finished; a run should look like the one before.
    suites.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(suites)
}
