//! Python clients.

use std::env;
use std::path::{Path, PathBuf};

use crate::binary::target_dir;

/// The interpreter of a virtual environment with kazoo: the one that `KAZOO_VENV` names, else `target/venv-kazoo`.
///
/// # Panics
/// If there is none.
#[track_caller]
pub fn python() -> PathBuf {
    let venv = env::var_os("KAZOO_VENV").map_or_else(|| target_dir().join("venv-kazoo"), PathBuf::from);
    let interpreter = venv.join("bin/python");
    assert!(
        interpreter.is_file() && has_kazoo(&venv),
        "there is no Python with kazoo in {}; make one with `e2e/kazoo/venv {0}`, or name another one by KAZOO_VENV",
        venv.display()
    );
    interpreter
}

/// An interrupted installation leaves an interpreter and nothing else.
fn has_kazoo(venv: &Path) -> bool {
    venv.join("lib").read_dir().is_ok_and(|versions| {
        versions.flatten().any(|version| version.path().join("site-packages/kazoo").is_dir())
    })
}
