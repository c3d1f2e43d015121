//! Reading and replacing messages by id.

use std::collections::{BTreeMap, HashSet};

use menagerie_journal::{Commit, Edit, Edited, Message, MessageId, NewMessage};
use menagerie_queues::{MessageUuid, Meta, Origin};
use menagerie_znodes::queues::{PartitionName, QueueName, Settings};

use crate::access::{Action, Caller};
use crate::bodies::{self, PostedMessage};
use crate::ids::{self, MessageRef};
use crate::messages::{QueueStore, REPLY_BYTES_MAX, reply_bytes};
use crate::reply::Reply;
use crate::search::{Purpose, Search, is_in_queue};
use crate::service::{Request, RequestMemory, Service, journal_refusal};

/// A replace writes its body once per id; this limits the product.
const REPLACED_BYTES_MAX: usize = 32 << 20;

impl Service {
    /// `GET /v1/{application}/{queue}/{ids}`
    pub(crate) async fn pick(
        &self,
        caller: &Caller,
        path: (&str, &str),
        ids: &str,
        memory: &mut RequestMemory,
    ) -> Result<Reply, Reply> {
        let (queue, settings) = self.queue(caller, Action::View, path).await?;
        let targets = ids::parse_list(ids, &queue, settings.partitions).ok_or_else(|| bad_ids(ids))?;
        let settings = self.settings_covering(&queue, settings, &targets).await?;
        let store = self.open_store(queue, &settings)?;
        let mut search = Search::new(&self.session, &store, &targets, &settings, Purpose::Show);
        let (mut messages, mut bytes_left) = (Vec::new(), REPLY_BYTES_MAX);
        for target in targets.iter().filter(|target| is_in_queue(target, &settings)) {
            if bytes_left == 0 {
                return Ok(Reply::messages(&store.queue, &messages, true));
            }
            if let Some(message) = search.find(target).await? {
                let bytes = reply_bytes(&message);
                memory.grow(bytes).map_err(|_| Reply::busy())?;
                bytes_left = bytes_left.saturating_sub(bytes);
                messages.push((target.partition, message));
            }
        }
        Ok(Reply::messages(&store.queue, &messages, false))
    }

    /// `PUT /v1/{application}/{queue}/{ids}`
    pub(crate) async fn replace(
        &self,
        request: &Request,
        caller: &Caller,
        (path, ids): ((&str, &str), &str),
        memory: &mut RequestMemory,
    ) -> Result<Reply, Reply> {
        let (queue, settings) = self.queue(caller, Action::Post, path).await?;
        let targets = ids::parse_list(ids, &queue, settings.partitions).ok_or_else(|| bad_ids(ids))?;
        let targets = without_repeats(targets);
        let settings = self.settings_covering(&queue, settings, &targets).await?;
        let message = bodies::parse_replacement(request.body.clone(), request.headers.ttl.as_deref())
            .map_err(|reasons| Reply::refused(400, &reasons))?;
        let written = message.body.len().saturating_mul(targets.len());
        if targets.len() > 1 && written > REPLACED_BYTES_MAX {
            let why = format!("this body for {} ids: more than {REPLACED_BYTES_MAX} bytes", targets.len());
            return Err(Reply::too_large(&why));
        }
        memory.grow(written).map_err(|_| Reply::busy())?;
        let origin = caller.origin(queue.application());
        let store = self.open_store(queue, &settings)?;
        // Check all ids before writing any.
        for commit in self.commits(&store, targets, &settings, (&message, &origin)).await? {
            let done = store.journal.commit(commit).await.map_err(journal_refusal)?;
            if done.edits.contains(&Edited::Missing) {
                let why = "Messages of that time were dropped, and this one would be, too.";
                return Err(Reply::error(409, "InvalidMessageID", why));
            }
        }
        Ok(Reply::done())
    }

    /// Commits that store the message under each of these ids. A commit takes at most one new id per partition, so new
    /// ids follow one another, oldest first. A client interrupted in between may safely repeat the whole request.
    async fn commits(
        &self,
        store: &QueueStore,
        mut targets: Vec<MessageRef>,
        settings: &Settings,
        content: (&PostedMessage, &Origin),
    ) -> Result<Vec<Commit>, Reply> {
        targets.sort_by_key(|target| (target.partition, target.id));
        let mut commits = vec![Commit::default()];
        let mut new: BTreeMap<u16, usize> = BTreeMap::new();
        let mut search = Search::new(&self.session, store, &targets, settings, Purpose::Change);
        let mut before = None;
        for target in &targets {
            let Some(id) = target.id.filter(|_| is_in_queue(target, settings)) else {
                return Err(Reply::bad_ids());
            };
            // First among the delayed ones: one that falls due meanwhile is then found as an ordinary message.
            let delayed = search.delayed(target).await?;
            let existing = search.find(target).await?;
            let position = existing.as_ref().map_or(MessageId(id.time()), |existing| existing.id);
            let same_time =
                before.replace((target.partition, position)) == Some((target.partition, position));
            let is_taken =
                existing.is_none() && store.message_at(target.partition, position).await?.is_some();
            if same_time || is_taken {
                let why = "Another message has the same time in this partition.";
                return Err(Reply::error(409, "InvalidMessageID", why));
            }
            if existing.is_none() && delayed.is_some() {
                return Err(Reply::error(409, "InvalidMessageID", "This message is not due yet."));
            }
            let nth = match &existing {
                Some(_) => 0,
                None => {
                    let count = new.entry(target.partition).or_default();
                    *count += 1;
                    *count - 1
                }
            };
            if commits.len() <= nth {
                commits.resize_with(nth + 1, Commit::default);
            }
            let partition = store.queue.partition(target.partition);
            let message = new_message((&partition, id, position), existing.as_ref(), content);
            let partition = store.partition(target.partition)?;
            commits[nth].edits.push(Edit::Replace { partition, id: position, message });
        }
        Ok(commits)
    }

    /// The queue's settings, read afresh if an id names a partition beyond those we know: ours may be stale.
    pub(crate) async fn settings_covering(
        &self,
        queue: &QueueName,
        settings: Settings,
        targets: &[MessageRef],
    ) -> Result<Settings, Reply> {
        match targets.iter().all(|target| is_in_queue(target, &settings)) {
            true => Ok(settings),
            false => self.fresh_settings(queue).await,
        }
    }
}

/// Why a list of ids is refused. Each id costs a read from the journal, hence the maximum.
pub(crate) fn bad_ids(ids: &str) -> Reply {
    if ids.split(',').count() <= ids::IDS_MAX {
        return Reply::bad_ids();
    }
    let why = format!("More than {} ids in one request.", ids::IDS_MAX);
    Reply::error(400, "InvalidMessageID", &why)
}

/// An id given twice counts once.
pub(crate) fn without_repeats(mut targets: Vec<MessageRef>) -> Vec<MessageRef> {
    let mut seen = HashSet::new();
    targets.retain(|target| seen.insert((target.partition, target.uuid)));
    targets
}

/// The message to store under an id. Keeps the metadata of the message it replaces, and the id if it does not follow
/// from the position.
fn new_message(
    (partition, target, position): (&PartitionName, MessageUuid, MessageId),
    existing: Option<&Message>,
    (posted, origin): (&PostedMessage, &Origin),
) -> NewMessage {
    let mut meta = existing.map_or_else(|| origin.meta(), Meta::of);
    let follows = match meta.via {
        Some(_) => MessageUuid::derived(partition, position),
        None => MessageUuid::old(position),
    };
    meta.id = (follows != target).then_some(target);
    NewMessage {
        meta: meta.encode(),
        body: posted.body.clone(),
        ttl: Some(posted.ttl),
        ..NewMessage::default()
    }
}
