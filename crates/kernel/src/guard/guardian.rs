//! The guard process itself: single-threaded, small, and in nobody's way.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{self, ExitCode};

use nix::sys::signal::{SigSet, SigmaskHow};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, set_child_subreaper, wait,
};
use rustix::time::{TimerfdClockId, TimerfdFlags, Timespec, timerfd_create};

use super::channel;
use super::kill::{kill_all, signal};
use super::launch::launch;
use super::machine::{Effect, Facts, Right, State, step, wake_at};
use super::processes::{self, Process, ProcessId};
use super::protocol::{End, FRAME_BYTES, Order, Report, Start};
use super::terminal::Terminal;
use crate::clock::{Moment, arm};

/// What `ps` and `killall` call a guard. It differs from the wrapper's name, so that killing the wrapper by name spares
/// the guards that clean up after it.
pub(super) const NAME: &str = "guard";

/// Children that one pass reaps before it looks at orders and the clock again.
const REAPED_MAX: usize = 100;

/// Runs a guard process. `main` calls it, before anything else, when its first argument is
/// [`SUBCOMMAND`](super::SUBCOMMAND).
pub fn run() -> ExitCode {
    match guard() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The wrapper notices that we are gone and does our work. Standard error may be closed, too.
            let _ = writeln!(io::stderr(), "guard: {error}");
            ExitCode::FAILURE
        }
    }
}

fn guard() -> io::Result<()> {
    // A guard blocks all signals but SIGKILL. Blocks, not ignores: the command would inherit ignored signals.
    let blocked_before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let signals = SignalFd::with_flags(
        &SigSet::from(nix::sys::signal::Signal::SIGCHLD),
        SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK,
    )?;
    let channel = channel::take()?;
    set_child_subreaper(Some(getpid()))?;
    // Only cosmetic: a failure must not keep the command from running.
    let _ = fs::write("/proc/self/comm", NAME);
    loop {
        let (start, streams) = channel::receive_start(&channel)?;
        let launched = launch(&start, &streams, &blocked_before);
        // The command has them now. A pipe that we kept open would not end with the command.
        drop(streams);
        match launched {
            Ok(command) => Guard::new(&start, command, &channel, &signals)?.watch(command)?,
            Err(report) => return (&channel).write_all(&report.encode()),
        }
        channel.set_nonblocking(false)?;
        if !start.stays || !next_is_ordered(&channel) {
            return Ok(());
        }
    }
}

/// Waits for the order to run another command; `false` if the wrapper is gone.
fn next_is_ordered(mut channel: &UnixStream) -> bool {
    let mut frame = [0; FRAME_BYTES];
    while channel.read_exact(&mut frame).is_ok() {
        match Order::decode(&frame) {
            Some(Order::Next) => return true,
            // These were meant for the command that has ended.
            Some(Order::Signal(_) | Order::Deadline(_) | Order::Stop(_)) => {}
            None => return false,
        }
    }
    false
}

/// Everything a guard knows while a command runs.
struct Guard<'a> {
    channel: &'a UnixStream,
    /// Readable when a child has ended or stopped.
    signals: &'a SignalFd,
    /// Readable when the state machine's next step is due. A timer and not a time-out of `poll`, because `poll` does
    /// not count the time while the host is suspended.
    timer: OwnedFd,
    /// The command's pid, which is also its process group.
    command: Pid,
    /// How the command ended. From then on it is reaped, and its pid may belong to another process.
    end: Option<End>,
    /// A pass stopped at [`REAPED_MAX`]: children may be left that no further signal announces.
    more_to_reap: bool,
    terminal: Option<Terminal>,
    grace: u64,
    facts: Facts,
}

impl<'a> Guard<'a> {
    fn new(
        start: &Start,
        command: ProcessId,
        channel: &'a UnixStream,
        signals: &'a SignalFd,
    ) -> io::Result<Self> {
        let command = pid(command.pid).ok_or(io::ErrorKind::InvalidData)?;
        let wrapper = pid(start.terminal_group);
        let terminal = wrapper.and_then(|wrapper| Terminal::hand_over(wrapper, command));
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        channel.set_nonblocking(true)?;
        let facts = Facts {
            now: now(),
            deadline: start.deadline,
            stop_by: None,
            wrapper_lives: true,
            command_ended: false,
            any_left: true,
        };
        Ok(Self {
            channel,
            signals,
            timer,
            command,
            end: None,
            more_to_reap: false,
            terminal,
            grace: start.grace,
            facts,
        })
    }

    /// Runs until nothing of the command is left.
    fn watch(mut self, command: ProcessId) -> io::Result<()> {
        self.send(Report::Started { pid: command.pid, start: command.start });
        let mut state = State::Running;
        loop {
            self.gather()?;
            let (next, effect) = step(state, &self.facts, self.grace);
            state = next;
            match effect {
                Some(Effect::Terminate) => self.terminate(),
                Some(Effect::Kill) => self.kill(),
                Some(Effect::Report(right)) => self.report(right),
                None => {}
            }
            if state == State::Done {
                return Ok(());
            }
            self.sleep_until(wake_at(state, &self.facts, self.grace))?;
        }
    }

    fn gather(&mut self) -> io::Result<()> {
        while self.facts.wrapper_lives && self.apply_next_order()? {}
        while self.signals.read_signal()?.is_some() {}
        self.reap()?;
        self.facts.now = now();
        Ok(())
    }

    /// Applies the next order; `false` if there is none.
    fn apply_next_order(&mut self) -> io::Result<bool> {
        let mut frame = [0; FRAME_BYTES];
        let mut channel = self.channel;
        let order = match channel.read(&mut frame) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Ok(FRAME_BYTES) => Order::decode(&frame),
            // Frames are written whole. Anything else means that the wrapper is gone or broken.
            Ok(_) | Err(_) => None,
        };
        match order {
            Some(Order::Signal(number)) => {
                // A stopped command whose deadline has passed must not run again before it is killed.
                let is_over = self.facts.deadline <= now();
                let signal = Signal::from_named_raw(number);
                if let Some(signal) = signal.filter(|signal| !(is_over && *signal == Signal::CONT)) {
                    self.signal_group(signal);
                }
            }
            Some(Order::Deadline(deadline)) => self.facts.deadline = deadline,
            Some(Order::Stop(grace)) => {
                let stop_by = now().saturating_add(grace);
                self.facts.stop_by = Some(self.facts.stop_by.map_or(stop_by, |before| before.min(stop_by)));
            }
            // Not allowed now: something still runs.
            Some(Order::Next) | None => self.facts.wrapper_lives = false,
        }
        Ok(self.facts.wrapper_lives)
    }

    /// Reaps children that have ended: the command, and orphans of its descendants. At most [`REAPED_MAX`] at a time: a
    /// storm of short-lived processes must not keep us from looking at the clock.
    fn reap(&mut self) -> io::Result<()> {
        self.more_to_reap = false;
        for _ in 0..REAPED_MAX {
            match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((child, status))) if child == self.command => self.on_status(status),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return Ok(()),
                // Without children we have no descendants: an orphan would have become our child.
                Err(Errno::CHILD) => {
                    self.facts.any_left = false;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.more_to_reap = true;
        Ok(())
    }

    /// Handles the end or the stop of the command.
    fn on_status(&mut self, status: WaitStatus) {
        if let Some(code) = status.exit_status() {
            self.end = Some(End::Exited(code));
        } else if let Some(signal) = status.terminating_signal() {
            self.end = Some(End::Signaled(signal));
        } else if status.stopping_signal() == Some(Signal::TSTP.as_raw()) && self.terminal.is_some() {
            // Ctrl-Z. The shell waits for the wrapper and would give the terminal to nobody else.
            self.signal_group(Signal::CONT);
        }
        self.facts.command_ended = self.end.is_some();
    }

    fn signal_group(&self, signal: Signal) {
        if self.end.is_none() {
            // Fails if the whole group belongs to another user.
            let _ = kill_process_group(self.command, signal);
        }
    }

    /// Sends SIGTERM once to every descendant. To the command's group in one call: a shell that outlived its child by a
    /// moment would run its next line.
    fn terminate(&self) {
        self.signal_group(Signal::TERM);
        let all = processes::all().unwrap_or_default();
        for process in descendants(&all).iter().filter(|process| process.is_alive()) {
            let in_group = process.group == self.command.as_raw_nonzero().get().unsigned_abs();
            if !in_group || self.end.is_some() {
                signal(process.id, Signal::TERM);
            }
            if process.state == b'T' {
                signal(process.id, Signal::CONT);
            }
        }
    }

    fn kill(&self) {
        // Reading `/proc` may fail when the host is short of resources; the state machine repeats the kill.
        if kill_all(descendants).is_err() {
            self.signal_group(Signal::KILL);
        }
    }

    fn report(&mut self, right: Right) {
        // If the wrapper is gone, its shell has the terminal back.
        if let Some(terminal) = self.terminal.take().filter(|_| self.facts.wrapper_lives) {
            terminal.give_back();
        }
        match (self.end, right) {
            (Some(end), Right::Kept) => self.send(Report::Ended(end)),
            (Some(end), Right::Expired) => self.send(Report::Expired(end)),
            (None, _) => {}
        }
    }

    fn send(&self, report: Report) {
        // Fails if the wrapper is gone, which the next read of the channel shows.
        let mut channel = self.channel;
        let _ = channel.write_all(&report.encode());
    }

    /// Sleeps until this moment, or until there is something to gather.
    fn sleep_until(&self, moment: u64) -> io::Result<()> {
        arm(&self.timer, Moment::from_nanos(moment))?;
        let mut sources = vec![
            PollFd::from_borrowed_fd(self.timer.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
        ];
        // A closed channel would always be ready.
        if self.facts.wrapper_lives {
            sources.push(PollFd::from_borrowed_fd(self.channel.as_fd(), PollFlags::IN));
        }
        let at_once = Timespec::default();
        match poll(&mut sources, self.more_to_reap.then_some(&at_once)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Our descendants among all processes.
fn descendants(all: &[Process]) -> Vec<Process> {
    processes::descendants(all, &[process::id()])
}

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

/// The current time in the state machine's nanoseconds.
fn now() -> u64 {
    Moment::now().as_nanos()
}
