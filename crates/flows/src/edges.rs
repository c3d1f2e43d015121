//! What waits in the links of a job, and which of them hold their writers back.
//!
//! There is no rate: the journal does not count what its reader has consumed and it has dropped, so two looks and a clock
//! would be needed.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use futures_util::stream::{self, StreamExt as _};
use menagerie_journal::{Journal, MessageId, PartitionStats};
use menagerie_journal_directory::{JournalRef, Journals};
use tokio::time::timeout;

use crate::FlowError;
use crate::client::Jobs;
use crate::core::JobId;
use crate::links::{Links, Unread};
use crate::view::{EdgeView, JobView, Standing};

/// A journal that does not answer for this long is away: the rest of the view is worth more than these numbers.
const PATIENCE: Duration = Duration::from_secs(1);
/// Links that the journal is asked for at once.
const AT_ONCE: usize = 16;

impl Jobs {
    /// Adds what the journal knows of the links of a running job. When the journal is away, the view stays as it is.
    pub async fn measure(
        &self,
        journals: &Journals,
        id: &JobId,
        view: &mut JobView,
    ) -> Result<(), FlowError> {
        if view.job.state != Standing::Running || view.edges.is_empty() {
            return Ok(());
        }
        let Some(job) = self.session.term().patient().read(&self.deployment.job(id)).await? else {
            return Ok(());
        };
        let target = JournalRef { journal: job.value.journal, folder: Some(job.value.folder) };
        let Some(journal) = journals.get(&target) else { return Ok(()) };
        let links = Links::of(id);
        let stats: Vec<_> =
            view.edges.iter().map(|edge| stats(journal.clone(), links.clone(), edge.from, edge.to)).collect();
        let stats = stream::iter(stats).buffered(AT_ONCE).collect::<Vec<_>>();
        let Ok(stats) = timeout(PATIENCE, stats).await else { return Ok(()) };
        let busy: Vec<u32> =
            view.tasks.iter().filter(|task| !task.peers.is_empty()).map(|task| task.number).collect();
        for (edge, stats) in view.edges.iter_mut().zip(stats) {
            if let Some(stats) = stats {
                let are_at_work = busy.contains(&edge.from) && busy.contains(&edge.to);
                edge.fill(&stats, are_at_work);
            }
        }
        Ok(())
    }
}

/// `None` if the journal does not say: it is away, or has deleted the link because the job has just ended.
async fn stats(journal: Arc<dyn Journal>, links: Links, from: u32, to: u32) -> Option<Vec<PartitionStats>> {
    journal.stats(&links.link(from, to)).await.ok()
}

impl EdgeView {
    /// Adds what the journal knows of it.
    fn fill(&mut self, stats: &[PartitionStats], are_at_work: bool) {
        let unread = Unread::of(stats);
        let newest =
            stats.iter().map(|partition| partition.last).max().filter(|last| *last > MessageId::ZERO);
        let newest = newest.and_then(|last| last.time().duration_since(UNIX_EPOCH).ok());
        self.lag = Some(unread.batches);
        self.lag_bytes = Some(unread.bytes);
        // A writer does not wait for readers that do not move: when the reader has no peers, for instance.
        self.is_held_back = Some(unread.is_full() && are_at_work);
        self.written_ms = newest.and_then(|time| u64::try_from(time.as_millis()).ok());
    }
}

#[cfg(test)]
mod tests {
    use menagerie_journal::{ConsumerStats, Fence};

    use super::*;
    use crate::links::{FULL_BYTES, consumer};

    fn partition(messages: u64, bytes: u64, lag: Option<u64>) -> PartitionStats {
        let reader = |lag| ConsumerStats {
            consumer: consumer(),
            fence: Fence::default(),
            position: MessageId::ZERO,
            lag,
        };
        PartitionStats {
            messages,
            bytes,
            consumers: lag.map(reader).into_iter().collect(),
            ..Default::default()
        }
    }

    #[test]
    fn what_nobody_has_read_yet_waits_and_what_was_read_does_not() {
        let mut edge = EdgeView::new(1, 2, 3);
        edge.fill(
            &[partition(10, 1_000, None), partition(10, 2_000, Some(4)), partition(0, 0, Some(0))],
            true,
        );
        assert_eq!((edge.lag, edge.lag_bytes), (Some(14), Some(1_800)));
        assert_eq!((edge.is_held_back, edge.written_ms), (Some(false), None));
    }

    #[test]
    fn a_full_link_holds_its_writer_back_while_its_reader_is_at_work() {
        let full = [partition(8, 2 * FULL_BYTES, Some(4))];
        let mut edge = EdgeView::new(1, 2, 1);
        edge.fill(&full, true);
        assert_eq!(edge.is_held_back, Some(true));
        edge.fill(&full, false);
        assert_eq!(edge.is_held_back, Some(false));
    }
}
