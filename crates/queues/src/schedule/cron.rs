//! Cron lines: which times they mean in a time zone.

use std::borrow::Cow;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use menagerie_types::{Explain, exit_code};
use menagerie_znodes::Name;
use menagerie_znodes::queues::Schedule;
use thiserror::Error;

/// Why a schedule is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "fields of errors name themselves")]
pub enum ScheduleError {
    #[error("{line:?} is no cron line: {why}")]
    Line { line: String, why: String },
    /// A day that no month has, such as 30 February.
    #[error("{line:?} never fires: no date matches it")]
    Never { line: String },
    #[error("there is no time zone {tz:?}")]
    Zone { tz: String },
    #[error("schedule {name} exists already, with other settings")]
    Exists { name: Name },
    #[error("there is no schedule {name}")]
    Missing { name: Name },
    /// It would not fit into a znode.
    #[error("the message of a schedule has at most {max} bytes, and this one has {size}")]
    Large { size: usize, max: usize },
    /// Somebody else wrote something that is not Base64.
    #[error("the message of the schedule is damaged: {why}")]
    Body { why: String },
    /// It has jumped, or is far from ZooKeeper's.
    #[error("the clock of this host is not trusted: it is {} s {}", ahead.abs(), if *ahead > 0 { "ahead" } else { "behind" })]
    Clock {
        /// By how many seconds it is ahead; negative if it is behind.
        ahead: i64,
    },
}

impl Explain for ScheduleError {
    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Line { .. } => {
                "write minute, hour, day, month and weekday, such as '*/5 * * * *' or '30 6 * * MON-FRI', optionally with \
                 seconds before them; or @hourly, @daily, @weekly, @monthly, @yearly"
                    .into()
            }
            Self::Never { .. } => "choose a day that the month has; L is its last one".into(),
            Self::Zone { .. } => "write an IANA name such as Europe/Berlin, or UTC".into(),
            Self::Exists { name } => format!(
                "`menagerie queue schedule list` shows it; to change it, `menagerie queue schedule remove {name}` and add it again"
            )
            .into(),
            Self::Missing { .. } => "`menagerie queue schedule list` shows those that there are".into(),
            Self::Large { .. } => "store what is large elsewhere, and put where it is".into(),
            Self::Clock { .. } => {
                "see whether the clocks of this host and of ZooKeeper's hosts are right (`timedatectl`)".into()
            }
            Self::Body { .. } => "remove the schedule, and add it again".into(),
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Exists { .. } | Self::Body { .. } | Self::Clock { .. } => exit_code::FAILED,
            Self::Line { .. } | Self::Never { .. } | Self::Zone { .. } => exit_code::USAGE,
            Self::Missing { .. } | Self::Large { .. } => exit_code::USAGE,
        }
    }
}

/// The times of a cron line in a time zone. A time here is in whole seconds since 1970.
#[derive(Debug, Clone)]
pub struct Calendar {
    cron: Cron,
    zone: TimeZone,
}

impl Calendar {
    /// The times of this line; refuses one that never fires after `now`.
    pub fn new(line: &str, tz: &str, now: i64) -> Result<Self, ScheduleError> {
        let calendar = Self::parse(line, tz)?;
        match calendar.next_after(now) {
            Some(_) => Ok(calendar),
            None => Err(ScheduleError::Never { line: line.to_owned() }),
        }
    }

    /// The times of a schedule.
    pub fn of(schedule: &Schedule) -> Result<Self, ScheduleError> {
        Self::parse(&schedule.cron, &schedule.tz)
    }

    fn parse(line: &str, tz: &str) -> Result<Self, ScheduleError> {
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let wrong = |why: String| ScheduleError::Line { line: line.to_owned(), why };
        let fields = line.split_whitespace().count();
        if !line.trim_start().starts_with('@') && !matches!(fields, 5 | 6) {
            return Err(wrong(format!("it has {fields} fields, not 5, or 6 with seconds")));
        }
        let cron = parser.parse(line).map_err(|error| wrong(plain(&error.to_string())))?;
        let zone = TimeZone::get(tz).map_err(|_| ScheduleError::Zone { tz: tz.to_owned() })?;
        Ok(Self { cron, zone })
    }

    /// The first time after this one; `None` if there is none.
    pub fn next_after(&self, time: i64) -> Option<i64> {
        let start = Zoned::new(Timestamp::from_second(time).ok()?, self.zone.clone());
        let next = self.cron.find_next_occurrence(&start, false).ok()?.timestamp().as_second();
        // A time that does not come after its predecessor would be put again and again.
        (next > time).then_some(next)
    }

    /// A time for people, in the line's time zone.
    pub fn show(&self, time: i64) -> String {
        match Timestamp::from_second(time) {
            Ok(time) => time.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string(),
            Err(_) => time.to_string(),
        }
    }
}

/// The parser's reason without its type names and its full stop.
fn plain(error: &str) -> String {
    let reason = error.split_once(": ").map_or(error, |(_, reason)| reason);
    reason.trim_end_matches('.').replace("CronPattern", "it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_second()
    }

    fn times(line: &str, tz: &str, after: &str, count: usize) -> Vec<String> {
        let calendar = Calendar::new(line, tz, second(after)).unwrap();
        let next = |time: &i64| calendar.next_after(*time);
        let times = std::iter::successors(Some(second(after)), next).skip(1).take(count);
        times.map(|time| Timestamp::from_second(time).unwrap().to_string()).collect()
    }

    #[test]
    fn fields_are_lists_ranges_steps_and_names() {
        let begin = "2026-11-18T10:02:00Z";
        for (line, first, second) in [
            ("*/5 * * * *", "2026-11-18T10:05:00Z", "2026-11-18T10:10:00Z"),
            ("*/20 * * * * *", "2026-11-18T10:02:20Z", "2026-11-18T10:02:40Z"),
            ("0 0,12 * * *", "2026-11-18T12:00:00Z", "2026-11-19T00:00:00Z"),
            ("30 6 * jan-FEB Mon-fri", "2027-01-01T06:30:00Z", "2027-01-04T06:30:00Z"),
            ("0 9 1-7/3 * *", "2026-12-01T09:00:00Z", "2026-12-04T09:00:00Z"),
            ("@hourly", "2026-11-18T11:00:00Z", "2026-11-18T12:00:00Z"),
            ("@daily", "2026-11-19T00:00:00Z", "2026-11-20T00:00:00Z"),
            ("@weekly", "2026-11-22T00:00:00Z", "2026-11-29T00:00:00Z"),
            ("@monthly", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"),
            ("@yearly", "2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"),
            ("0 0 20 * FRI", "2026-11-20T00:00:00Z", "2026-11-27T00:00:00Z"),
            ("0 0 25 * 7", "2026-11-22T00:00:00Z", "2026-11-25T00:00:00Z"),
            ("0 0 L * *", "2026-11-30T00:00:00Z", "2026-12-31T00:00:00Z"),
            ("0 0 * * MON#2", "2026-12-14T00:00:00Z", "2027-01-11T00:00:00Z"),
            ("0 0 15W * *", "2026-12-15T00:00:00Z", "2027-01-15T00:00:00Z"),
            ("10-50/20 10 * * *", "2026-11-18T10:10:00Z", "2026-11-18T10:30:00Z"),
            ("0 0 29 2 *", "2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"),
        ] {
            assert_eq!(times(line, "UTC", begin, 2), [first, second], "{line}");
        }
    }

    /// As the documentation promises, for the zone where clocks go forward at 2:00 and back at 3:00.
    #[test]
    fn a_fixed_time_comes_once_on_days_when_clocks_change() {
        let berlin = |line, after| times(line, "Europe/Berlin", after, 2);
        let spring = berlin("30 2 * * *", "2026-03-28T12:00:00Z");
        assert_eq!(spring, ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"], "right after the gap");
        let autumn = berlin("30 2 * * *", "2026-10-24T12:00:00Z");
        assert_eq!(autumn, ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"], "the first of the two");
    }

    #[test]
    fn an_interval_goes_on_through_days_when_clocks_change() {
        let berlin = |after| times("*/30 * * * *", "Europe/Berlin", after, 4);
        let spring = berlin("2026-03-29T00:15:00Z");
        assert_eq!(spring.first().unwrap(), "2026-03-29T00:30:00Z");
        assert_eq!(spring[1..3], ["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"]);
        let list = times("30 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2);
        assert_eq!(list, ["2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"], "what does not exist is left out");
        let autumn = berlin("2026-10-25T00:15:00Z");
        assert_eq!(autumn[..3], ["2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z"]);
    }

    #[test]
    fn what_never_fires_or_is_no_line_is_refused() {
        for line in ["0 0 30 2 *", "0 0 31 4,6,9,11 *"] {
            let never = Calendar::new(line, "UTC", 0);
            assert_eq!(never.unwrap_err(), ScheduleError::Never { line: line.to_owned() });
        }
        for line in [
            "",
            "* * * *",
            "60 * * * *",
            "* 24 * * *",
            "x * * * *",
            "*/0 * * * *",
            "5-1 * * * *",
            "* * * * * * *",
        ] {
            let wrong = Calendar::new(line, "UTC", 0).unwrap_err();
            assert!(matches!(wrong, ScheduleError::Line { .. }), "{line}: {wrong}");
            assert!(wrong.help().contains("'*/5 * * * *'"), "{line}");
        }
        let nowhere = Calendar::new("@daily", "Europe/Nowhere", 0).unwrap_err();
        assert_eq!(nowhere, ScheduleError::Zone { tz: "Europe/Nowhere".to_owned() });
    }

    #[test]
    fn times_are_shown_in_their_zone() {
        let calendar = Calendar::new("@daily", "Europe/Berlin", 0).unwrap();
        assert_eq!(calendar.show(second("2026-11-18T11:00:00Z")), "2026-11-18 12:00:00 CET");
    }
}
