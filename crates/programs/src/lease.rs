//! How long a program may go on.

use std::time::Duration;

use menagerie_kernel::Moment;
use tokio::sync::watch;

/// The right to do something, as levels: until when nobody else can have it, and whether it is to be given up.
#[derive(Debug, Clone)]
pub struct Lease {
    valid_until: watch::Receiver<Moment>,
    timeout: watch::Receiver<Duration>,
    stop: watch::Receiver<bool>,
}

/// How long a program may take to end when the lease does. SIGTERM comes so much earlier, and a lease that is kept up has
/// never less than about half of the session's time-out left: with more than a quarter, programs would be ended whose
/// lease is not over.
pub fn lease_grace(grace: Duration, session_timeout: Duration) -> Duration {
    grace.min(session_timeout / 4)
}

impl Lease {
    /// From what is watched: the end of the right, the session time-out that was granted, and whether to stop.
    pub fn new(
        valid_until: watch::Receiver<Moment>,
        timeout: watch::Receiver<Duration>,
        stop: watch::Receiver<bool>,
    ) -> Self {
        Self { valid_until, timeout, stop }
    }

    /// [`lease_grace`] under the session time-out of this moment: a server may grant less at every reconnect.
    pub fn grace(&self, most: Duration) -> Duration {
        lease_grace(most, *self.timeout.borrow())
    }

    /// Until when nobody else can do the same. It moves forward as long as all is well.
    pub fn valid_until(&self) -> watch::Receiver<Moment> {
        self.valid_until.clone()
    }

    /// Whether it has run out: another may do the same by now, and nothing may begin.
    pub fn is_over(&self) -> bool {
        self.valid_until.borrow().has_passed()
    }

    /// Waits until it lasts for longer than its [`grace`](Self::grace). False, if it is to stop before that.
    pub async fn lasts(&self, most: Duration) -> bool {
        let mut valid_until = self.valid_until.clone();
        tokio::select! {
            biased;
            () = self.stopped() => false,
            until = valid_until.wait_for(|until| *until > Moment::after(self.grace(most))) => until.is_ok(),
        }
    }

    /// Waits until whatever is done is to stop, soon: it is another's, or its owner is told to end.
    pub async fn stopped(&self) {
        let mut stop = self.stop.clone();
        // The owner itself is gone: that is a stop, too.
        let _ = stop.wait_for(|stop| *stop).await;
    }
}
