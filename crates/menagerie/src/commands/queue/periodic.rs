//! Putting periodic messages, beside what a role that lives with queues does anyway.

use std::convert::Infallible;

use menagerie_kernel::Session;
use menagerie_queues::{Journals, schedule};

use crate::role::Life;

/// Takes part in putting periodic messages until the role is told to stop; then waits to be dropped, so that a silent
/// ZooKeeper does not hold up the end of the role.
pub async fn put_periodic(session: &Session, journals: &Journals, name: &str, life: &Life) -> Infallible {
    schedule::run(session, journals, name, life.stopping()).await;
    std::future::pending().await
}
