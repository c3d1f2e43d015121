//! Commands that talk to ZooKeeper, on the chosen ensemble: output and exit codes.

mod check;
mod completions;
mod config;
mod doctor;
mod refusals;
mod status;
mod terminal;
mod transfer;
mod zk;

use std::io::Write as _;
use std::ops::Deref;
use std::process::{Output, Stdio};

use menagerie_testkit::{Environment, Proxy, ensemble};
use serde_json::Value;

/// A user who types commands: with an environment and a chroot of their own.
pub struct User {
    environment: Environment,
    pub servers: Option<String>,
}

impl Deref for User {
    type Target = Environment;

    fn deref(&self) -> &Environment {
        &self.environment
    }
}

/// What a command left.
pub struct Done {
    pub code: Option<i32>,
    stdout: Vec<u8>,
    pub stderr: String,
}

impl User {
    pub fn new(name: &str) -> Self {
        Self::at(ensemble().chroot(name))
    }

    /// A user without a ZooKeeper address.
    pub fn nowhere() -> Self {
        Self { environment: Environment::new(), servers: None }
    }

    pub fn at(servers: impl Into<String>) -> Self {
        let servers = servers.into();
        Self { environment: Environment::at(servers.as_str()), servers: Some(servers) }
    }

    pub fn with(mut self, variable: &'static str, value: impl Into<String>) -> Self {
        self.environment = self.environment.with(variable, value);
        self
    }

    /// For a static: see [`Environment::lasting`].
    pub fn lasting(mut self) -> Self {
        self.environment = self.environment.lasting();
        self
    }

    /// The connect string of this user's chroot through a proxy.
    pub fn servers_through_proxy(&self) -> (String, Proxy) {
        Proxy::before(self.servers.as_deref().expect("this user knows where ZooKeeper is"))
    }

    pub fn run(&self, args: &[&str]) -> Done {
        self.run_with(args, b"")
    }

    pub fn run_with(&self, args: &[&str], stdin: &[u8]) -> Done {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it can be started");
        // The command may end without reading all of it.
        let _ = child.stdin.take().expect("it is piped").write_all(stdin);
        Done::of(child.wait_with_output().expect("a child can be waited for"))
    }

    /// Runs a command, insists on success, and returns its output.
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

    /// Runs a command, and insists that it fails with this code and these words.
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
