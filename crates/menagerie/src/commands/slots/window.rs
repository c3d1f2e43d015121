//! A daily time window: `22:00-04:00`, local time.

use std::time::Duration;

use jiff::civil::{Time, time};
use jiff::{ToSpan as _, Zoned};

/// From one time of day to another, perhaps over midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    from: Time,
    to: Time,
}

pub fn parse(text: &str) -> Result<Window, String> {
    let wrong = || format!("{text:?} is not a window: write FROM-TO, such as 22:00-04:00");
    let (from, to) = text.split_once('-').ok_or_else(wrong)?;
    let (from, to) = (clock(from).ok_or_else(wrong)?, clock(to).ok_or_else(wrong)?);
    if from == to {
        return Err(format!("{text:?} is empty: leave --window out if any time will do"));
    }
    Ok(Window { from, to })
}

fn clock(text: &str) -> Option<Time> {
    let (hour, minute) = text.trim().split_once(':')?;
    let digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(hour) || !digits(minute) {
        return None;
    }
    let (hour, minute) = (hour.parse().ok()?, minute.parse().ok()?);
    (0..24).contains(&hour).then_some(())?;
    (0..60).contains(&minute).then(|| time(hour, minute, 0, 0))
}

impl Window {
    /// How long it stays open, if it is open.
    pub fn open_for(self, now: &Zoned) -> Option<Duration> {
        let clock = now.time();
        let open = if self.from < self.to {
            self.from <= clock && clock < self.to
        } else {
            clock >= self.from || clock < self.to
        };
        open.then(|| until(now, self.to))
    }

    pub fn opens_in(self, now: &Zoned) -> Duration {
        until(now, self.from)
    }
}

/// Time until the clock shows this time next, even across a change to daylight saving time.
fn until(now: &Zoned, clock: Time) -> Duration {
    let next = (0..3).find_map(|days| {
        let date = now.date().checked_add(days.days()).ok()?;
        let then = date.to_datetime(clock).to_zoned(now.time_zone().clone()).ok()?;
        (then > *now).then_some(then)
    });
    let wait = next.map(|then| now.duration_until(&then));
    wait.and_then(|wait| Duration::try_from(wait).ok()).unwrap_or(Duration::from_secs(60))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Zoned {
        text.parse().unwrap()
    }

    #[test]
    fn window_over_midnight_is_open_on_both_sides_of_it() {
        let window = parse("22:00-04:00").unwrap();
        let hours = |hours: u64| Some(Duration::from_secs(hours * 3600));
        assert_eq!(window.open_for(&at("2026-11-15T22:00[UTC]")), hours(6));
        assert_eq!(window.open_for(&at("2026-11-15T03:00[UTC]")), hours(1));
        assert_eq!(window.open_for(&at("2026-11-15T04:00[UTC]")), None);
        assert_eq!(Some(window.opens_in(&at("2026-11-15T04:00[UTC]"))), hours(18));
        let window = parse("09:00-17:30").unwrap();
        assert_eq!(window.open_for(&at("2026-11-15T18:00[UTC]")), None);
        assert_eq!(Some(window.opens_in(&at("2026-11-15T18:00[UTC]"))), hours(15));
    }

    #[test]
    fn what_is_no_window_is_refused() {
        for text in ["", "22:00", "22:00-", "24:00-01:00", "9:00-10:00", "09:60-10:00", "10:00-10:00", "a-b"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
