//! What each package says about its own tests, in its `Cargo.toml`: a new crate edits no list of ours.
//!
//! ```toml
//! [package.metadata.tests]
//! features = ["apache"]           # compile tests that need more than Rust
//! [package.metadata.tests.on.apache3]
//! only = ["storm::"]              # run these again there; all when empty
//! once = ["guard::"]              # but not these: they have servers of their own choice, or none
//! ```

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::run::{cargo, output};

/// What the packages of the workspace say.
pub struct Manifests {
    /// For `--features`: those of all packages.
    pub features: String,
    /// In the order of their packages.
    pub elsewhere: Vec<Elsewhere>,
}

/// A suite that runs on the keeper with all others, and then again on another ensemble: it must not care.
#[derive(Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// The folder of its package.
    pub package: String,
    /// On which other ensemble.
    pub ensemble: String,
    /// Which of its tests; all when empty.
    pub only: Vec<String>,
    /// Tests for which once is enough.
    pub once: Vec<String>,
}

impl Manifests {
    /// Asks cargo.
    pub fn read() -> Result<Self> {
        let metadata = output(&mut cargo(&["metadata", "--no-deps", "--format-version", "1"]))?;
        let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata is no JSON")?;
        Ok(Self::of(&metadata))
    }

    fn of(metadata: &Value) -> Self {
        let (mut features, mut elsewhere) = (Vec::new(), Vec::new());
        for package in metadata["packages"].as_array().into_iter().flatten() {
            let tests = &package["metadata"]["tests"];
            let name = package["name"].as_str().unwrap_or_default();
            features.extend(words(&tests["features"]).iter().map(|feature| format!("{name}/{feature}")));
            let folder = Path::new(package["manifest_path"].as_str().unwrap_or_default()).parent();
            let folder = folder.and_then(|folder| folder.file_name()?.to_str()).unwrap_or_default();
            for (ensemble, tests) in tests["on"].as_object().into_iter().flatten() {
                elsewhere.push(Elsewhere {
                    package: folder.to_owned(),
                    ensemble: ensemble.clone(),
                    only: words(&tests["only"]),
                    once: words(&tests["once"]),
                });
            }
        }
        // Cargo lists packages in the order in which it has read them; a run shall look like the one before.
        features.sort_unstable();
        elsewhere.sort_by(|a, b| (&a.package, &a.ensemble).cmp(&(&b.package, &b.ensemble)));
        Self { features: features.join(","), elsewhere }
    }
}

fn words(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|word| word.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn packages_say_where_else_their_tests_run() {
        let metadata = json!({ "packages": [
            { "name": "e2e", "manifest_path": "/x/e2e/Cargo.toml", "metadata": { "tests": {
                "features": ["strace"], "on": { "apache3": { "only": ["slots::storm"] }, "apache": {} } } } },
            { "name": "menagerie-wal", "manifest_path": "/x/crates/wal/Cargo.toml", "metadata": null },
            { "name": "menagerie-kernel", "manifest_path": "/x/crates/kernel/Cargo.toml", "metadata": { "tests": {
                "features": ["kazoo", "apache"], "on": { "apache": { "once": ["guard::"] } } } } },
        ] });
        let Manifests { features, elsewhere } = Manifests::of(&metadata);
        assert_eq!(features, "e2e/strace,menagerie-kernel/apache,menagerie-kernel/kazoo");
        let told: Vec<_> =
            elsewhere.iter().map(|one| (one.package.as_str(), one.ensemble.as_str())).collect();
        assert_eq!(told, [("e2e", "apache"), ("e2e", "apache3"), ("kernel", "apache")]);
        assert_eq!(
            (&elsewhere[1].only, &elsewhere[2].once),
            (&vec!["slots::storm".to_owned()], &vec!["guard::".to_owned()])
        );
    }
}
