//! `cargo xtask znode-map`: docs/znodes.md, rendered from the crate that declares them.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use menagerie_znodes::{ZnodeSpec, map};

use crate::run::root;

/// Render docs/znodes.md from the crate that declares all znodes.
#[derive(Debug, Args)]
pub struct ZnodeMap {
    /// Fail if it is stale, and write nothing.
    #[arg(long)]
    check: bool,
}

impl ZnodeMap {
    pub fn run(self) -> Result<()> {
        if self.check {
            return check();
        }
        fs::write(path(), render()).context("cannot write docs/znodes.md")
    }
}

/// Fails if docs/znodes.md is out of date.
pub fn check() -> Result<()> {
    eprintln!("==> znode map");
    let found = fs::read_to_string(path()).context("cannot read docs/znodes.md")?;
    if found != render() {
        bail!("docs/znodes.md is stale: run `cargo xtask znode-map`");
    }
    Ok(())
}

fn path() -> PathBuf {
    root().join("docs/znodes.md")
}

fn render() -> String {
    let mut text = String::from(
        "# Every znode of ours\n\n\
         Paths are below the namespace (`/menagerie` unless told otherwise). `<name>` stands for one component that \
         varies; what a path cannot carry is written as `%XX` there. This page is rendered from `crates/znodes` by \
         `cargo xtask znode-map`.\n",
    );
    for (owner, specs) in map() {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n## {owner}\n");
        for spec in specs {
            describe(&mut text, spec);
        }
    }
    text
}

fn describe(text: &mut String, spec: &ZnodeSpec) {
    let _ = write!(text, "\n### `{}`\n\n", spec.pattern);
    for (what, said) in [
        ("kind", spec.kind.to_string().as_str()),
        ("payload", spec.payload),
        ("written by", spec.written_by),
        ("guarded by", spec.guarded_by),
        ("deleted by", spec.deleted_by),
        ("seed", spec.seed),
    ] {
        let _ = writeln!(text, "- {what}: {said}");
    }
}
