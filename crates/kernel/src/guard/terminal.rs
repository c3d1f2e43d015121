//! The foreground of the terminal: the one process group that may read it and gets its Ctrl-C.

use std::fs::{File, OpenOptions};

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The terminal, while the command is in its foreground. The guard blocks SIGTTOU, so it may change the foreground
/// group from the background.
#[derive(Debug)]
pub(super) struct Terminal {
    terminal: File,
    wrapper: Pid,
}

impl Terminal {
    /// Puts the command's group into the foreground, if the wrapper's is there now. If it is not, or there is no terminal,
    /// nothing changes hands.
    pub(super) fn hand_over(wrapper: Pid, command: Pid) -> Option<Self> {
        let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        if tcgetpgrp(&terminal).ok()? != wrapper {
            return None;
        }
        tcsetpgrp(&terminal, command).ok()?;
        // It runs already; if it was quick to read, the terminal has stopped it. SIGCONT does nothing to a process that
        // runs.
        let _ = kill_process_group(command, Signal::CONT);
        Some(Self { terminal, wrapper })
    }

    /// Puts the wrapper's group back.
    pub(super) fn give_back(self) {
        // Fails only if the terminal is gone.
        let _ = tcsetpgrp(&self.terminal, self.wrapper);
    }
}
