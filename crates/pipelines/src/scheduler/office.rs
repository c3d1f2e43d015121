//! An office: something that one scheduler at a time does. Schedulers contend for its lock, and whoever holds it works.

use std::time::Duration;

use menagerie_kernel::recipes::grant::Grant;
use menagerie_kernel::recipes::lock::Lock;
use menagerie_kernel::{Session, TermError as _, whole};
use menagerie_znodes::{Dir, Znode};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::PipelineError;

/// After work that failed, before it begins anew; doubled each time, up to the maximum.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Work that lasted so long had begun well.
const GOOD_START: Duration = Duration::from_secs(10);

/// Becomes true when the office is to close.
pub type Stopping = watch::Receiver<bool>;

/// Waits until the office is to close.
pub async fn stop_requested(stopping: &Stopping) {
    let mut stopping = stopping.clone();
    // An error: nobody is left who could ask, which is the same.
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// Works whenever it holds the lock, until it is to stop. Work that fails lets go of it, with a word: whoever stands by may do
/// better; and contends again after a pause.
pub async fn run(
    session: &Session,
    lock: Znode<Dir>,
    name: &str,
    stopping: &Stopping,
    work: impl AsyncFn(&Grant) -> Result<(), PipelineError>,
) {
    let path = lock.path().to_owned();
    let lock = Lock::new(session, lock).identified_by(name);
    let mut pause = PAUSE;
    loop {
        let held = tokio::select! {
            held = lock.acquire() => held,
            () = stop_requested(stopping) => return,
        };
        let guard = match held {
            Ok(guard) => guard,
            Err(error) => {
                warn!(path, error = %whole(&error), ?pause, "cannot contend; trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
                continue;
            }
        };
        let grant = guard.grant();
        let began = tokio::time::Instant::now();
        let ended = tokio::select! {
            ended = work(&grant) => ended,
            loss = grant.lost() => {
                info!(path, ?loss, "an office was lost");
                Ok(())
            }
            () = stop_requested(stopping) => Ok(()),
        };
        // If it was lost, there is nothing to release.
        let _ = guard.release().await;
        if *stopping.borrow() {
            return;
        }
        let Err(mut error) = ended else { continue };
        if error.call().is_some_and(|call| call.ends_term()) {
            continue;
        }
        if began.elapsed() > GOOD_START {
            pause = PAUSE;
        }
        warn!(path, error = %whole(&error), ?pause, "work in an office failed; beginning anew");
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop_requested(stopping) => return,
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
