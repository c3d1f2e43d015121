//! The clock of this host, which the loops of all queues share and check.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use menagerie_journal::store::Clock;
use menagerie_kernel::recipes::grant::Grant;
use menagerie_kernel::{CallError, Moment, retry};

use super::clock::{ClockCheck, Reading};
use super::cron::ScheduleError;

/// Between two observations of a process that has nothing to put. Often enough to notice a jump before it is elected.
const OBSERVE_INTERVAL: Duration = Duration::from_secs(10);

/// Cheap to clone; clones share what is known about the clock.
#[derive(Debug, Clone)]
pub(super) struct HostClock {
    wall: Clock,
    /// A std mutex: it is held for a few comparisons.
    check: Arc<Mutex<ClockCheck>>,
}

impl HostClock {
    pub(super) fn new(wall: Clock) -> Self {
        let check = Arc::new(Mutex::new(ClockCheck::new(read(&wall))));
        Self { wall, check }
    }

    /// The time in seconds since 1970, unless the clock is doubted.
    pub(super) fn now(&self) -> Result<i64, ScheduleError> {
        let mut check = self.check.lock().expect("nobody panics with it");
        check.observe(read(&self.wall)).map_err(|ahead| ScheduleError::Clock { ahead })
    }

    /// How long it is until this time.
    pub(super) fn until(&self, time: i64) -> Duration {
        let since_1970 = SystemTime::from(self.wall.now()).duration_since(UNIX_EPOCH).unwrap_or_default();
        Duration::from_secs(u64::try_from(time).unwrap_or(0)).saturating_sub(since_1970)
    }

    /// Observes the clock from time to time, for ever.
    pub(super) async fn observe(&self) -> Infallible {
        loop {
            // Whoever puts something complains.
            let _ = self.now();
            tokio::time::sleep(OBSERVE_INTERVAL).await;
        }
    }

    /// Compares it with ZooKeeper's clock, which a write to our ticket shows. `name` is what is there already.
    pub(super) async fn compare(&self, grant: &Grant, name: &str) -> Result<(), CallError> {
        let written = retry::touch(grant.term(), grant.ticket(), name.as_bytes()).await?;
        let server = Reading { wall: written.mtime_ms / 1000, boot: Moment::now() };
        self.check.lock().expect("nobody panics with it").on_elected(server);
        Ok(())
    }
}

fn read(wall: &Clock) -> Reading {
    Reading { wall: super::seconds(wall.now().into()), boot: Moment::now() }
}
