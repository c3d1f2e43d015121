//! Deleting messages by id.

use menagerie_journal::{Commit, Edit, Edited, Message, MessageId};
use menagerie_queues::story::{Act, ActKind, note};
use menagerie_queues::{MessageUuid, Meta};
use menagerie_znodes::queues::Settings;

use crate::access::{Action, Caller};
use crate::by_id::{bad_ids, without_repeats};
use crate::ids::{self, MessageRef};
use crate::messages::QueueStore;
use crate::reply::Reply;
use crate::search::{Purpose, Search, is_in_queue};
use crate::service::{Service, journal_refusal};

/// How often to look for a message: one that falls due under our hands is somewhere else the second time, and stays
/// there.
const ROUNDS: usize = 2;

/// A message to delete.
struct Deletion {
    target: MessageRef,
    edit: Edit,
    /// What its story says once it is deleted.
    act: Act,
}

impl Service {
    /// `DELETE /v1/{application}/{queue}/{ids}`
    pub(crate) async fn delete(
        &self,
        caller: &Caller,
        path: (&str, &str),
        ids: &str,
    ) -> Result<Reply, Reply> {
        let (queue, settings) = self.queue(caller, Action::Delete, path).await?;
        let targets = ids::parse_list(ids, &queue, settings.partitions).ok_or_else(|| bad_ids(ids))?;
        let mut targets = without_repeats(targets);
        let settings = self.settings_covering(&queue, settings, &targets).await?;
        let store = self.open_store(queue, &settings)?;
        let by = caller.origin(store.queue.application()).meta().by;
        targets.retain(|target| is_in_queue(target, &settings));
        for _ in 0..ROUNDS {
            let deletions = self.find_all(&store, &settings, &targets, by.as_ref()).await?;
            targets = delete_all(&store, &settings, deletions).await?;
            if targets.is_empty() {
                break;
            }
        }
        Ok(Reply::done())
    }

    /// What there is to delete. Ids that no message has are not an error.
    async fn find_all(
        &self,
        store: &QueueStore,
        settings: &Settings,
        targets: &[MessageRef],
        by: Option<&String>,
    ) -> Result<Vec<Deletion>, Reply> {
        let mut search = Search::new(&self.session, store, targets, settings, Purpose::Change);
        let mut deletions = Vec::new();
        for target in targets {
            let partition = store.partition(target.partition)?;
            // First among the delayed ones: one that falls due meanwhile is then found as an ordinary message.
            let (edit, act) = if let Some(delayed) = search.delayed(target).await? {
                let act = act(store, target, by, None, &delayed.message);
                (Edit::Cancel { partition, id: delayed.place }, act)
            } else if let Some(message) = search.find(target).await? {
                let act = act(store, target, by, Some(message.id), &message);
                (Edit::Remove { partition, id: message.id }, act)
            } else {
                continue;
            };
            deletions.push(Deletion { target: *target, edit, act });
        }
        Ok(deletions)
    }
}

/// Deletes messages, and then notes in their stories that somebody did. Returns those that were delayed a moment ago and
/// are not any more.
///
/// Not in one commit: one message that is gone already would refuse it, and so would a journal that is full, although
/// deleting makes room.
async fn delete_all(
    store: &QueueStore,
    settings: &Settings,
    deletions: Vec<Deletion>,
) -> Result<Vec<MessageRef>, Reply> {
    if deletions.is_empty() {
        return Ok(Vec::new());
    }
    let edits = deletions.iter().map(|deletion| deletion.edit.clone()).collect();
    let committed = store.journal.commit(Commit { edits, ..Commit::default() }).await;
    let edited = committed.map_err(journal_refusal)?.edits;
    let (mut acts, mut due) = (Vec::new(), Vec::new());
    for (Deletion { target, edit, act }, edited) in deletions.into_iter().zip(edited) {
        match (edited, edit) {
            (Edited::Changed | Edited::Inserted, _) => acts.push(act),
            (Edited::Missing, Edit::Cancel { .. }) => due.push(target),
            // Somebody else was faster.
            (Edited::Missing, Edit::Remove { .. } | Edit::Replace { .. }) => {}
        }
    }
    if !acts.is_empty() {
        note(&*store.journal, &store.queue, settings, acts).await;
    }
    Ok(due)
}

fn act(
    store: &QueueStore,
    target: &MessageRef,
    by: Option<&String>,
    position: Option<MessageId>,
    message: &Message,
) -> Act {
    let partition = store.queue.partition(target.partition);
    let (id, meta) = (MessageUuid::of(&partition, message), Some(Meta::of(message)));
    Act { id, partition, position, act: ActKind::Deleted, by: by.cloned(), meta }
}
