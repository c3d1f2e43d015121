//! The directories of a deployment. Whoever comes first makes them: roles start in any order.

use menagerie_kernel::{CallError, Term, retry};
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
    retry::ensure(term, events.path(), b"0").await
}
