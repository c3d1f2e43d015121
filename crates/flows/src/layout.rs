//! The directories of a deployment. Whoever comes first makes them: roles start in any order.

use menagerie_kernel::{CallError, Term, retry};
use menagerie_znodes::Payload as _;
use menagerie_znodes::flows::Deployment;

/// Makes sure that they exist.
pub async fn ensure(term: &Term, deployment: &Deployment) -> Result<(), CallError> {
    let events = deployment.events();
    if term.patient().stat(events.path()).await?.is_some() {
        return Ok(());
    }
    for directory in deployment.directories() {
        retry::ensure(term, directory.path(), b"").await?;
    }
    // Last, so that where it is, all directories are.
    retry::ensure(term, events.path(), &0_u64.encode()).await
}
