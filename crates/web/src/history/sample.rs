//! A sample: how a queue, or all of them together, was at a moment.

use menagerie_queues::admin::show::Rate;
use menagerie_queues::view::{QueueOverview, QueueRow, QueueState};
use schemars::JsonSchema;
use serde::Serialize;

/// Samples are taken this often, at whole multiples of it: a chart that is drawn twice in between is the same.
pub const INTERVAL_MS: u64 = 10_000;
/// Samples of an hour.
pub const SAMPLES_MAX: usize = 360;

/// How a queue was at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "QueueSample")]
pub struct Sample {
    /// When, in milliseconds since 1970; a multiple of ten seconds.
    pub at_ms: u64,
    /// Messages waiting.
    pub waiting: u64,
    /// Age of the oldest waiting message; `null` if none waits.
    pub oldest_ms: Option<u64>,
    /// Failed messages.
    pub failed: u64,
    /// Messages put per second, over the last minute at most; `null` if no owner of a partition says.
    pub put_per_s: Option<f64>,
    /// Messages handled per second: done, given up or expired; `null` if no owner of a partition says.
    pub handled_per_s: Option<f64>,
}

impl Sample {
    /// A sample of a queue; `None` if its numbers are unknown.
    pub fn of_row(at_ms: u64, row: &QueueRow) -> Option<Self> {
        let sample = Self {
            at_ms,
            waiting: row.lag?,
            oldest_ms: row.oldest_ms,
            failed: row.failed?,
            put_per_s: None,
            handled_per_s: None,
        };
        Some(sample.with_rate(row.rate))
    }

    /// A queue as its page shows it, at this time. As its bytes must stay the same while nothing happens, the oldest
    /// message has the age that it had when the slot began.
    pub fn of_overview(now_ms: u64, view: &QueueOverview) -> Self {
        let sample = Self {
            at_ms: slot_ms(now_ms),
            waiting: view.lag,
            oldest_ms: steady_age(now_ms, view.oldest_ms),
            failed: view.failed,
            put_per_s: None,
            handled_per_s: None,
        };
        sample.with_rate(view.rate)
    }

    /// The sum of all queues; `None` while the journal of any of them is away, as the rest would look like all. Queues
    /// that are unknown for other reasons are left out: they stay so until somebody mends them.
    pub fn of_all<'a>(at_ms: u64, rows: impl IntoIterator<Item = &'a QueueRow>) -> Option<Self> {
        let none =
            Self { at_ms, waiting: 0, oldest_ms: None, failed: 0, put_per_s: None, handled_per_s: None };
        rows.into_iter().try_fold(none, |sum, row| match Self::of_row(at_ms, row) {
            Some(sample) => Some(sum.plus(&sample)),
            None if row.state == QueueState::JournalAway => None,
            None => Some(sum),
        })
    }

    /// The same, with the oldest message as old as when the slot began.
    pub fn of_all_now<'a>(now_ms: u64, rows: impl IntoIterator<Item = &'a QueueRow>) -> Option<Self> {
        let sum = Self::of_all(slot_ms(now_ms), rows)?;
        Some(Self { oldest_ms: steady_age(now_ms, sum.oldest_ms), ..sum })
    }

    fn with_rate(self, rate: Option<Rate>) -> Self {
        // Owners say no more than that.
        let round = |per_s: f64| (per_s * 1000.0).round() / 1000.0;
        Self {
            put_per_s: rate.and_then(|rate| rate.put).map(round),
            handled_per_s: rate.map(|rate| round(rate.handled)),
            ..self
        }
    }

    fn plus(self, other: &Self) -> Self {
        let sum = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(|a, b| a + b);
        Self {
            at_ms: self.at_ms,
            waiting: self.waiting.saturating_add(other.waiting),
            oldest_ms: self.oldest_ms.max(other.oldest_ms),
            failed: self.failed.saturating_add(other.failed),
            put_per_s: sum(self.put_per_s, other.put_per_s),
            handled_per_s: sum(self.handled_per_s, other.handled_per_s),
        }
    }
}

/// When the slot of a moment begins.
pub fn slot_ms(now_ms: u64) -> u64 {
    now_ms - now_ms % INTERVAL_MS
}

/// The slots of the last hour, oldest first, with what was sampled in each. The live value, if there is one, is what the
/// newest slot has.
pub fn hour(samples: &[Sample], live: Option<Sample>, now_ms: u64) -> Vec<Option<Sample>> {
    let newest_ms = slot_ms(now_ms);
    let mut slots = vec![None; SAMPLES_MAX];
    for sample in samples.iter().chain(&live) {
        let Some(age_ms) = newest_ms.checked_sub(sample.at_ms) else { continue };
        let age = usize::try_from(age_ms / INTERVAL_MS).unwrap_or(usize::MAX);
        if let Some(slot) = SAMPLES_MAX.checked_sub(age + 1).and_then(|at| slots.get_mut(at)) {
            *slot = Some(*sample);
        }
    }
    slots
}

/// An age, as of when the slot began. It is counted from a whole second, as times on pages are.
fn steady_age(now_ms: u64, age_ms: Option<u64>) -> Option<u64> {
    let since_ms = (now_ms.saturating_sub(age_ms?) + 500) / 1000 * 1000;
    Some(slot_ms(now_ms).saturating_sub(since_ms))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn row(queue: &str, lag: Option<u64>) -> QueueRow {
        QueueRow {
            oldest_since_ms: None,
            queue: queue.parse().unwrap(),
            partitions: lag.map(|_| 1),
            owned: lag.map(|_| 1),
            lag,
            oldest_ms: lag.filter(|lag| *lag > 0).map(|_| 500),
            delayed: lag.map(|_| 0),
            failed: lag.map(|_| 1),
            rate: None,
            journal: None,
            keep: None,
            state: if lag.is_some() { QueueState::Open } else { QueueState::JournalAway },
            reason: None,
        }
    }

    pub fn sample(at_ms: u64, waiting: u64) -> Sample {
        Sample::of_row(at_ms, &row("mail", Some(waiting))).unwrap()
    }

    #[test]
    fn a_sum_has_what_is_known_and_is_unknown_while_a_journal_is_away() {
        let rate = |put| Some(Rate { put, handled: 0.5 });
        let (busy, idle) = (
            QueueRow { rate: rate(Some(2.0)), oldest_ms: Some(900), ..row("a", Some(3)) },
            row("b", Some(0)),
        );
        let silent = QueueRow { rate: rate(None), ..row("c", Some(4)) };
        let sum = Sample::of_all(10_000, [&busy, &idle, &silent]).unwrap();
        assert_eq!((sum.at_ms, sum.waiting, sum.oldest_ms, sum.failed), (10_000, 7, Some(900), 3));
        assert_eq!((sum.put_per_s, sum.handled_per_s), (Some(2.0), Some(1.0)));
        let away = row("d", None);
        assert_eq!(Sample::of_all(10_000, [&busy, &away]), None);
        let damaged = QueueRow { state: QueueState::JournalDamaged, ..away };
        assert_eq!(Sample::of_all(10_000, [&busy, &damaged]).unwrap().waiting, 3);
        assert_eq!(Sample::of_all(10_000, []).unwrap().waiting, 0);
    }

    #[test]
    fn an_hour_has_a_slot_for_each_sample_and_gaps_for_the_others() {
        let now_ms = 3_600_000 + 7_000;
        let samples = [sample(0, 1), sample(10_000, 2), sample(3_590_000, 3), sample(3_600_000, 4)];
        let slots = hour(&samples, None, now_ms);
        let waiting: Vec<_> = slots.iter().map(|slot| slot.map(|sample| sample.waiting)).collect();
        assert_eq!(waiting.len(), SAMPLES_MAX);
        assert_eq!((waiting[0], waiting[1]), (Some(2), None), "the first is more than an hour old");
        assert_eq!((waiting[357], waiting[358], waiting[359]), (None, Some(3), Some(4)));
        let live = hour(&samples, Some(sample(3_600_000, 9)), now_ms);
        assert_eq!(live[359].unwrap().waiting, 9);
        assert_eq!(
            hour(&[sample(20_000, 1)], None, 10_000),
            vec![None; SAMPLES_MAX],
            "the clock was set back"
        );
    }

    #[test]
    fn ages_stay_the_same_within_a_slot() {
        let put_ms = 100_200;
        let age = |now_ms: u64| steady_age(now_ms, Some(now_ms - put_ms));
        assert_eq!(age(103_000), Some(0), "younger than the slot");
        assert_eq!((age(110_000), age(115_123), age(119_999)), (Some(10_000), Some(10_000), Some(10_000)));
        assert_eq!(age(120_000), Some(20_000));
        assert_eq!(steady_age(120_000, None), None);
    }
}
