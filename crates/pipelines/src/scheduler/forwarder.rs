//! The forwarder of a connection: moves its events to the tenants that have the project, each exactly once.

use menagerie_kernel::Session;
use menagerie_kernel::recipes::grant::Grant;
use menagerie_kernel::recipes::sequence_queue::{LIMIT, SequenceQueue};
use menagerie_znodes::pipelines::{Event, Events, connection_events, tenant_triggers};
use menagerie_znodes::{Name, Payload as _};

use super::commit::{BATCH, acknowledge, entries, those_that_fit};
use crate::PipelineError;
use crate::config::Tenant;

/// Forwards until it fails or is stopped.
pub async fn run(
    session: &Session,
    grant: &Grant,
    connection: &str,
    tenants: &[(Name, Tenant)],
) -> Result<(), PipelineError> {
    let queue = SequenceQueue::new(session, connection_events(connection), LIMIT);
    loop {
        queue.arrival(None).await?;
        let batch = those_that_fit(entries::<Events>(&queue, BATCH).await?, tenants.len());
        let mut transaction = grant.transaction();
        for (name, tenant) in tenants {
            let is_ours = |event: &&Event| {
                let mut projects = tenant.projects.iter();
                projects
                    .any(|project| project.connection == event.connection && project.name == event.project)
            };
            let of = |Events(all): &Events| Events(all.iter().filter(is_ours).cloned().collect());
            let ours = batch.iter().filter_map(|entry| entry.value.as_ref()).map(of);
            let ours: Vec<Vec<u8>> =
                ours.filter(|Events(all)| !all.is_empty()).map(|all| all.encode()).collect();
            let triggers = SequenceQueue::new(session, tenant_triggers(name), LIMIT);
            transaction = triggers.put_all_with(transaction, &ours).await?;
        }
        let acked: Vec<_> = batch.into_iter().map(|entry| entry.id).collect();
        for id in &acked {
            transaction = queue.ack_with(transaction, id);
        }
        acknowledge(&queue, transaction, &acked).await?;
    }
}
