//! The clock of leases and deadlines: `CLOCK_BOOTTIME`.
//!
//! While this machine is suspended, the server goes on counting the silence of our session. `CLOCK_MONOTONIC` stands
//! still, and with it [`std::time::Instant`] and every timer of tokio: by that clock, a lease that ended hours ago is
//! still valid. So every end of a lease is a [`Moment`]. Time-outs of calls stay on tokio's clock.
//!
//! After a suspension, a [`Timer`] fires when the machine runs again, but other tasks may run before the one that waits
//! for it. So whoever begins something under a lease first compares the end of the lease with the clock itself.

use std::io;
use std::ops::{Add, Sub};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// How often [`Timer::wait_until`] polls the clock if its timer fails.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A moment of `CLOCK_BOOTTIME`, in nanoseconds. That clock is the same for all processes of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// Before every other moment.
    pub const PAST: Self = Self(0);

    /// After every other moment: the end of what has none.
    pub const NEVER: Self = Self(u64::MAX);

    /// The current time of the clock.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        let part = |n: i64| u64::try_from(n).unwrap_or(0);
        Self(part(now.tv_sec) * NANOS_PER_SECOND + part(now.tv_nsec))
    }

    /// The moment that is this long from now.
    pub fn after(time: Duration) -> Self {
        Self::now() + time
    }

    /// The moment this many nanoseconds after the machine booted.
    pub fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the machine booted.
    pub fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whether it is now or earlier.
    pub fn has_passed(self) -> bool {
        self <= Self::now()
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(nanos(time)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(time)))
    }
}

/// The time between two moments; zero if the second is the later one.
impl Sub for Moment {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A duration in nanoseconds, saturating.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A timer on `CLOCK_BOOTTIME`. It takes a file descriptor, so a session has one and shares it among all waiters.
#[derive(Debug)]
pub(crate) struct Timer {
    file: AsyncFd<OwnedFd>,
}

impl Timer {
    /// A timer that is not armed.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let file = timerfd_create(TimerfdClockId::Boottime, flags)?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe, for types whose descriptor may change; an OwnedFd has one until it is dropped"
        )]
        let file = AsyncFd::new(file)?;
        Ok(Self { file })
    }

    /// Waits until this moment has passed. Cancel-safe. One waiter at a time: each call re-arms the timer.
    pub async fn wait_until(&self, moment: Moment) {
        while !moment.has_passed() {
            if self.fire(moment).await.is_err() {
                // The runtime is shutting down.
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
    }

    async fn fire(&self, moment: Moment) -> io::Result<()> {
        arm(self.file.as_fd(), moment)?;
        let mut ready = self.file.readable().await?;
        // It may have fired for an earlier call that was cancelled; the caller compares with the clock.
        let _ = rustix::io::read(self.file.get_ref(), &mut [0; 8]);
        ready.clear_ready();
        Ok(())
    }
}

/// Arms a timer on `CLOCK_BOOTTIME`; [`Moment::NEVER`] disarms it.
pub(crate) fn arm(timer: impl std::os::fd::AsFd, moment: Moment) -> io::Result<()> {
    let mut time = Itimerspec { it_interval: timespec(0), it_value: timespec(0) };
    if moment != Moment::NEVER {
        // Zero would mean never.
        time.it_value = timespec(moment.as_nanos().max(1));
    }
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &time)?;
    Ok(())
}

fn timespec(nanos: u64) -> Timespec {
    Timespec { tv_sec: (nanos / NANOS_PER_SECOND) as i64, tv_nsec: (nanos % NANOS_PER_SECOND) as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_do_not_leave_their_ends() {
        let hour = Duration::from_secs(3600);
        assert_eq!((Moment::PAST - hour, Moment::NEVER + hour), (Moment::PAST, Moment::NEVER));
        let now = Moment::now();
        assert_eq!((now + hour - now, now - (now + hour)), (hour, Duration::ZERO));
        assert!(now.has_passed() && !Moment::NEVER.has_passed() && !(now + hour).has_passed());
    }

    #[tokio::test]
    async fn timer_can_be_armed_again_after_a_wait_was_cancelled() {
        let timer = Timer::new().unwrap();
        timer.wait_until(Moment::PAST).await;
        let late = timer.wait_until(Moment::after(Duration::from_secs(3600)));
        assert!(tokio::time::timeout(Duration::from_millis(20), late).await.is_err());
        for _ in 0..3 {
            let moment = Moment::after(Duration::from_millis(20));
            timer.wait_until(moment).await;
            assert!(moment.has_passed());
        }
        let never = timer.wait_until(Moment::NEVER);
        assert!(tokio::time::timeout(Duration::from_millis(20), never).await.is_err());
    }
}
