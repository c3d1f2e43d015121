//! `cargo xtask test`: the one command that decides whether the tree is good.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::run::{cargo, output, root, step};
use crate::venv::{schemathesis, venv};
use crate::{kazoo, licences, packages, znode_map};

/// Features that compile the tests which need more than Rust.
const FEATURES: &str = "menagerie-keeper/apache,menagerie-kernel/apache,menagerie-kernel/kazoo,menagerie-queues/python,menagerie-testkit/apache,e2e/strace,e2e/python";

/// A suite that runs on the keeper with all others, and then again on other ensembles: it must not care.
struct Suite {
    /// Where its package is.
    folder: &'static str,
    /// On which others.
    ensembles: &'static [&'static str],
    /// Which of its tests; all when empty.
    only: &'static [&'static str],
    /// Tests that have servers of their own choice, or none: once is enough.
    once: &'static [&'static str],
}

const SUITES: [Suite; 5] = [
    Suite {
        folder: "crates/kernel",
        ensembles: &["apache", "apache3"],
        only: &[],
        once: &["guard::", "trust::", "lease::", "curator::", "kazoo::"],
    },
    Suite {
        folder: "crates/queues",
        ensembles: &["apache"],
        only: &[],
        once: &["python::", "runners::", "failures::", "http::hostile::"],
    },
    Suite { folder: "crates/slots", ensembles: &["apache", "apache3"], only: &[], once: &[] },
    Suite {
        folder: "e2e",
        ensembles: &["apache"],
        only: &[
            "cli::",
            "queue_http::outage",
            "queue_http::storm",
            "queues::crash",
            "queues::rebalance",
            "queues::churn",
        ],
        once: &[],
    },
    Suite { folder: "e2e", ensembles: &["apache3"], only: &["slots::storm"], once: &[] },
];

/// Installs what is needed, then runs everything.
pub fn run() -> Result<()> {
    packages::install()?;
    step("format", &mut cargo(&["fmt", "--all", "--check"]))?;
    licences::run()?;
    znode_map::check()?;
    step(
        "lints",
        &mut cargo(&[
            "clippy",
            "--quiet",
            "--workspace",
            "--all-targets",
            "--features",
            FEATURES,
            "--",
            "--deny",
            "warnings",
        ]),
    )?;
    let venv = venv()?;
    let schemathesis = schemathesis()?;
    step("build of the tests", &mut cargo(&["test", "--no-run", "--workspace", "--features", FEATURES]))?;
    // Gigabytes that the compiler left to the disk would stand before every fdatasync of the first tests, for seconds.
    step("sync", &mut Command::new("sync"))?;
    step(
        "tests",
        cargo(&["test", "--workspace", "--features", FEATURES])
            .env("KAZOO_VENV", &venv)
            .env("SCHEMATHESIS", &schemathesis),
    )?;
    let built = built()?;
    for suite in &SUITES {
        suite.run(&built, &venv)?;
    }
    kazoo::run()?;
    eprintln!("==> all tests passed");
    Ok(())
}

impl Suite {
    fn run(&self, built: &[(String, PathBuf)], venv: &Path) -> Result<()> {
        let end = format!("/{}#", self.folder);
        let found = built.iter().find(|(package, _)| package.contains(&end));
        let (_, suite) =
            found.with_context(|| format!("cargo does not tell where it built {}", self.folder))?;
        for ensemble in self.ensembles {
            step(
                &format!("tests of {} on {ensemble}", self.folder),
                Command::new(suite)
                    .args(self.only)
                    .args(self.once.iter().flat_map(|tests| ["--skip", *tests]))
                    .current_dir(root().join(self.folder))
                    .env("MENAGERIE_TEST_ENSEMBLE", ensemble)
                    .env("KAZOO_VENV", venv),
            )?;
        }
        Ok(())
    }
}

/// The suites as they were built for the tests before, by package. To ask cargo to run one alone would choose other
/// features of dependencies, and build everything again.
fn built() -> Result<Vec<(String, PathBuf)>> {
    let mut build = cargo(&["test", "--quiet", "--workspace", "--features", FEATURES, "--test", "it"]);
    let messages = output(build.args(["--no-run", "--message-format", "json"]))?;
    let suite = |message: Value| {
        Some((message["package_id"].as_str()?.to_owned(), PathBuf::from(message["executable"].as_str()?)))
    };
    Ok(messages.lines().filter_map(|line| serde_json::from_str(line).ok()).filter_map(suite).collect())
}
