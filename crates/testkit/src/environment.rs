//! The environment of `menagerie` processes.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::binary::binary;
use crate::daemon::Daemon;
use crate::guard::Guard;
use crate::ports::free_port;
use crate::process::Process;

/// Prefix of the variables that configure `menagerie`.
const PREFIX: &str = "MENAGERIE_";

/// What a `menagerie` process finds: a folder of its own, which is its home, working directory and data folder; and
/// of the variables that configure it only those that the test set, whatever the test itself was started with.
#[derive(Debug)]
pub struct Environment {
    folder: TempDir,
    /// Removes the folder if this process ends first.
    _guard: Option<Guard>,
    variables: Vec<(&'static str, String)>,
}

impl Environment {
    /// An environment in which nothing is configured, not even ZooKeeper.
    #[expect(clippy::new_without_default, reason = "it makes a directory, which nobody expects of a default")]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        Self { folder, _guard: None, variables: Vec::new() }
    }

    /// For a static, which is never dropped: the folder is removed when the test binary ends, however it does.
    pub fn lasting(mut self) -> Self {
        self._guard = Some(Guard::of_folder(self.folder()));
        self
    }

    /// An environment with these ZooKeeper servers: `host:port[,host:port…][/chroot]`.
    pub fn at(servers: impl Into<String>) -> Self {
        Self::new().with("MENAGERIE_ZOOKEEPER", servers)
    }

    /// Sets a variable for processes started from now on.
    pub fn with(mut self, variable: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((variable, value.into()));
        self
    }

    /// The folder; dropping the environment removes it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file in the folder and returns its full path.
    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.folder().join(name);
        fs::create_dir_all(path.parent().expect("it lies in a folder")).expect("a folder can be made");
        fs::write(&path, text).expect("a file can be written");
        path.to_str().expect("its name is text").to_owned()
    }

    /// `menagerie` with these arguments, not started yet.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with(PREFIX)) {
            command.env_remove(name);
        }
        command.args(args).current_dir(self.folder()).env("HOME", self.folder());
        // Otherwise root would use the system's data folder.
        command.env("MENAGERIE_DATA", self.folder().join("data"));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The same, started by another program that takes it as its last arguments.
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

    /// Starts a command without waiting.
    pub fn spawn(&self, args: &[&str]) -> Process {
        Process::spawn(&mut self.command(args))
    }

    /// Starts a role and waits until it is ready. The first argument is its kind.
    ///
    /// # Panics
    /// If it does not report ready in time.
    #[track_caller]
    pub fn start(&self, args: &[&str]) -> Daemon {
        Daemon::start(args[0], self.command(args))
    }

    /// The same for a role that listens, on a port that stays reserved while it is down.
    ///
    /// # Panics
    /// If it does not report ready in time.
    #[track_caller]
    pub fn serve(&self, args: &[&str]) -> Daemon {
        let address = format!("127.0.0.1:{}", free_port());
        self.start(&[args, &["--listen", &address]].concat())
    }
}
