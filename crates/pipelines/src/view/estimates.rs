//! How long jobs usually take. Pure.

use std::collections::BTreeMap;

use menagerie_znodes::pipelines::HistoryRecord;

use super::StatusView;

/// Builds that an estimate is made of.
const BUILDS: usize = 10;

/// The usual duration of each job: the median of its newest successful builds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Estimates(BTreeMap<String, i64>);

impl Estimates {
    /// From a tenant's history, newest first.
    pub fn of<'a>(history: impl IntoIterator<Item = &'a HistoryRecord>) -> Self {
        let mut durations: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
        for build in history.into_iter().flat_map(|record| &record.builds) {
            let (Some("SUCCESS"), Some(start), Some(end)) =
                (build.result.as_deref(), build.start_time, build.end_time)
            else {
                continue;
            };
            let known = durations.entry(&build.job_name).or_default();
            // Clocks of executors may have been set back.
            if known.len() < BUILDS && end >= start {
                known.push(end - start);
            }
        }
        let medians = durations.into_iter().filter_map(|(job, mut durations)| {
            durations.sort_unstable();
            Some((job.to_owned(), *durations.get(durations.len() / 2)?))
        });
        Self(medians.collect())
    }

    /// How long a job usually takes, in milliseconds; `None` if it has never succeeded.
    pub fn of_job(&self, name: &str) -> Option<i64> {
        self.0.get(name).copied()
    }

    /// Adds them to the jobs of a tenant that have not ended.
    pub fn fill_in(&self, view: &mut StatusView) {
        let queues = view.pipelines.iter_mut().flat_map(|pipeline| &mut pipeline.change_queues);
        let items = queues.flat_map(|queue| queue.heads.iter_mut().flatten());
        for job in items.flat_map(|item| &mut item.jobs).filter(|job| job.result.is_none()) {
            job.estimated_ms = self.of_job(&job.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use menagerie_znodes::Name;
    use menagerie_znodes::pipelines::HistoryBuild;

    use super::*;

    fn record(builds: &[(&str, &str, i64)]) -> HistoryRecord {
        let name = |text: &str| Name::new(text).unwrap();
        let build = |(job, result, took): &(&str, &str, i64)| HistoryBuild {
            uuid: name("b1"),
            job_name: (*job).to_owned(),
            result: Some((*result).to_owned()),
            voting: true,
            is_final: true,
            attempt: 1,
            start_time: Some(1_000),
            end_time: Some(1_000 + took),
            executor: None,
        };
        HistoryRecord {
            uuid: name("s1"),
            tenant: name("acme"),
            pipeline: name("gate"),
            queue: "org/app".to_owned(),
            result: "SUCCESS".to_owned(),
            message: None,
            ltime: 1,
            end_ms: 1,
            refs: Vec::new(),
            state: BTreeMap::new(),
            builds: builds.iter().map(build).collect(),
        }
    }

    #[test]
    fn estimate_is_the_median_of_the_newest_successes() {
        let mut history = vec![
            record(&[("unit", "SUCCESS", 30), ("lint", "FAILURE", 5)]),
            record(&[("unit", "FAILURE", 9_000), ("unit", "SUCCESS", 50)]),
            record(&[("unit", "SUCCESS", 40), ("back", "SUCCESS", -1)]),
        ];
        let estimates = Estimates::of(&history);
        assert_eq!(estimates.of_job("unit"), Some(40));
        assert_eq!(estimates.of_job("lint"), None, "failures may end early");
        assert_eq!(estimates.of_job("back"), None);
        history = [vec![record(&[("unit", "SUCCESS", 7)]); BUILDS], history].concat();
        assert_eq!(Estimates::of(&history).of_job("unit"), Some(7), "older builds do not count");
    }
}
