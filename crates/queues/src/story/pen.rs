//! Writes outcomes, many at a time, beside the work: nobody waits for it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use menagerie_journal::{
    Append, Commit, Journal, JournalError, MessageId, NewMessage, PartitionId, Read, Topic, TopicConfig,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::{debug, warn};

use super::reader::Stretch;
use super::{Entry, Page, reader};

/// How long outcomes wait for others, to share a page: what a crash loses.
const GATHER: Duration = Duration::from_millis(100);
/// Most outcomes on a page.
const PAGE_ENTRIES_MAX: usize = 500;
/// Most outcomes written together: even with long errors, they fit into one commit.
const GATHERED_MAX: usize = 5_000;
/// Most outcomes that wait: when the journal is away for long, the stories of that time have gaps, and the work goes on.
const WAITING_MAX: usize = 50_000;
/// Pause between tries, and how often to try before the outcomes are dropped.
const PAUSE: Duration = Duration::from_secs(1);
const TRIES_MAX: u32 = 30;
/// So soon after our own page, no other owner has written one.
const OURS: Duration = Duration::from_secs(1);
/// How long a worker that stops waits for its last outcomes to be written.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Where the outcomes of a partition go.
pub(crate) struct OutcomeLog {
    /// The queue's journal.
    pub journal: Arc<dyn Journal>,
    /// The partition of its stories.
    pub partition: PartitionId,
}

/// An outcome, and where it goes.
struct Line {
    to: Arc<OutcomeLog>,
    entry: Entry,
}

/// What is about to be written to one log.
struct Written {
    log: Arc<OutcomeLog>,
    entries: Vec<Entry>,
}

/// Two halves, in order; all of it if that is a single outcome.
fn halve(mut logs: Vec<Written>) -> Result<(Vec<Written>, Vec<Written>), Vec<Written>> {
    if logs.len() > 1 {
        let second = logs.split_off(logs.len() / 2);
        return Ok((logs, second));
    }
    match logs.first_mut() {
        Some(Written { log, entries }) if entries.len() > 1 => {
            let second = entries.split_off(entries.len() / 2);
            let second = Written { log: log.clone(), entries: second };
            Ok((logs, vec![second]))
        }
        _ => Err(logs),
    }
}

/// Gives the settings that a queue's topic of stories should have.
pub(crate) type ConfigOf = Box<dyn Fn(&Topic) -> Option<TopicConfig> + Send + Sync>;

/// Writes outcomes of one worker.
pub(crate) struct Pen {
    lines: Option<mpsc::Sender<Line>>,
    dropped: Arc<AtomicU64>,
    writer: JoinHandle<()>,
}

impl Pen {
    /// Starts to write for this worker.
    pub fn new(worker: String, config: ConfigOf) -> Self {
        let (lines, received) = mpsc::channel(WAITING_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let desk = Desk { worker, config, dropped: dropped.clone(), tops: BTreeMap::new() };
        Self { lines: Some(lines), dropped, writer: tokio::spawn(desk.write_all(received)) }
    }

    /// Writes an outcome soon. Never waits: one that finds no room is dropped and counted.
    pub fn write(&self, to: Arc<OutcomeLog>, entry: Entry) {
        let Some(lines) = &self.lines else { return };
        if lines.try_send(Line { to, entry }).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes what waits, within a moment.
    pub async fn close(mut self) {
        self.lines = None;
        let abort = self.writer.abort_handle();
        if tokio::time::timeout(CLOSE_TIMEOUT, &mut self.writer).await.is_err() {
            abort.abort();
            warn!("the last outcomes of messages were not written: the journal does not answer");
        }
    }
}

/// The writer's own state.
struct Desk {
    worker: String,
    config: ConfigOf,
    dropped: Arc<AtomicU64>,
    /// Of each partition, the newest message of which an outcome was written, and when we wrote the last one.
    tops: BTreeMap<PartitionId, (MessageId, Instant)>,
}

impl Desk {
    async fn write_all(mut self, mut lines: mpsc::Receiver<Line>) {
        let mut gathered = Vec::new();
        while lines.recv_many(&mut gathered, PAGE_ENTRIES_MAX).await > 0 {
            if gathered.len() < PAGE_ENTRIES_MAX && !lines.is_closed() {
                tokio::time::sleep(GATHER).await;
                while gathered.len() < GATHERED_MAX
                    && let Ok(line) = lines.try_recv()
                {
                    gathered.push(line);
                }
            }
            self.write(std::mem::take(&mut gathered)).await;
            match self.dropped.swap(0, Ordering::Relaxed) {
                0 => {}
                dropped => warn!(dropped, "outcomes of messages were not written; their stories have gaps"),
            }
        }
    }

    /// Writes to each journal what belongs there, in the order in which it came.
    async fn write(&mut self, lines: Vec<Line>) {
        let mut journals: Vec<(Arc<dyn Journal>, Vec<Written>)> = Vec::new();
        // Of each log, by its address: there are many lines, and few partitions.
        let mut places: HashMap<usize, (usize, usize)> = HashMap::new();
        for Line { to, entry } in lines {
            let place = places.entry(Arc::as_ptr(&to).addr()).or_insert_with(|| {
                let known = journals.iter().position(|(known, _)| Arc::ptr_eq(known, &to.journal));
                let journal = known.unwrap_or_else(|| {
                    journals.push((to.journal.clone(), Vec::new()));
                    journals.len() - 1
                });
                journals[journal].1.push(Written { log: to.clone(), entries: Vec::new() });
                (journal, journals[journal].1.len() - 1)
            });
            journals[place.0].1[place.1].entries.push(entry);
        }
        for (journal, logs) in journals {
            self.write_to(&*journal, logs).await;
        }
    }

    /// Writes pages with one commit. Each try begins with the tops: another owner may have written meanwhile.
    async fn write_to(&mut self, journal: &dyn Journal, mut logs: Vec<Written>) {
        for _ in 0..TRIES_MAX {
            if logs.is_empty() {
                return;
            }
            let error = match self.try_write(journal, &logs).await {
                Ok(()) => return,
                Err(JournalError::NoTopic { topic }) => match (self.config)(&topic) {
                    // The queue is of a version without stories.
                    Some(config) => match journal.create_topic(&topic, config).await {
                        Ok(_) => continue,
                        Err(error) => error,
                    },
                    // The queue was deleted; the outcomes of others go on.
                    None => {
                        logs.retain(|to| to.log.partition.topic != topic);
                        continue;
                    }
                },
                Err(JournalError::NoPartition { partition, .. }) => match (self.config)(&partition.topic) {
                    Some(config) => match journal.alter_topic(&partition.topic, config).await {
                        Ok(()) => continue,
                        Err(error) => error,
                    },
                    None => {
                        logs.retain(|to| to.log.partition.topic != partition.topic);
                        continue;
                    }
                },
                Err(JournalError::TooLarge { .. }) => match halve(logs) {
                    Ok((first, second)) => {
                        Box::pin(self.write_to(journal, first)).await;
                        return Box::pin(self.write_to(journal, second)).await;
                    }
                    // It will not fit the next time either.
                    Err(one) => {
                        logs = one;
                        break;
                    }
                },
                Err(error) => error,
            };
            debug!(%error, "outcomes of messages cannot be written now");
            tokio::time::sleep(PAUSE).await;
        }
        let outcomes: usize = logs.iter().map(|to| to.entries.len()).sum();
        warn!(outcomes, "outcomes of messages were dropped: the journal does not take them");
    }

    async fn try_write(&mut self, journal: &dyn Journal, logs: &[Written]) -> Result<(), JournalError> {
        let mut commit = Commit::default();
        for Written { log, entries } in logs {
            let partition = &log.partition;
            self.read_top(journal, partition).await?;
            for entries in entries.chunks(PAGE_ENTRIES_MAX) {
                let message = NewMessage::new(self.page(partition, entries));
                commit.appends.push(Append { partition: partition.clone(), message });
            }
        }
        journal.commit(commit).await.map(drop)
    }

    /// Continues where another owner has stopped. It may have been ahead of what we begin with; a search relies on tops
    /// that never fall.
    async fn read_top(&mut self, journal: &dyn Journal, partition: &PartitionId) -> Result<(), JournalError> {
        if self.tops.get(partition).is_some_and(|(_, written)| written.elapsed() < OURS) {
            return Ok(());
        }
        let newest = Read::after(partition.clone(), MessageId::ZERO).limit(1).descending();
        let newest = match reader::read(journal, newest).await {
            // Nobody can say where the other owner was.
            Err(JournalError::Damaged(_)) => Stretch::default(),
            newest => newest?,
        };
        let page = newest.messages.first().and_then(|page| serde_json::from_slice(&page.body).ok());
        let top = page.map_or(MessageId::ZERO, |page: Page| page.top);
        let (known, written) = self.tops.entry(partition.clone()).or_insert((top, Instant::now()));
        (*known, *written) = (top.max(*known), Instant::now());
        Ok(())
    }

    fn page(&mut self, partition: &PartitionId, entries: &[Entry]) -> Vec<u8> {
        let newest = entries.iter().map(|entry| entry.position).max().unwrap_or_default();
        let (top, written) = self.tops.entry(partition.clone()).or_insert((newest, Instant::now()));
        (*top, *written) = (newest.max(*top), Instant::now());
        let page = Page { worker: self.worker.clone(), top: *top, entries: entries.to_vec() };
        serde_json::to_vec(&page).expect("texts and numbers can be written")
    }
}
