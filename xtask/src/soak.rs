//! `cargo xtask soak`: the test suite's storms at full length. Results go into docs/soak.md.

use anyhow::Result;

use crate::packages;
use crate::run::{cargo, step};

pub fn run() -> Result<()> {
    packages::install()?;
    step(
        "500 kills of the keeper and of the journal under load",
        cargo(&["test", "--release", "--package", "e2e", "--", "crash", "--nocapture"])
            .env("MENAGERIE_KILLS", "500"),
    )?;
    for ensemble in ["keeper", "apache3"] {
        // Two storms of 150 s one after the other, over persistent and over ephemeral slots: five minutes.
        step(
            &format!("storms over slots on {ensemble}"),
            cargo(&[
                "test",
                "--release",
                "--package",
                "e2e",
                "--",
                "slots::storm",
                "--nocapture",
                "--test-threads=1",
            ])
            .env("MENAGERIE_STORM_SECONDS", "150")
            .env("MENAGERIE_TEST_ENSEMBLE", ensemble),
        )?;
    }
    for ensemble in ["keeper", "apache3"] {
        step(
            &format!("churn of 50 workers on {ensemble}"),
            cargo(&["test", "--release", "--package", "e2e", "--", "queues::churn::fifty", "--nocapture"])
                .env("MENAGERIE_CHURN_SECONDS", "300")
                .env("MENAGERIE_TEST_ENSEMBLE", ensemble),
        )?;
    }
    for ensemble in ["keeper", "apache"] {
        step(
            &format!(
                "words counted by flows on {ensemble}, ten times, while peers and the leader are killed"
            ),
            cargo(&["test", "--release", "--package", "e2e", "--", "flows::kills::words", "--nocapture"])
                .env("MENAGERIE_FLOW_ROUNDS", "10")
                .env("MENAGERIE_FLOW_WORDS", "2000000")
                .env("MENAGERIE_TEST_ENSEMBLE", ensemble),
        )?;
    }
    for ensemble in ["keeper", "apache"] {
        step(
            &format!(
                "forty proposals gated on {ensemble}, ten times, while a scheduler and an executor are killed"
            ),
            cargo(&["test", "--release", "--package", "e2e", "--", "pipelines::storm", "--nocapture"])
                .env("MENAGERIE_PIPELINE_ROUNDS", "10")
                .env("MENAGERIE_TEST_ENSEMBLE", ensemble),
        )?;
    }
    step(
        "comparison with Apache ZooKeeper, 1,000 scripts",
        cargo(&[
            "test",
            "--release",
            "--package",
            "menagerie-keeper",
            "--features",
            "apache",
            "--",
            "differential",
            "--nocapture",
        ])
        .env("MENAGERIE_DIFF_SEEDS", "1000"),
    )
}
