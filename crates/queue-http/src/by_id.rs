//! Reading, replacing and deleting messages by id.

use std::collections::{BTreeMap, HashSet};

use menagerie_journal::{Commit, Edit, Edited, Message, NewMessage};
use menagerie_queues::failed::Meta;
use menagerie_znodes::queues::{QueueName, Settings};

use crate::access::{Action, Caller};
use crate::bodies::{self, PostedMessage};
use crate::ids::{self, MessageRef};
use crate::messages::{QueueStore, REPLY_BYTES_MAX, reply_bytes};
use crate::reply::{self, Reply};
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
        let targets = ids::parse_list(ids).ok_or_else(|| bad_ids(ids))?;
        let settings = self.settings_covering(&queue, settings, &targets).await?;
        let store = self.open_store(queue, &settings)?;
        let (mut messages, mut bytes_left) = (Vec::new(), REPLY_BYTES_MAX);
        for target in targets.iter().filter(|target| is_in_queue(target, &settings)) {
            if bytes_left == 0 {
                return Ok(Reply::messages(&messages, true));
            }
            if let Some(message) = store.message_named(target).await? {
                let bytes = reply_bytes(&message);
                memory.grow(bytes).map_err(|_| Reply::busy())?;
                bytes_left = bytes_left.saturating_sub(bytes);
                messages.push((target.partition, message));
            }
        }
        Ok(Reply::messages(&messages, false))
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
        let targets = without_repeats(ids::parse_list(ids).ok_or_else(|| bad_ids(ids))?);
        let settings = self.settings_covering(&queue, settings, &targets).await?;
        let message = bodies::parse_replacement(request.body.clone(), request.headers.ttl.as_deref())
            .map_err(|reasons| Reply::refused(400, &reasons))?;
        let written = message.body.len().saturating_mul(targets.len());
        if targets.len() > 1 && written > REPLACED_BYTES_MAX {
            let why = format!("this body for {} ids: more than {REPLACED_BYTES_MAX} bytes", targets.len());
            return Err(Reply::too_large(&why));
        }
        memory.grow(written).map_err(|_| Reply::busy())?;
        let store = self.open_store(queue, &settings)?;
        // Check all ids before writing any.
        for commit in commits(&store, targets, &settings, &message).await? {
            let done = store.journal.commit(commit).await.map_err(journal_refusal)?;
            if done.edits.contains(&Edited::Missing) {
                let why = "Messages of that time were dropped, and this one would be, too.";
                return Err(Reply::error(409, "InvalidMessageID", why));
            }
        }
        Ok(Reply::done())
    }

    /// `DELETE /v1/{application}/{queue}/{ids}`
    pub(crate) async fn delete(
        &self,
        caller: &Caller,
        path: (&str, &str),
        ids: &str,
    ) -> Result<Reply, Reply> {
        let (queue, settings) = self.queue(caller, Action::Delete, path).await?;
        let targets = without_repeats(ids::parse_list(ids).ok_or_else(|| bad_ids(ids))?);
        let settings = self.settings_covering(&queue, settings, &targets).await?;
        let store = self.open_store(queue, &settings)?;
        let mut commit = Commit::default();
        for target in targets.iter().filter(|target| is_in_queue(target, &settings)) {
            if let Some(message) = store.message_named(target).await? {
                let partition = store.partition(target.partition)?;
                commit.edits.push(Edit::Remove { partition, id: message.id });
            }
        }
        if !commit.is_empty() {
            store.journal.commit(commit).await.map_err(journal_refusal)?;
        }
        Ok(Reply::done())
    }

    /// The queue's settings, read afresh if an id names a partition beyond those we know: ours may be stale.
    async fn settings_covering(
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
fn bad_ids(ids: &str) -> Reply {
    if ids.split(',').count() <= ids::IDS_MAX {
        return Reply::bad_ids();
    }
    let why = format!("More than {} ids in one request.", ids::IDS_MAX);
    Reply::error(400, "InvalidMessageID", &why)
}

fn is_in_queue(target: &MessageRef, settings: &Settings) -> bool {
    (1..=settings.partitions).contains(&target.partition)
}

/// An id given twice counts once.
fn without_repeats(mut targets: Vec<MessageRef>) -> Vec<MessageRef> {
    let mut seen = HashSet::new();
    targets.retain(|target| seen.insert((target.partition, target.uuid)));
    targets
}

/// Commits that store the message under each of these ids. A commit takes at most one new id per partition, so new ids
/// follow one another, oldest first. A client interrupted in between may safely repeat the whole request.
async fn commits(
    store: &QueueStore,
    mut targets: Vec<MessageRef>,
    settings: &Settings,
    message: &PostedMessage,
) -> Result<Vec<Commit>, Reply> {
    targets.sort_by_key(|target| (target.partition, target.id));
    let mut commits = vec![Commit::default()];
    let mut new: BTreeMap<u16, usize> = BTreeMap::new();
    let mut before = None;
    for target in targets {
        let Some(id) = target.id.filter(|_| is_in_queue(&target, settings)) else {
            return Err(Reply::bad_ids());
        };
        let existing = store.message_at(&target).await?;
        let named = format!("{:032x}", target.uuid);
        let same_time = before.replace((target.partition, id)) == Some((target.partition, id));
        if same_time || existing.as_ref().is_some_and(|existing| reply::name(existing) != named) {
            let why = "Another message has the same time in this partition.";
            return Err(Reply::error(409, "InvalidMessageID", why));
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
        let partition = store.partition(target.partition)?;
        let message = new_message(&target, existing.as_ref(), message);
        commits[nth].edits.push(Edit::Replace { partition, id, message });
    }
    Ok(commits)
}

/// The message to store under an id. Keeps the metadata of the message it replaces, and the UUID if a client chose it.
fn new_message(target: &MessageRef, existing: Option<&Message>, posted: &PostedMessage) -> NewMessage {
    let mut meta = existing.map(Meta::of).unwrap_or_default();
    meta.id = target.foreign();
    let meta = match meta == Meta::default() {
        true => Vec::new(),
        false => serde_json::to_vec(&meta).expect("texts and numbers can be written"),
    };
    NewMessage {
        meta: meta.into(),
        body: posted.body.clone(),
        ttl: Some(posted.ttl),
        ..NewMessage::default()
    }
}
