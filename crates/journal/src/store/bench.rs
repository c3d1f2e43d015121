//! A bench for tests of the log loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::registry::Registry;
use tempfile::TempDir;

use super::log_loop::LogLoop;
use super::{Clock, Config, Metrics, Store};
use crate::commit::{Append, Commit, NewMessage};
use crate::core::decide::Proposal;
use crate::core::state::PartitionKey;
use crate::id::Ticks;
use crate::topic::{PartitionId, Topic, TopicConfig};

/// A log loop that the test drives by hand, and its clock.
pub(super) struct Bench {
    pub(super) log_loop: LogLoop,
    pub(super) clock: Arc<AtomicU64>,
    folder: TempDir,
}

impl Bench {
    pub(super) fn new(flush_bytes: u64) -> Self {
        Self::with(flush_bytes, TopicConfig::default())
    }

    /// With one topic.
    pub(super) fn with(flush_bytes: u64, config: TopicConfig) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(AtomicU64::new(1_000_000));
        let mut bench = Self { log_loop: prepare(&folder, &clock, flush_bytes), clock, folder };
        bench.propose(Proposal::Create { topic: Topic::new("mail").unwrap(), config });
        bench
    }

    /// The same after a crash.
    pub(super) fn reopen(self) -> Self {
        let Self { log_loop, clock, folder } = self;
        let flush_bytes = log_loop.shared.config.flush_bytes;
        drop(log_loop);
        Self { log_loop: prepare(&folder, &clock, flush_bytes), clock, folder }
    }

    /// The same after an orderly end.
    pub(super) fn close_and_open(self) -> Self {
        let Self { log_loop, clock, folder } = self;
        let flush_bytes = log_loop.shared.config.flush_bytes;
        log_loop.close().unwrap();
        Self { log_loop: prepare(&folder, &clock, flush_bytes), clock, folder }
    }

    /// Pretends that it has run for this much longer.
    pub(super) fn run_for(&mut self, time: Duration) {
        self.log_loop.started = self.log_loop.started.checked_sub(time).unwrap();
        self.tick();
    }

    /// Lets a second go by.
    pub(super) fn tick(&mut self) {
        let before = self.log_loop.ticked;
        while self.log_loop.ticked == before {
            assert!(self.log_loop.turn().unwrap().is_none());
        }
    }

    pub(super) fn propose(&mut self, proposal: Proposal) {
        self.log_loop.shared.enqueue(proposal, 0, Box::new(|answer| assert!(answer.is_ok(), "{answer:?}")));
        while !self.log_loop.shared.queue().proposals.is_empty() {
            assert!(self.log_loop.turn().unwrap().is_none());
        }
    }

    pub(super) fn append(&mut self, count: usize, body: usize, due: Option<u64>) {
        let partition = PartitionId::new(Topic::new("mail").unwrap(), 1);
        let message = NewMessage { due: due.map(Ticks), ..NewMessage::new(vec![b'x'; body]) };
        let appends = vec![Append { partition, message }; count];
        self.propose(Proposal::Commit(Commit { appends, ..Commit::default() }));
    }

    /// Appends with a dedup id; returns whether that created a message.
    pub(super) fn append_once(&mut self, id: &'static str) -> bool {
        let before = self.visible();
        let partition = PartitionId::new(Topic::new("mail").unwrap(), 1);
        let message = NewMessage { dedup: Some(id.into()), ..NewMessage::new("x") };
        self.propose(Proposal::Commit(Commit::append(partition, message)));
        self.visible() > before
    }

    pub(super) fn checkpoint(&mut self) {
        self.log_loop.shared.queue().checkpoints.push(Box::new(|done| done.unwrap()));
        let is_busy = |log_loop: &LogLoop| {
            log_loop.checkpoints.running || !log_loop.shared.queue().checkpoints.is_empty()
        };
        while is_busy(&self.log_loop) {
            assert!(self.log_loop.turn().unwrap().is_none());
        }
    }

    pub(super) fn visible(&self) -> u64 {
        self.log_loop.shared.read().partition(PartitionKey::new(1, 1)).unwrap().messages
    }

    pub(super) fn waiting(&self) -> usize {
        self.log_loop.shared.read().delayed.len()
    }
}

fn prepare(folder: &TempDir, clock: &Arc<AtomicU64>, flush_bytes: u64) -> LogLoop {
    let ticks = clock.clone();
    let config = Config {
        reserve_bytes: 0,
        flush_bytes,
        clock: Clock::new(move || Ticks(ticks.load(Ordering::SeqCst))),
        ..Config::new(folder.path().join("journal"))
    };
    Store::prepare(config, Metrics::new(&mut Registry::default())).unwrap()
}
