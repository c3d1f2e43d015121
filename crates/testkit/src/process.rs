//! A child process whose output is kept and which never outlives its owner.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::binary::binary;
use crate::guard::Guard;
use crate::wait::{DEADLINE, poll};

/// How a process ended.
#[expect(missing_docs, reason = "fields name themselves")]
#[derive(Debug)]
pub struct End {
    pub status: ExitStatus,
    /// Lines of standard output not consumed by a wait.
    pub stdout: Vec<String>,
    /// All of standard error.
    pub stderr: String,
}

/// A running child. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Lines of standard output as they arrive.
    lines: Receiver<String>,
    /// Standard error so far, to explain a failed start.
    stderr: Arc<Mutex<String>>,
    /// Reads standard error to its end.
    reader: Option<JoinHandle<()>>,
    /// Kills it if this process ends first.
    _guard: Guard,
}

impl Process {
    /// Starts `menagerie` with these arguments.
    pub fn menagerie<'a>(args: impl IntoIterator<Item = &'a str>) -> Self {
        Self::spawn(Command::new(binary()).args(args))
    }

    /// Starts the command and keeps reading its output, so that it never blocks on a full pipe.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn spawn(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => panic!("cannot start {command:?}: {error}"),
        };
        let stdout = child.stdout.take().expect("standard output is piped");
        let errors = child.stderr.take().expect("standard error is piped");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // The receiver may be gone; the pipe must be drained all the same.
                let _ = sender.send(line);
            }
        });
        let stderr = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&stderr);
        let reader = Some(thread::spawn(move || keep(errors, &kept)));
        let guard = Guard::of_process(child.id());
        Self { child, lines, stderr, reader, _guard: guard }
    }

    /// The first line of standard output that `wanted` accepts.
    ///
    /// # Panics
    /// If there is none in time.
    #[track_caller]
    pub fn wait_for_line<T>(&self, what: &str, wanted: impl Fn(&str) -> Option<T>) -> T {
        let deadline = Instant::now() + DEADLINE;
        while let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if let Some(value) = wanted(&line) {
                return value;
            }
        }
        panic!("process {} did not say {what}; its standard error:\n{}", self.child.id(), self.stderr());
    }

    /// Waits for a role's ready line, `<role> ready on HOST:PORT` or `<role> ready as NAME`, and returns its last
    /// word: its address or name.
    ///
    /// # Panics
    /// If there is none in time.
    #[track_caller]
    pub fn wait_until_ready(&self, role: &str) -> String {
        self.wait_for_line(&format!("{role} ready"), |line| {
            let rest = line.strip_prefix(role)?.strip_prefix(" ready")?;
            Some(rest.split_whitespace().last().unwrap_or_default().to_owned())
        })
    }

    /// The same for a role that listens; returns its address.
    ///
    /// # Panics
    /// If it does not report it in time.
    #[track_caller]
    pub fn wait_until_listening(&self, role: &str) -> SocketAddr {
        let ready = self.wait_until_ready(role);
        ready.parse().unwrap_or_else(|_| panic!("{role} is ready, but not on an address: {ready:?}"))
    }

    /// Polls `condition` until it holds; fails at once when the process ends.
    ///
    /// # Panics
    /// If it does not hold in time.
    #[track_caller]
    pub fn wait_until(&mut self, what: &str, patience: Duration, mut condition: impl FnMut() -> bool) {
        let ready = poll(patience, || {
            let ended = self.child.try_wait().is_ok_and(|status| status.is_some());
            (ended || condition()).then_some(!ended)
        });
        assert!(ready == Some(true), "{what} is not ready; its standard error:\n{}", self.stderr());
    }

    /// All of standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Kills it (SIGKILL).
    pub fn kill(&mut self) -> ExitStatus {
        // Fails only for a process that has ended already, which is what we want.
        let _ = self.child.kill();
        self.child.wait().expect("a child can be waited for")
    }

    /// Stops it (SIGTERM) and waits for its end.
    ///
    /// # Panics
    /// If it does not end in time, or was waited for already.
    #[track_caller]
    pub fn stop(&mut self) -> End {
        self.signal(Signal::TERM);
        self.wait_for_end()
    }

    /// Waits until it has ended.
    ///
    /// # Panics
    /// If it does not end in time.
    #[track_caller]
    pub fn wait_for_end(&mut self) -> End {
        let ended = poll(DEADLINE, || self.child.try_wait().expect("a child can be waited for"));
        let status = ended.unwrap_or_else(|| {
            panic!("process {} does not end; its standard error:\n{}", self.child.id(), self.stderr())
        });
        // Its last lines may still be in the pipe.
        if let Some(reader) = self.reader.take() {
            reader.join().expect("reading standard error does not panic");
        }
        End { status, stdout: self.lines.iter().collect(), stderr: self.stderr() }
    }

    /// How it ended, if it has.
    ///
    /// # Panics
    /// If somebody else has waited for it.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// The pid.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// If it has ended and was waited for.
    pub fn signal(&self, signal: Signal) {
        if let Err(error) = kill_process(Pid::from_child(&self.child), signal) {
            panic!("cannot send {signal:?} to process {}: {error}", self.child.id());
        }
    }

    /// Freezes it (SIGSTOP). Returns when none of its threads runs: the signal alone lets them finish their current
    /// system call.
    ///
    /// # Panics
    /// If it has ended.
    #[track_caller]
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        let stopped = poll(DEADLINE, || {
            let child = WaitId::Pid(Pid::from_child(&self.child));
            waitid(child, WaitIdOptions::STOPPED | WaitIdOptions::NOHANG).ok().flatten()
        });
        assert!(
            stopped.is_some(),
            "process {} does not stop; its standard error:\n{}",
            self.id(),
            self.stderr()
        );
    }

    /// Ends a [`pause`](Self::pause).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn keep(mut from: impl Read, into: &Mutex<String>) {
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        into.lock().unwrap_or_else(PoisonError::into_inner).push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
}
