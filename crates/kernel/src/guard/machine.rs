//! What the guard does next. Pure: facts in, an effect out.

/// What is true now. Levels, not edges: signals and wake-ups coalesce. Times are nanoseconds of one clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    pub now: u64,
    /// When everything must be gone; `u64::MAX` for never. It may have moved since the last step.
    pub deadline: u64,
    /// When to send SIGKILL after an order to stop.
    pub stop_by: Option<u64>,
    /// The wrapper still holds its end of the channel.
    pub wrapper_lives: bool,
    /// The command itself has ended; what it started may not have.
    pub command_ended: bool,
    /// The command or something that it started is left.
    pub any_left: bool,
}

/// Whether the command lost its right to run before it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Right {
    Kept,
    Expired,
}

/// How far the guard has come. It only ever moves down this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Running,
    /// All got SIGTERM; at `kill_at` they get SIGKILL.
    Terminating {
        kill_at: u64,
        right: Right,
    },
    /// All got SIGKILL; whatever is left `at` this time gets it again, and the next time after twice the `pause`.
    Killing {
        at: u64,
        pause: u64,
        right: Right,
    },
    Done,
}

/// What the guard has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// SIGTERM to all that is left.
    Terminate,
    /// SIGKILL to all that is left.
    Kill,
    /// Nothing is left: report it.
    Report(Right),
}

/// A process that takes longer than this to die hangs in the kernel, or was started between two scans.
const KILL_PAUSE_MIN: u64 = 5_000_000;
/// A process that cannot be killed (it sleeps in the kernel, or belongs to another user) is tried once a second.
const KILL_PAUSE_MAX: u64 = 1_000_000_000;

/// The next state, and what to do on the way. `grace` is the time from SIGTERM to SIGKILL.
pub(super) fn step(state: State, facts: &Facts, grace: u64) -> (State, Option<Effect>) {
    let right = right(state, facts, grace);
    match state {
        State::Done => (State::Done, None),
        State::Running | State::Terminating { .. } | State::Killing { .. } if !facts.any_left => {
            (State::Done, Some(Effect::Report(right)))
        }
        State::Running | State::Terminating { .. } if kill_at(state, facts, grace) <= facts.now => {
            let at = facts.now.saturating_add(KILL_PAUSE_MIN);
            (State::Killing { at, pause: KILL_PAUSE_MIN, right }, Some(Effect::Kill))
        }
        State::Running if facts.command_ended || facts.stop_by.is_some() || is_due(facts, grace) => {
            (State::Terminating { kill_at: kill_at(state, facts, grace), right }, Some(Effect::Terminate))
        }
        State::Running => (State::Running, None),
        State::Terminating { .. } => {
            (State::Terminating { kill_at: kill_at(state, facts, grace), right }, None)
        }
        State::Killing { at, pause, .. } if at <= facts.now => {
            let pause = (pause * 2).min(KILL_PAUSE_MAX);
            (State::Killing { at: facts.now.saturating_add(pause), pause, right }, Some(Effect::Kill))
        }
        State::Killing { at, pause, .. } => (State::Killing { at, pause, right }, None),
    }
}

/// When to step again if nothing else happens; `u64::MAX` for never.
pub(super) fn wake_at(state: State, facts: &Facts, grace: u64) -> u64 {
    match state {
        State::Running => term_at(facts.deadline, grace),
        State::Terminating { kill_at, .. } => kill_at,
        State::Killing { at, .. } => at,
        State::Done => u64::MAX,
    }
}

/// SIGTERM comes one grace early, so that SIGKILL falls on the deadline itself.
fn term_at(deadline: u64, grace: u64) -> u64 {
    if deadline == u64::MAX { u64::MAX } else { deadline.saturating_sub(grace) }
}

fn is_due(facts: &Facts, grace: u64) -> bool {
    term_at(facts.deadline, grace) <= facts.now
}

/// The earliest time at which anything calls for SIGKILL. After SIGTERM, a later deadline gives no more time: SIGTERM
/// cannot be taken back.
fn kill_at(state: State, facts: &Facts, grace: u64) -> u64 {
    if !facts.wrapper_lives {
        // Without the wrapper nobody can extend the deadline, take the result, or release what is held for this
        // command.
        return facts.now;
    }
    let promised = match state {
        State::Terminating { kill_at, .. } => kill_at,
        State::Running if facts.command_ended => facts.now.saturating_add(grace),
        State::Running | State::Killing { .. } | State::Done => u64::MAX,
    };
    promised.min(facts.deadline).min(facts.stop_by.unwrap_or(u64::MAX))
}

/// Expired if the command got SIGTERM or SIGKILL because of the deadline; never for a command that had ended before.
fn right(state: State, facts: &Facts, grace: u64) -> Right {
    let so_far = match state {
        State::Running | State::Done => Right::Kept,
        State::Terminating { right, .. } | State::Killing { right, .. } => right,
    };
    let expires_now = match state {
        State::Running => facts.stop_by.is_none() && is_due(facts, grace) || facts.deadline <= facts.now,
        State::Terminating { .. } => facts.deadline <= facts.now,
        State::Killing { .. } | State::Done => false,
    };
    if expires_now && !facts.command_ended { Right::Expired } else { so_far }
}

#[cfg(test)]
mod tests;
