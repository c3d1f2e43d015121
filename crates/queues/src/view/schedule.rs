//! Schedules as they are shown.

use menagerie_znodes::Name;
use menagerie_znodes::queues::Schedule;
use schemars::JsonSchema;
use serde::Serialize;

use crate::admin::schedule::ScheduleView;
use crate::schedule::core::{Step, due};
use crate::schedule::{Calendar, now};

/// A schedule in the list of all.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ScheduleRow {
    /// Its name.
    pub schedule: Name,
    /// When and what it puts. This and all up to `last_missed_ms` is `null` if the schedule is damaged.
    pub settings: Option<Schedule>,
    /// When it is put next, in ms since 1970.
    pub next_ms: Option<i64>,
    /// When it was put last.
    pub last_put_ms: Option<i64>,
    /// Times that were not put because nobody was running, also those that nobody has counted yet.
    pub missed: Option<u64>,
    /// The last of them.
    pub last_missed_ms: Option<i64>,
    /// What keeps it from being put.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    #[serde(skip)]
    calendar: Option<Calendar>,
}

impl ScheduleRow {
    /// How it is shown now.
    pub fn of(view: ScheduleView) -> Self {
        let settings = view.schedule.ok();
        let calendar = settings.as_ref().and_then(|schedule| Calendar::of(schedule).ok());
        let mut row = Self {
            schedule: view.name,
            settings,
            next_ms: calendar.as_ref().and_then(|calendar| calendar.next_after(now())).map(ms),
            last_put_ms: None,
            missed: None,
            last_missed_ms: None,
            problem: view.problem,
            calendar,
        };
        let (Some(record), Some(calendar)) = (view.record, &row.calendar) else { return row };
        let catches_up = row.settings.as_ref().is_some_and(|schedule| schedule.catch_up);
        let due = due(|time| calendar.next_after(time), &record, now(), catches_up);
        let skipped = due.steps.iter().find(|step| matches!(step, Step::Skip { .. }));
        let record = skipped.map_or(record.clone(), |skipped| record.after(*skipped));
        let late = due.steps.iter().filter(|step| matches!(step, Step::Put { missed: true, .. })).count();
        if late > 0 && row.problem.is_none() {
            row.problem = Some(format!("{late} time{} to catch up with", if late == 1 { "" } else { "s" }));
        }
        row.next_ms = due.next.map(ms);
        row.last_put_ms = record.put.map(ms);
        row.missed = Some(record.missed);
        row.last_missed_ms = record.last_missed.map(ms);
        row
    }

    /// One of its times in the time zone of the schedule, for people; a dash if there is none.
    pub fn time(&self, ms: Option<i64>) -> String {
        match (ms, &self.calendar) {
            (Some(ms), Some(calendar)) => calendar.show(ms / 1000),
            _ => "-".to_owned(),
        }
    }
}

fn ms(seconds: i64) -> i64 {
    seconds.saturating_mul(1000)
}
