//! `menagerie journal`: crashes under load, slow and full disks, and its commands.

mod commands;
mod crash;
#[cfg(feature = "strace")]
mod files;
#[cfg(feature = "strace")]
pub mod full;
mod hostile;
mod serving;
#[cfg(feature = "strace")]
mod strace;

use std::path::{Path, PathBuf};
use std::process::Command;

use menagerie_journal::client::Address;
use menagerie_journal::token::Token;
use menagerie_journal::{Client, PartitionId, Topic};
use menagerie_testkit::{Daemon, binary, free_port};
use tempfile::TempDir;

/// A journal process with a folder of its own.
pub struct Served {
    folder: TempDir,
    process: Daemon,
}

impl Served {
    pub fn start() -> Self {
        Self::start_under(&[], &[])
    }

    /// Runs it under another program, with more arguments.
    pub fn start_under(line: &[&str], args: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().expect("a temporary folder"), line, args)
    }

    /// In an existing folder.
    pub fn start_in(folder: TempDir, line: &[&str], args: &[&str]) -> Self {
        // A port that stays ours while it is down.
        let process = start(line, folder.path(), &format!("127.0.0.1:{}", free_port()), args);
        Self { folder, process }
    }

    /// kill -9, and restart on the same data and port, without the other program.
    pub fn crash(&mut self) {
        self.process.kill();
        self.process = start(&[], self.folder.path(), &self.process.address().to_string(), &[]);
    }

    pub fn client(&self) -> Client {
        let token = Token::read(&self.token_file()).expect("the token is there");
        Client::new(Address::plain(self.process.address().to_string(), token))
    }

    pub fn token_file(&self) -> PathBuf {
        self.seen().join("journal/token")
    }

    /// The data folder as the process sees it.
    pub fn seen(&self) -> PathBuf {
        let within = self.folder.path().strip_prefix("/").expect("a full path");
        Path::new("/proc").join(self.process.id().to_string()).join("root").join(within)
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().to_owned()
    }
}

fn start(line: &[&str], data: &Path, listen: &str, args: &[&str]) -> Daemon {
    let menagerie = binary();
    let mut words: Vec<&str> = line.to_vec();
    words.push(menagerie.to_str().expect("its name is text"));
    words.extend(["--log-level", "warn", "journal", "--unregistered", "--listen", listen, "--data"]);
    words.push(data.to_str().expect("its name is text"));
    words.extend(args);
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    Daemon::start("journal", command)
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

pub fn topic() -> Topic {
    Topic::new("mail").expect("a name")
}

pub fn spot(number: u32) -> PartitionId {
    PartitionId::new(topic(), number)
}
