//! A store in its own folder, with a clock that the test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use menagerie_journal::store::Clock;
use menagerie_journal::{Config, Metrics, PartitionId, Store, StoreError, Ticks, Topic};
use prometheus_client::registry::Registry;
use tempfile::TempDir;

/// A clock for tests.
#[derive(Debug, Clone)]
pub struct TestClock(Arc<AtomicU64>);

impl TestClock {
    pub fn new() -> Self {
        Self(Arc::new(AtomicU64::new(Ticks::now().0)))
    }

    pub fn now(&self) -> Ticks {
        Ticks(self.0.load(Ordering::SeqCst))
    }

    pub fn ahead(&self, by: Duration) {
        self.set(self.now().plus(by));
    }

    pub fn back(&self, by: Duration) {
        self.set(self.now().minus(by));
    }

    fn set(&self, now: Ticks) {
        self.0.store(now.0, Ordering::SeqCst);
    }

    pub fn clock(&self) -> Clock {
        let ticks = self.0.clone();
        Clock::new(move || Ticks(ticks.load(Ordering::SeqCst)))
    }
}

/// A folder, and how stores in it are configured.
pub struct Rig {
    pub folder: TempDir,
    pub clock: TestClock,
    pub config: Config,
}

impl Rig {
    /// Small: segments, flushes and log segments come soon.
    pub fn small() -> Self {
        // In memory where possible: the tests are not about the disk, and a shared disk syncs slowly.
        let memory = std::path::Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let folder = folder.expect("a temporary folder");
        let clock = TestClock::new();
        let config = Config {
            // Memory file systems are small where tests run in containers.
            reserve_bytes: 0,
            flush_bytes: 4 << 10,
            segment_bytes: 16 << 10,
            log_segment_bytes: 64 << 10,
            clock: clock.clock(),
            ..Config::new(folder.path().join("journal"))
        };
        Self { folder, clock, config }
    }

    pub fn try_open(&self) -> Result<Store, StoreError> {
        Store::open(self.config.clone(), Metrics::new(&mut Registry::default()))
    }

    pub fn open(&self) -> Store {
        self.try_open().expect("the store opens")
    }
}

pub fn topic(name: &str) -> Topic {
    Topic::new(name).expect("a name")
}

pub fn partition(name: &str, number: u32) -> PartitionId {
    PartitionId::new(topic(name), number)
}
