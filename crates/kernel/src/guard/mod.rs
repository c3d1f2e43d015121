//! The guard process: it makes sure that nothing of a program outlives the program's right to run.
//!
//! A *wrapper* (the process that calls [`spawn`]) starts a *guard* (the same executable, see [`run`]), which starts the
//! *command*. The guard is the subreaper of everything below it, so no descendant can leave it by a double fork or a
//! new session. It knows the deadline and acts on it alone. `docs/guard.md` says what it promises and what it cannot
//! promise.
//!
//! # Layout
//! - [`Command`] says what to run; [`spawn`] runs it ([`prepare`] is its first half); [`Guarded`] is the running command, [`Control`] gives orders to its
//!   guard, [`Outcome`] says how it ended. `sweep.rs`: what the wrapper does when its guard was killed.
//!   [`ReusableGuard`]: a guard that runs one command after the other.
//! - `machine.rs` decides what the guard does next (pure); `guardian.rs` does it, with `launch.rs` and `terminal.rs`.
//! - `protocol.rs` defines the messages between wrapper and guard (pure); `channel.rs` carries them.
//! - `secrets.rs` decides which of our environment variables a command does not get.
//! - `processes.rs` reads `/proc`; `kill.rs` signals what was found there.
//!
//! # Invariants
//! - `machine.rs` and `protocol.rs` do no IO and read no clock.
//! - A signal goes to a process whose identity was checked, never to a pid that may have been reused (`kill.rs`).
//! - No secret of ours is in the environment of a guard or a command: both may run as somebody else.
//! - The channel never reaches the command: it would then stay open when the wrapper dies.

mod channel;
mod command;
mod error;
mod guarded;
mod guardian;
mod kill;
mod launch;
mod machine;
mod outcome;
mod processes;
mod protocol;
mod reusable;
mod secrets;
mod spawn;
mod sweep;
mod terminal;

pub use command::{Command, Stream};
pub use error::GuardError;
pub use guarded::{Control, Guarded};
pub use guardian::run;
pub use outcome::Outcome;
pub use processes::ProcessId;
pub use reusable::ReusableGuard;
pub use spawn::{Prepared, SUBCOMMAND, prepare, spawn, this_program};
