//! Repositories, and `menagerie up` over them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

const TOML: &str = "[pipelines]
tenants = \"tenants.yaml\"
[pipelines.connections.local]
driver = \"git\"
baseurl = \"git\"
submit = { Approved = 1 }
";
const TENANTS: &str = "
- tenant:
    name: main
    source:
      local:
        config-projects: [config]
        untrusted-projects: [app]
";
const PIPELINES: &str = "
- pipeline:
    name: check
    manager: independent
    trigger: {local: [{event: patchset-created}]}
- pipeline:
    name: gate
    manager: dependent
    trigger: {local: [{event: comment-added, approval: [{Approved: 1}]}]}
    success: {local: {Verified: 2, submit: true}}
    failure: {local: {Verified: -2}}
";
const JOBS: &str = "
- job: {name: stamp, run: stamp.sh, files: [^stamp/.*]}
- job: {name: a, run: true.sh}
- job: {name: b, run: true.sh}
- job: {name: c, run: true.sh}
- project:
    check: {jobs: [stamp]}
    gate: {jobs: [a, b, c]}
";

/// Everything, in a folder that goes with it.
pub struct Site {
    folder: TempDir,
    menagerie: PathBuf,
    up: Child,
}

impl Site {
    /// Makes repositories, starts `menagerie up`, installs the hook.
    pub fn start(menagerie: &Path, scratch: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("bench-pipelines-").tempdir_in(scratch)?;
        let root = folder.path();
        fs::write(root.join("menagerie.toml"), TOML)?;
        fs::write(root.join("tenants.yaml"), TENANTS)?;
        let stamp = format!(
            "#!/bin/sh\ndate +%s.%N > {}/$ZUUL_PATCHSET.new\nmv {0}/$ZUUL_PATCHSET.new {0}/$ZUUL_PATCHSET\n",
            root.display()
        );
        make(root, "config", &[("zuul.yaml", PIPELINES)])?;
        make(root, "app", &[(".zuul.yaml", JOBS), ("true.sh", "#!/bin/sh\n"), ("stamp.sh", &stamp)])?;
        let mut command = program(menagerie, root);
        command.arg("up").args(["--keeper-listen", "127.0.0.1:0", "--journal-listen", "127.0.0.1:0"]);
        command.args(["--slots-listen", "127.0.0.1:0", "--queue-listen", "127.0.0.1:0"]);
        command.args(["--web-listen", "127.0.0.1:0"]);
        let mut up = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start menagerie up")?;
        let lines = BufReader::new(up.stdout.take().context("its output is piped")?).lines();
        let mut site = Self { folder, menagerie: menagerie.to_owned(), up };
        site.read_until_ready(lines)?;
        site.menagerie(&["pipeline", "hook", "git/app", "--connection", "local", "--project", "app"])?;
        site.wait()?;
        Ok(site)
    }

    fn read_until_ready(
        &mut self,
        mut lines: impl Iterator<Item = std::io::Result<String>> + Send + 'static,
    ) -> Result<()> {
        for line in lines.by_ref() {
            if line?.starts_with("Ctrl-C") {
                // Whatever it says later must not block it.
                std::thread::spawn(move || lines.for_each(drop));
                return Ok(());
            }
        }
        bail!("menagerie up has ended: {:?}", self.up.wait()?)
    }

    fn menagerie(&self, args: &[&str]) -> Result<String> {
        let output = program(&self.menagerie, self.folder.path()).args(args).output()?;
        ensure!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Waits until nothing is queued.
    pub fn wait(&self) -> Result<()> {
        self.menagerie(&["pipeline", "wait", "--timeout", "120s"]).map(drop)
    }

    /// Commits changes, with their approvals; nothing is pushed.
    pub fn prepare(&self, changes: usize) -> Result<()> {
        let work = self.folder.path().join("work/app");
        for number in 0..changes {
            let branch = format!("change-{number}");
            git(&work, &["checkout", "-q", "-b", &branch, "main"])?;
            fs::write(work.join(&branch), "x")?;
            git(&work, &["add", "."])?;
            git(&work, &["commit", "-q", "-m", &branch])?;
            let change = format!("app:propose/main/{branch}");
            let line =
                json!({"id": branch, "change": change, "by": "bench", "at_ms": 0, "votes": {"Approved": 1}});
            git(&work, &["notes", "--ref=menagerie", "add", "-m", &line.to_string(), "HEAD"])?;
        }
        Ok(())
    }

    /// Proposes and approves all of them with one push.
    pub fn push(&self, changes: usize) -> Result<()> {
        let refs =
            (0..changes).map(|number| format!("change-{number}:refs/heads/propose/main/change-{number}"));
        let refs: Vec<String> = refs.chain(["refs/notes/menagerie".to_owned()]).collect();
        let mut args = vec!["push", "-q", "origin"];
        args.extend(refs.iter().map(String::as_str));
        git(&self.folder.path().join("work/app"), &args).map(drop)
    }

    /// How many changes were merged.
    pub fn merged(&self) -> Result<usize> {
        let text =
            self.menagerie(&["pipeline", "history", "--pipeline", "gate", "--limit", "0", "-o", "json"])?;
        let all: Vec<Value> = serde_json::from_str(&text)?;
        Ok(all.iter().filter(|buildset| buildset["refs"][0]["merged"] == true).count())
    }

    /// Proposes a change whose job writes the time into a file; returns that file's path.
    pub fn propose_stamp(&self, number: usize) -> Result<PathBuf> {
        let work = self.folder.path().join("work/app");
        git(&work, &["checkout", "-q", "-B", "stamped", "main"])?;
        fs::create_dir_all(work.join("stamp"))?;
        fs::write(work.join(format!("stamp/{number}")), "x")?;
        git(&work, &["add", "."])?;
        git(&work, &["commit", "-q", "-m", "stamp"])?;
        let patchset = git(&work, &["rev-parse", "HEAD"])?;
        git(&work, &["push", "-q", "origin", &format!("HEAD:refs/heads/propose/main/stamp-{number}")])?;
        Ok(self.folder.path().join(patchset))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.up.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let _ = self.up.wait();
    }
}

/// Seconds since 1970.
pub fn now() -> Result<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64())
}

fn program(menagerie: &Path, root: &Path) -> Command {
    let mut command = Command::new(menagerie);
    command.current_dir(root).env("HOME", root).env("MENAGERIE_DATA", root.join("data"));
    command
}

/// A bare repository with these files on `main`, and a clone of it.
pub fn make(root: &Path, project: &str, files: &[(&str, &str)]) -> Result<()> {
    let (bare, work) = (root.join("git").join(project), root.join("work").join(project));
    fs::create_dir_all(&bare)?;
    git(&bare, &["init", "-q", "--bare", "-b", "main", "."])?;
    fs::create_dir_all(&work)?;
    git(&work, &["init", "-q", "-b", "main", "."])?;
    git(&work, &["remote", "add", "origin", bare.to_str().context("a folder's name is text")?])?;
    for (name, text) in files {
        let path = work.join(name);
        fs::write(&path, text)?;
        if name.ends_with(".sh") {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
    }
    git(&work, &["add", "."])?;
    git(&work, &["commit", "-q", "-m", "the beginning"])?;
    git(&work, &["push", "-q", "origin", "main"]).map(drop)
}

/// Runs git and returns what it prints.
pub fn git(folder: &Path, args: &[&str]) -> Result<String> {
    let identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
    let output = Command::new("git")
        .current_dir(folder)
        .args(identity)
        .args(args)
        .output()
        .context("cannot run git")?;
    ensure!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
