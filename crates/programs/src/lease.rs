//! Leases: until when a program may run.

use std::time::Duration;

use menagerie_kernel::Moment;
use tokio::sync::watch;

/// The exclusive right to do something: until when nobody else can have it, and whether the owner must stop.
#[derive(Debug, Clone)]
pub struct Lease {
    valid_until: watch::Receiver<Moment>,
    timeout: watch::Receiver<Duration>,
    stop: watch::Receiver<bool>,
}

/// Grace of a program when its lease ends. SIGTERM comes that much before the end. A lease that is being extended
/// always has about half of the session time-out left, so with a grace of more than a quarter, programs would be ended
/// although their lease is fine.
pub fn lease_grace(grace: Duration, session_timeout: Duration) -> Duration {
    grace.min(session_timeout / 4)
}

impl Lease {
    /// From watches of the lease's end, the granted session time-out, and the order to stop.
    pub fn new(
        valid_until: watch::Receiver<Moment>,
        timeout: watch::Receiver<Duration>,
        stop: watch::Receiver<bool>,
    ) -> Self {
        Self { valid_until, timeout, stop }
    }

    /// [`lease_grace`] under the current session time-out: a server may grant less at every reconnect.
    pub fn grace(&self, most: Duration) -> Duration {
        lease_grace(most, *self.timeout.borrow())
    }

    /// Until when nobody else can have it. Advances as long as all is well.
    pub fn valid_until(&self) -> watch::Receiver<Moment> {
        self.valid_until.clone()
    }

    /// Whether it has ended: another owner may have it by now, and nothing may begin.
    pub fn is_over(&self) -> bool {
        self.valid_until.borrow().has_passed()
    }

    /// Waits until it lasts longer than its [`grace`](Self::grace). `false` if the order to stop comes first.
    pub async fn wait_for_grace(&self, most: Duration) -> bool {
        let mut valid_until = self.valid_until.clone();
        tokio::select! {
            biased;
            () = self.stopped() => false,
            until = valid_until.wait_for(|until| *until > Moment::after(self.grace(most))) => until.is_ok(),
        }
    }

    /// Whether the order to stop has come; see [`stopped`](Self::stopped).
    pub fn is_stopped(&self) -> bool {
        *self.stop.borrow() || self.stop.has_changed().is_err()
    }

    /// Waits for the order to stop: the owner has lost the lease, or is stopping itself.
    pub async fn stopped(&self) {
        let mut stop = self.stop.clone();
        // If the owner is gone, that is an order to stop, too.
        let _ = stop.wait_for(|stop| *stop).await;
    }
}
