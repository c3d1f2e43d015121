//! The repositories of the demo's gate: a config project with two pipelines, and a project with one job.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use menagerie_pipelines::Connection;

use crate::config::{Chosen, Origin, PipelineSettings};
use crate::exit::CliError;

/// Below the data folder.
const FOLDER: &str = "demo-gate";
/// The connection of all its repositories.
pub const CONNECTION: &str = "local";
/// The project that has pipelines.
const CONFIG: &str = "demo/config";
/// The project that is gated.
pub const APP: &str = "demo/app";

const TENANTS: &str = "\
- tenant:
    name: demo
    source:
      local:
        config-projects: [demo/config]
        untrusted-projects: [demo/app]
";

const PIPELINES: &str = "\
- pipeline:
    name: check
    manager: independent
    trigger:
      local: [{event: patchset-created}]
    success:
      local: {Verified: 1}
    failure:
      local: {Verified: -1}
- pipeline:
    name: gate
    manager: dependent
    trigger:
      local: [{event: comment-added, approval: [{Approved: 1}]}]
    success:
      local: {Verified: 2, submit: true}
    failure:
      local: {Verified: -2}
";

const JOBS: &str = "\
- job:
    name: polite
    run: test-politeness
- project:
    check: {jobs: [polite]}
    gate: {jobs: [polite]}
";

const TEST: &str = "\
#!/bin/sh
cat greeting.txt
grep -q '^Hello' greeting.txt || { echo 'that is not polite'; exit 1; }
";

/// The demo's repositories.
#[derive(Debug, Clone)]
pub struct Gate {
    folder: PathBuf,
}

impl Gate {
    /// Makes the repositories; nothing if there is no git.
    pub fn make(root: &Path) -> Result<Option<Self>, CliError> {
        let version =
            Command::new("git").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !version.is_ok_and(|status| status.success()) {
            println!("demo: git is not installed, so there is no gate in this demo");
            return Ok(None);
        }
        // Projects have folders' names: git takes no relative one.
        let root = std::path::absolute(root).map_err(CliError::io("find the data folder"))?;
        let gate = Self { folder: root.join(FOLDER) };
        let made = || -> Result<(), String> {
            let _ = fs::remove_dir_all(&gate.folder);
            fs::create_dir_all(&gate.folder).map_err(|error| error.to_string())?;
            gate.write("tenants.yaml", TENANTS)?;
            gate.make_repository(CONFIG, &[("zuul.yaml", PIPELINES)])?;
            let greeting = ("greeting.txt", "Hello, world.\n");
            gate.make_repository(APP, &[(".zuul.yaml", JOBS), ("test-politeness", TEST), greeting])
        };
        made().map_err(|why| CliError::Refused {
            what: format!("cannot make the repositories of the demo: {why}"),
            help: "see whether git works, and whether the data folder can be written".to_owned(),
        })?;
        Ok(Some(gate))
    }

    /// Settings that have these repositories.
    pub fn settings(&self) -> PipelineSettings {
        let connection = Connection {
            baseurl: self.folder.join("git").display().to_string(),
            host: "localhost".to_owned(),
            poll: Duration::from_secs(1),
            submit: BTreeMap::from([("Approved".to_owned(), 1)]),
        };
        let origin = || Origin::Flag("--demo");
        PipelineSettings {
            tenants: Chosen { value: self.folder.join("tenants.yaml"), origin: origin() },
            connections: BTreeMap::from([(
                CONNECTION.to_owned(),
                Chosen { value: connection, origin: origin() },
            )]),
        }
    }

    /// A folder for caches of whoever votes.
    pub fn caches(&self) -> PathBuf {
        self.folder.join("caches")
    }

    /// Where a project is pushed to.
    pub fn repository(&self, project: &str) -> PathBuf {
        self.folder.join("git").join(format!("{project}.git"))
    }

    fn work(&self, project: &str) -> PathBuf {
        self.folder.join("work").join(project)
    }

    /// Proposes a change of one file, and returns its commit.
    pub fn propose(&self, topic: &str, file: &str, text: &str) -> Result<String, String> {
        let work = self.work(APP);
        git(&work, &["checkout", "--quiet", "-B", topic, "origin/main"])?;
        fs::write(work.join(file), text).map_err(|error| error.to_string())?;
        git(&work, &["add", "--all"])?;
        git(&work, &["commit", "--quiet", "--message", &format!("Change {file}")])?;
        git(&work, &["push", "--quiet", "origin", &format!("HEAD:refs/heads/propose/main/{topic}")])?;
        git(&work, &["rev-parse", "HEAD"])
    }

    /// The newest commit of the project's branch, in a line.
    pub fn newest(&self) -> Result<String, String> {
        git(&self.repository(APP), &["log", "-1", "--format=%h %s", "main"])
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        fs::write(self.folder.join(name), text).map_err(|error| error.to_string())
    }

    /// A bare repository with one commit of these files.
    fn make_repository(&self, project: &str, files: &[(&str, &str)]) -> Result<(), String> {
        let (bare, work) = (self.repository(project), self.work(project));
        for folder in [&bare, &work] {
            fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        }
        git(&bare, &["init", "--quiet", "--bare", "--initial-branch=main"])?;
        git(&work, &["init", "--quiet", "--initial-branch=main"])?;
        for (name, text) in files {
            let path = work.join(name);
            fs::write(&path, text).map_err(|error| error.to_string())?;
            if text.starts_with("#!") {
                let executable = fs::Permissions::from_mode(0o755);
                fs::set_permissions(&path, executable).map_err(|error| error.to_string())?;
            }
        }
        git(&work, &["add", "--all"])?;
        git(&work, &["commit", "--quiet", "--message", "Begin"])?;
        git(&work, &["remote", "add", "origin", &bare.display().to_string()])?;
        git(&work, &["push", "--quiet", "origin", "main"])?;
        git(&work, &["fetch", "--quiet"]).map(drop)
    }
}

/// Runs git with an identity of the demo's own, and nothing of the user's.
fn git(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new("git");
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(variable);
    }
    let output = command
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .args(["-c", "user.name=Demo", "-c", "user.email=demo@localhost", "-c", "commit.gpgsign=false", "-C"])
        .arg(folder)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("git: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => {
            Err(format!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_as_the_demo_needs_them() {
        let root = tempfile::tempdir().unwrap();
        let gate = Gate::make(root.path()).unwrap().expect("git is installed");
        let settings = gate.settings();
        assert!(crate::commands::pipeline::settings::with_tenants(&settings).is_ok());
        let commit = gate.propose("farewell", "farewell.txt", "Goodbye.\n").unwrap();
        let head = git(&gate.repository(APP), &["rev-parse", "propose/main/farewell"]).unwrap();
        assert_eq!(commit, head);
        assert!(gate.newest().unwrap().ends_with(" Begin"));
        let mode = fs::metadata(gate.work(APP).join("test-politeness")).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111);
    }
}
