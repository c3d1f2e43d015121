//! One message, and what has become of it.

use menagerie_journal::Message;
use menagerie_queues::MessageUuid;
use menagerie_queues::admin::failed::FailedMessages;
use menagerie_queues::admin::state::{MessageState, state_of};
use menagerie_znodes::queues::Settings;

use crate::access::{Action, Caller};
use crate::ids::{self, MessageRef};
use crate::messages::{QueueStore, reply_bytes};
use crate::reply::Reply;
use crate::search::{Search, is_in_queue};
use crate::service::{RequestMemory, Service, unavailable};

/// A message that was found.
struct Found {
    partition: u16,
    message: Message,
    state: MessageState,
}

impl Service {
    /// `GET /v1/{application}/{queue}/messages/{id}`: from whichever partition it is in.
    pub(crate) async fn message(
        &self,
        caller: &Caller,
        path: (&str, &str),
        id: &str,
        memory: &mut RequestMemory,
    ) -> Result<Reply, Reply> {
        let (queue, settings) = self.queue(caller, Action::View, path).await?;
        let ids = ids::parse_list(id, &queue, settings.partitions).ok_or_else(Reply::bad_ids)?;
        let [target] = ids[..] else { return Err(Reply::bad_ids()) };
        let settings = self.settings_covering(&queue, settings, &[target]).await?;
        let store = self.open_store(queue, &settings)?;
        let nothing = || Reply::error(404, "InvalidMessageID", "There is no message of that id.");
        let uuid = target.id.ok_or_else(nothing)?;
        let targets = candidates(&store, target, id.contains(':'), &settings);
        let found = match self.in_partitions(&store, &targets, &settings).await? {
            Some(found) => found,
            None => self.failed(&store, &targets, uuid).await?.ok_or_else(nothing)?,
        };
        memory.grow(reply_bytes(&found.message)).map_err(|_| Reply::busy())?;
        Ok(Reply::message(found.partition, &found.message, uuid, found.state))
    }

    async fn in_partitions(
        &self,
        store: &QueueStore,
        targets: &[MessageRef],
        settings: &Settings,
    ) -> Result<Option<Found>, Reply> {
        let mut search = Search::new(store, targets, settings);
        for target in targets {
            let partition = target.partition;
            if let Some(message) = search.find(target).await? {
                let state = self.state(store, partition, &message).await?;
                // Whoever is done may stand here again, behind where it was: an operator retried it.
                if state == MessageState::Done
                    && let Some(again) = search.find_again(target, &message).await?
                {
                    let state = self.state(store, partition, &again).await?;
                    return Ok(Some(Found { partition, message: again, state }));
                }
                return Ok(Some(Found { partition, message, state }));
            }
            if let Some(delayed) = self.delayed(store, target).await? {
                let (message, state) = (delayed.message, MessageState::Delayed);
                return Ok(Some(Found { partition, message, state }));
            }
        }
        Ok(None)
    }

    async fn state(
        &self,
        store: &QueueStore,
        partition: u16,
        message: &Message,
    ) -> Result<MessageState, Reply> {
        let partition = store.queue.partition(partition);
        let state = state_of(&self.session.term(), &store.journal, &partition, message).await;
        state.map_err(unavailable)
    }

    /// One that was given up, and is no longer kept where it was.
    async fn failed(
        &self,
        store: &QueueStore,
        targets: &[MessageRef],
        id: MessageUuid,
    ) -> Result<Option<Found>, Reply> {
        let failed = FailedMessages::open(&self.session, &self.journals, &store.queue).await;
        let Some(failed) = failed.map_err(unavailable)?.find(id).await.map_err(unavailable)? else {
            return Ok(None);
        };
        let partition = failed.record.map_or(1, |record| record.origin.number());
        let is_here = targets.iter().any(|target| target.partition == partition);
        let found = Found { partition, message: failed.message, state: MessageState::Failed };
        Ok(is_here.then_some(found))
    }
}

/// Where the message may be: in the partition that the client or the id names, or else in any.
fn candidates(
    store: &QueueStore,
    target: MessageRef,
    is_named: bool,
    settings: &Settings,
) -> Vec<MessageRef> {
    let all = (1..=settings.partitions).map(|partition| MessageRef { partition, ..target });
    let own = store.queue.partition(target.partition);
    let is_own = target.id.is_some_and(|id| id.position_in(&own).is_some() || id.may_be_chosen_for(&own));
    match is_named || is_own {
        true => Some(target).filter(|target| is_in_queue(target, settings)).into_iter().collect(),
        false => all.collect(),
    }
}
