//! From effects to a transaction.

use menagerie_kernel::Transaction;
use menagerie_kernel::recipes::grant::Grant;
use menagerie_kernel::recipes::tree_cache::TreeCache;
use menagerie_znodes::flows::{Cooldown, Deployment, Document, Exhaust, Offered, Sealed, Status};

use crate::core::step::{self, Remains};
use crate::core::{Effect, JobId, JobView, Peer, PeerId};

/// Offers that the job log keeps.
const OFFERS_KEPT: u64 = 100;
/// States that a peer's history keeps.
const STATES_KEPT: u64 = 20;

/// All effects, in one transaction of the leader.
pub fn transaction(
    grant: &Grant,
    deployment: &Deployment,
    cache: &TreeCache,
    effects: Vec<Effect>,
) -> Transaction {
    effects
        .into_iter()
        .fold(grant.transaction(), |transaction, effect| add(transaction, deployment, cache, effect))
}

fn add(transaction: Transaction, tree: &Deployment, cache: &TreeCache, effect: Effect) -> Transaction {
    match effect {
        Effect::Answer(job, answer) => {
            let znode = tree.plan(&job);
            match cache.read(&znode) {
                Ok(Some(mut plan)) => {
                    plan.value.answer = Some(answer);
                    transaction.set(&znode, &plan.value, Some(plan.stat.version))
                }
                // Nobody deletes plans, and this one was read before.
                Ok(None) | Err(_) => transaction.check(&znode, None),
            }
        }
        Effect::CreateJob(job, view, documents) => create_job(transaction, tree, &job, &view, documents),
        Effect::SetJob(job, record) => transaction.set(&tree.job(&job), &record, None),
        Effect::SealTask(task, ends) => transaction
            .create(&tree.task_sealed(&task.job, task.task), &Sealed { ends })
            .create(&tree.task_complete(&task.job, task.task), &()),
        Effect::LogOffer(number, peer, task) => {
            let offered = Offered { job: task.job, task: task.task, peer };
            let logged = transaction.create(&tree.offer(number), &offered);
            match number.checked_sub(OFFERS_KEPT).filter(|old| *old > 0) {
                Some(old) => logged.delete(&tree.offer(old), None),
                None => logged,
            }
        }
        Effect::CreatePeer(peer) => create_peer(transaction, tree, &peer),
        Effect::DeletePeer(peer, remains) => delete_peer(transaction, tree, &peer, remains),
        Effect::AddState(peer, number, record) => {
            let added = transaction.create(&tree.peer_state(&peer, number), &record);
            match number.checked_sub(STATES_KEPT).filter(|old| *old > 0) {
                Some(old) => added.delete(&tree.peer_state(&peer, old), None),
                None => added,
            }
        }
        Effect::SetPayload(peer, payload) => transaction.set(&tree.payload(&peer), &payload, None),
        Effect::Go(peer, offer) => transaction.create(&tree.status(&peer), &Status { offer }),
        Effect::Stop(peer) => transaction.delete(&tree.status(&peer), None),
        Effect::AnswerSeal(peer, offer, seal) => {
            transaction.set(&tree.exhaust(&peer), &Exhaust { offer, seal }, None)
        }
        Effect::AnswerCompletion(peer, offer) => {
            transaction.set(&tree.cooldown(&peer), &Cooldown { offer }, None)
        }
    }
}

fn create_job(
    transaction: Transaction,
    tree: &Deployment,
    job: &JobId,
    view: &JobView,
    (catalog, workflow): (serde_json::Value, serde_json::Value),
) -> Transaction {
    let with_parts = transaction
        .create(&tree.catalog(job), &Document(catalog))
        .create(&tree.workflow(job), &Document(workflow))
        .create(&tree.tasks(job), &());
    let with_tasks = view.tasks.iter().fold(with_parts, |transaction, (number, task)| {
        transaction.create(&tree.task(job, *number), &task.record)
    });
    with_tasks.create(&tree.job(job), &view.record)
}

fn create_peer(transaction: Transaction, tree: &Deployment, peer: &PeerId) -> Transaction {
    let registered = Peer::registered();
    transaction
        .create(&tree.peer_history(peer), &())
        .create(&tree.peer_state(peer, registered.state_number), &registered.record())
        .create(&tree.payload(peer), &step::payload(None))
        .create(&tree.exhaust(peer), &Exhaust { offer: 0, seal: false })
        .create(&tree.cooldown(peer), &Cooldown { offer: 0 })
}

fn delete_peer(transaction: Transaction, tree: &Deployment, peer: &PeerId, remains: Remains) -> Transaction {
    let own = transaction
        .delete(&tree.ack(peer), None)
        .delete(&tree.seal(peer), None)
        .delete(&tree.completion(peer), None)
        .delete(&tree.peer(peer), None);
    let Remains::All { state_number, has_status } = remains else { return own };
    let oldest = state_number.saturating_sub(STATES_KEPT - 1).max(1);
    let states = (oldest..=state_number)
        .fold(own, |transaction, number| transaction.delete(&tree.peer_state(peer, number), None));
    let all = states
        .delete(&tree.peer_history(peer), None)
        .delete(&tree.payload(peer), None)
        .delete(&tree.exhaust(peer), None)
        .delete(&tree.cooldown(peer), None);
    if has_status { all.delete(&tree.status(peer), None) } else { all }
}
