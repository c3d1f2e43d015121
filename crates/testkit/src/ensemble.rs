//! Which servers a suite runs on.

use std::env;

use crate::apache::Apache;
use crate::keeper::Keeper;
use crate::quorum;
use crate::server::Server;
use crate::servers::Servers;

/// The tick of all ensembles: sessions may ask for time-outs of 2 to 20 ticks, 800 ms to 8 s. Short, so that tests
/// can wait for a session to expire; long enough for a session to survive on a busy machine.
pub const TICK_MS: u32 = 400;

/// The servers that suites above the protocol run on. Tests must not depend on which.
///
/// None of them syncs its log: the operating system writes it, which survives SIGKILL, and only tests of the servers
/// themselves need more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ensemble {
    /// Our own keeper.
    Keeper,
    /// Debian's Apache ZooKeeper, one server.
    Apache,
    /// Debian's Apache ZooKeeper, three servers.
    Apache3,
}

impl Ensemble {
    /// The ensemble that `MENAGERIE_TEST_ENSEMBLE` names; our own keeper if it is not set.
    ///
    /// # Panics
    /// If it names none: a typo must not silently test the wrong thing.
    pub fn from_env() -> Self {
        match env::var("MENAGERIE_TEST_ENSEMBLE").as_deref() {
            Err(env::VarError::NotPresent) | Ok("keeper") => Self::Keeper,
            Ok("apache") => Self::Apache,
            Ok("apache3") => Self::Apache3,
            other => panic!("MENAGERIE_TEST_ENSEMBLE is {other:?}; it can be keeper, apache or apache3"),
        }
    }

    /// Starts fresh servers as processes, for a test that restarts, pauses or kills them. All other tests share
    /// [`ensemble()`](crate::ensemble()).
    ///
    /// # Panics
    /// If a prerequisite is not installed.
    pub fn start_own(self) -> Servers {
        match self {
            Self::Keeper => Servers::single(keeper()),
            Self::Apache => Servers::single(apache().start()),
            Self::Apache3 => quorum::start(),
        }
    }
}

fn keeper() -> Server {
    Keeper::new().args(["--tick", &TICK_MS.to_string(), "--durability", "os"]).start()
}

/// Small, quick and not durable.
pub(crate) fn apache() -> Apache {
    Apache::new().tick_ms(TICK_MS).lean().unsynced()
}
