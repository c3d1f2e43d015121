//! Which samples are kept: those of the last hour, of a bounded number of queues.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use menagerie_queues::view::QueueRow;
use menagerie_znodes::queues::QueueName;

use super::sample::{INTERVAL_MS, SAMPLES_MAX, Sample};

/// Queues with samples of their own. An hour of one takes up to 37 kB.
pub const QUEUES_MAX: usize = 1_000;

/// All samples that are kept.
#[derive(Debug, Default)]
pub struct Samples {
    queues: BTreeMap<QueueName, Series>,
    all: Series,
}

/// The samples of one queue.
#[derive(Debug, Default)]
struct Series {
    /// When somebody has last looked at its queue; 0 if nobody has.
    looked_ms: u64,
    /// Oldest first, at most one for each slot.
    samples: VecDeque<Sample>,
}

impl Samples {
    /// Somebody looks at a queue. If there is no room for it, the one that nobody has looked at for longest makes room.
    pub fn look_at(&mut self, queue: &QueueName, now_ms: u64) {
        if let Some(series) = self.queues.get_mut(queue) {
            series.looked_ms = now_ms;
            return;
        }
        if self.queues.len() >= QUEUES_MAX {
            let longest = self.queues.iter().min_by_key(|(_, series)| series.looked_ms);
            if let Some(queue) = longest.map(|(queue, _)| queue.clone()) {
                self.queues.remove(&queue);
            }
        }
        let series = Series { looked_ms: now_ms, samples: VecDeque::new() };
        self.queues.insert(queue.clone(), series);
    }

    /// Takes a sample of all queues that exist; what is known of others is dropped. A queue for which there is no room
    /// has no samples until somebody looks at it: with whom else should it change places?
    pub fn take_in(&mut self, at_ms: u64, rows: &[QueueRow]) {
        let existing: BTreeSet<&QueueName> = rows.iter().map(|row| &row.queue).collect();
        self.queues.retain(|queue, _| existing.contains(queue));
        for row in rows {
            let Some(sample) = Sample::of_row(at_ms, row) else { continue };
            if self.queues.len() < QUEUES_MAX || self.queues.contains_key(&row.queue) {
                self.queues.entry(row.queue.clone()).or_default().push(sample);
            }
        }
        if let Some(sum) = Sample::of_all(at_ms, rows) {
            self.all.push(sum);
        }
    }

    /// The samples of a queue; `None` if it is not among those that are kept.
    pub fn of_queue(&self, queue: &QueueName) -> Option<Vec<Sample>> {
        self.queues.get(queue).map(Series::to_vec)
    }

    /// The samples of all queues together.
    pub fn of_all(&self) -> Vec<Sample> {
        self.all.to_vec()
    }
}

impl Series {
    /// Adds a sample. Those of the same slot or later are replaced: the clock was set back.
    fn push(&mut self, sample: Sample) {
        while self.samples.back().is_some_and(|last| last.at_ms >= sample.at_ms) {
            self.samples.pop_back();
        }
        let first_ms = (sample.at_ms + INTERVAL_MS).saturating_sub(SAMPLES_MAX as u64 * INTERVAL_MS);
        while self.samples.front().is_some_and(|first| first.at_ms < first_ms) {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    fn to_vec(&self) -> Vec<Sample> {
        self.samples.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::{row, sample};
    use super::*;

    fn name(queue: &str) -> QueueName {
        queue.parse().unwrap()
    }

    fn waiting(samples: &Samples, queue: &str) -> Option<Vec<u64>> {
        Some(samples.of_queue(&name(queue))?.iter().map(|sample| sample.waiting).collect())
    }

    #[test]
    fn a_series_has_the_last_hour() {
        let mut series = Series::default();
        for slot in 0..400 {
            series.push(sample(slot * INTERVAL_MS, slot));
        }
        let kept = series.to_vec();
        assert_eq!((kept.len(), kept[0].waiting, kept[359].waiting), (SAMPLES_MAX, 40, 399));
        series.push(sample(758 * INTERVAL_MS, 758));
        let kept: Vec<u64> = series.to_vec().iter().map(|sample| sample.waiting).collect();
        assert_eq!(kept, [399, 758], "of before a pause only what is less than an hour old");
    }

    #[test]
    fn a_slot_has_one_sample_also_when_the_clock_is_set_back() {
        let mut series = Series::default();
        for (at_ms, waiting) in [(10_000, 1), (20_000, 2), (20_000, 3), (30_000, 4), (10_000, 5)] {
            series.push(sample(at_ms, waiting));
        }
        let kept: Vec<_> = series.to_vec().iter().map(|sample| (sample.at_ms, sample.waiting)).collect();
        assert_eq!(kept, [(10_000, 5)]);
    }

    #[test]
    fn a_journal_that_is_away_leaves_a_gap_and_a_deleted_queue_nothing() {
        let mut samples = Samples::default();
        samples.take_in(10_000, &[row("mail", Some(1)), row("sms", Some(5))]);
        samples.take_in(20_000, &[row("mail", None), row("sms", Some(6))]);
        samples.take_in(30_000, &[row("mail", Some(3))]);
        assert_eq!(waiting(&samples, "mail"), Some(vec![1, 3]));
        assert_eq!(waiting(&samples, "sms"), None);
        let all: Vec<_> = samples.of_all().iter().map(|sum| (sum.at_ms, sum.waiting)).collect();
        assert_eq!(all, [(10_000, 6), (30_000, 3)]);
    }

    #[test]
    fn queues_that_nobody_looks_at_make_room_for_those_that_somebody_does() {
        let names: Vec<String> = (0..=QUEUES_MAX).map(|at| format!("q{at:04}")).collect();
        let (last, rows) = (&names[QUEUES_MAX], names.iter().map(|name| row(name, Some(1))));
        let rows: Vec<QueueRow> = rows.collect();
        let mut samples = Samples::default();
        samples.look_at(&name("q0000"), 7);
        samples.take_in(10_000, &rows);
        samples.take_in(20_000, &rows);
        assert_eq!(samples.queues.len(), QUEUES_MAX);
        assert_eq!(waiting(&samples, last), None, "those that have samples keep them");
        samples.look_at(&name(last), 8);
        samples.take_in(30_000, &rows);
        assert_eq!(samples.queues.len(), QUEUES_MAX);
        assert_eq!(waiting(&samples, last), Some(vec![1]));
        assert_eq!(waiting(&samples, "q0000"), Some(vec![1, 1, 1]), "somebody has looked at it");
        assert_eq!(waiting(&samples, "q0001"), None);
    }
}
