//! Commands that talk to ZooKeeper, on whatever ensemble was chosen: what they print, and what they leave to their parent.

mod check;
mod config;
mod doctor;
mod refusals;
mod status;
mod terminal;
mod transfer;
mod zk;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use menagerie_testkit::{Process, binary, ensemble};
use serde_json::Value;
use tempfile::TempDir;

/// Somebody who types commands: in a folder of their own, with nothing in their environment, and a root of their own in
/// the ensemble.
pub struct User {
    home: TempDir,
    pub servers: Option<String>,
    variables: Vec<(&'static str, String)>,
}

/// What a command left.
pub struct Done {
    pub code: Option<i32>,
    stdout: Vec<u8>,
    pub stderr: String,
}

impl User {
    pub fn new(name: &str) -> Self {
        Self { servers: Some(ensemble().chroot(name)), ..Self::nowhere() }
    }

    /// One who does not say where ZooKeeper is.
    pub fn nowhere() -> Self {
        let home = tempfile::tempdir().expect("a temporary directory can be made");
        Self { home, servers: None, variables: Vec::new() }
    }

    pub fn at(servers: impl Into<String>) -> Self {
        Self { servers: Some(servers.into()), ..Self::nowhere() }
    }

    pub fn with(mut self, variable: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((variable, value.into()));
        self
    }

    pub fn folder(&self) -> &Path {
        self.home.path()
    }

    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.folder().join(name);
        std::fs::create_dir_all(path.parent().expect("it lies in a folder")).expect("a folder can be made");
        std::fs::write(&path, text).expect("a file can be written");
        path.to_str().expect("its name is text").to_owned()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("MENAGERIE_"))
        {
            command.env_remove(name);
        }
        command.args(args).current_dir(self.folder()).env("HOME", self.folder());
        // Root would otherwise look where the system keeps its own.
        command.env("MENAGERIE_DATA", self.folder().join("data"));
        if let Some(servers) = &self.servers {
            command.env("MENAGERIE_ZOOKEEPER", servers);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The same, started by another program that is given it as its last arguments.
    pub fn command_under(&self, line: &[&str], args: &[&str]) -> Command {
        let (ours, mut command) = (self.command(args), Command::new(line[0]));
        command.args(&line[1..]).arg(ours.get_program()).args(ours.get_args()).current_dir(self.folder());
        for (name, value) in ours.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// Starts a command that goes on until it is stopped.
    pub fn start(&self, args: &[&str]) -> Process {
        Process::spawn(&mut self.command(args))
    }

    pub fn run(&self, args: &[&str]) -> Done {
        self.run_with(args, b"")
    }

    pub fn run_with(&self, args: &[&str], stdin: &[u8]) -> Done {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it can be started");
        // It may end without reading all of it.
        let _ = child.stdin.take().expect("it is piped").write_all(stdin);
        Done::of(child.wait_with_output().expect("a child can be waited for"))
    }

    /// Runs it, insists on success, and gives what it printed.
    #[track_caller]
    pub fn ok(&self, args: &[&str]) -> String {
        let done = self.run(args);
        assert_eq!(done.code, Some(0), "{args:?}: {}", done.stderr);
        done.text()
    }

    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Value {
        let text = self.ok(&[args, &["-o", "json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"))
    }

    /// Runs it, and insists that it fails with this code and says all of this.
    #[track_caller]
    pub fn fails(&self, args: &[&str], code: i32, words: &[&str]) {
        let done = self.run(args);
        assert_eq!(done.code, Some(code), "{args:?}: {}{}", done.text(), done.stderr);
        for word in words {
            assert!(done.stderr.contains(word), "{word:?} is missing in:\n{}", done.stderr);
        }
    }
}

impl Done {
    pub fn of(Output { status, stdout, stderr }: Output) -> Self {
        Self { code: status.code(), stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}
