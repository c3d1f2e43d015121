//! Whether the wall clock can be believed. Ids rise whatever it does; but a person wants to know.

use std::time::Duration;

use crate::id::Ticks;

/// A wall clock that moves by this much more or less than time does has jumped.
const JUMP: Duration = Duration::from_secs(60);

/// A jump of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Jump {
    Ahead(Duration),
    Back(Duration),
}

/// The wall clock beside one that only moves forward.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Watch {
    last: Option<(Ticks, Duration)>,
}

impl Watch {
    /// Notes both clocks, and tells when the wall clock has jumped since the last time.
    pub(crate) fn observe(&mut self, wall: Ticks, steady: Duration) -> Option<Jump> {
        let (last_wall, last_steady) = self.last.replace((wall, steady))?;
        let expected = last_wall.plus(steady.saturating_sub(last_steady));
        match (wall.since(expected), expected.since(wall)) {
            (ahead, _) if ahead > JUMP => Some(Jump::Ahead(ahead)),
            (_, back) if back > JUMP => Some(Jump::Back(back)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_runs_is_believed_and_one_that_jumps_is_reported() {
        let mut watch = Watch::default();
        let start = Ticks::now();
        let second = Duration::from_secs;
        assert_eq!(watch.observe(start, second(10)), None);
        assert_eq!(watch.observe(start.plus(second(3600)), second(3610)), None);
        assert_eq!(watch.observe(start.plus(second(7300)), second(3611)), Some(Jump::Ahead(second(3699))));
        assert_eq!(watch.observe(start.plus(second(7310)), second(3621)), None);
        assert_eq!(watch.observe(start, second(3621)), Some(Jump::Back(second(7310))));
    }
}
