//! Posting messages to a queue.

use std::num::NonZeroU16;

use bytes::Bytes;
use menagerie_journal::{Append, Appended, Commit, Journal, JournalError, MessageId, NewMessage};
use menagerie_queues::admin::{Put, duplicates};
use menagerie_queues::core::partitioning;
use menagerie_queues::{MessageUuid, Origin};
use menagerie_znodes::queues::{QueueName, Settings};

use crate::access::{Action, Caller};
use crate::bodies::{self, PostedMessage};
use crate::form::Reasons;
use crate::messages::QueueStore;
use crate::reply::{Posted, Reply};
use crate::service::{Headers, Request, Service, journal_refusal, unavailable};

/// Longest idempotency key; the number of a message is appended to it.
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 200;

/// How often an idempotent commit is tried while its outcome is unknown.
const COMMIT_ATTEMPTS_MAX: u32 = 3;

/// Reads one request may spend on finding the partitions of its duplicates.
const DUPLICATE_READS_MAX: usize = 20_000;

/// A message on its way to the journal.
struct Placed {
    partition: u16,
    /// Its id, unless its position will say it.
    id: Option<MessageUuid>,
    body: Bytes,
    dedup: Option<Bytes>,
}

impl Service {
    /// `POST /v1/{application}/{queue}`
    pub(crate) async fn post(
        &self,
        request: &Request,
        caller: &Caller,
        path: (&str, &str),
    ) -> Result<Reply, Reply> {
        let (queue, settings) = self.queue(caller, Action::Post, path).await?;
        let origin = caller.origin(queue.application());
        match self.post_to(request, &queue, &settings, &origin).await {
            // Our settings may be stale: another server may have added the partition, or recreated the queue with
            // fewer.
            Err(refused) if refused.code == 400 => match self.fresh_settings(&queue).await? {
                same if same == settings => Err(refused),
                fresh => self.post_to(request, &queue, &fresh, &origin).await,
            },
            outcome => outcome,
        }
    }

    async fn post_to(
        &self,
        request: &Request,
        queue: &QueueName,
        settings: &Settings,
        origin: &Origin,
    ) -> Result<Reply, Reply> {
        let posted = parse_messages(request, settings).map_err(|why| Reply::refused(400, &why))?;
        let key = idempotency_key(request)?;
        let store = self.open_store(queue.clone(), settings)?;
        let mut commit = Commit::default();
        let mut placed = Vec::with_capacity(posted.len());
        let is_list = bodies::is_json(request.headers.content_type.as_deref());
        for (index, one) in posted.into_iter().enumerate() {
            // The prefixes keep clients' keys apart from dedup ids of our own, such as those of an operator's retry.
            let whole = key.map(|key| match is_list {
                true => format!("http-list/{key}/{index}"),
                false => format!("http/{key}"),
            });
            let partition = self.choose_partition(&one, whole.as_deref(), settings.partitions);
            let PostedMessage { body, key, due, ttl, dedup, priority, .. } = one;
            let dedup = dedup.or(whole).map(Bytes::from);
            let message = NewMessage {
                body: body.clone(),
                ttl: Some(ttl),
                due,
                dedup: dedup.clone(),
                ..NewMessage::default()
            };
            let key = key.as_deref().map(str::as_bytes);
            let stamped = origin.stamp(&queue.partition(partition), key, priority, message);
            let stamped = stamped.map_err(unavailable)?;
            placed.push(Placed { partition, id: stamped.id, body, dedup });
            commit.appends.push(Append { partition: store.partition(partition)?, message: stamped.message });
        }
        let appended = commit_appends(&*store.journal, commit).await?;
        let mut delayed =
            repeated_delayed(&store, settings.partitions, &placed, &appended).await?.into_iter();
        let (mut posted, mut gone) = (Vec::with_capacity(placed.len()), Reasons::new());
        let mut reads = DUPLICATE_READS_MAX;
        for (index, (one, appended)) in placed.into_iter().zip(appended).enumerate() {
            let found = match appended {
                Appended::Duplicate(None) => delayed.next().flatten(),
                _ => outcome(&store, settings.partitions, one, appended, &mut reads).await?,
            };
            match found {
                Some(found) => posted.push(found),
                None => drop(gone.insert(dedup_field(key, index), GONE.to_owned())),
            }
        }
        if gone.is_empty() { Ok(Reply::posted(&posted)) } else { Err(Reply::refused(409, &gone)) }
    }

    /// A repeated idempotency key goes to the same partition, where the journal can recognise the duplicate.
    fn choose_partition(&self, message: &PostedMessage, dedup: Option<&str>, partitions: u16) -> u16 {
        let key = message.key.as_deref().or(message.dedup.as_deref()).or(dedup);
        match (message.partition, key, NonZeroU16::new(partitions)) {
            (Some(number), _, _) => number,
            (None, Some(key), Some(partitions)) => partitioning::of_key(key.as_bytes(), partitions),
            (None, _, _) => self.next_partition(partitions),
        }
    }
}

/// A message repeats a delayed one, of which nothing is left.
const GONE: &str =
    "This was used for a delayed message that was cancelled. All other messages of the request are stored.";

/// The field that says what a message repeats.
fn dedup_field(key: Option<&str>, index: usize) -> String {
    key.map_or_else(|| format!("{index}.dedup"), |_| "Idempotency-Key".to_owned())
}

/// What became of a message in the journal. `None` if it repeats a delayed one.
async fn outcome(
    store: &QueueStore,
    partitions: u16,
    placed: Placed,
    appended: Appended,
    reads: &mut usize,
) -> Result<Option<Posted>, Reply> {
    let Placed { partition, id, body, dedup } = placed;
    let name = store.queue.partition(partition);
    Ok(match appended {
        Appended::At(position) => {
            let id = id.unwrap_or_else(|| MessageUuid::derived(&name, position));
            Some(Posted { partition, id, time: position, is_delayed: false })
        }
        Appended::Delayed(place) => {
            id.map(|id| Posted { partition, id, time: MessageId(place.due), is_delayed: true })
        }
        Appended::Duplicate(Some(position)) => {
            let likely = std::iter::once(partition);
            let candidates = likely.chain(1..=partitions).map(|number| store.queue.partition(number));
            let affordable = *reads;
            let candidates = candidates.take(affordable).inspect(|_| *reads -= 1);
            let dedup = dedup.unwrap_or_default();
            let found = duplicates::at(&*store.journal, candidates, position, &dedup, &body).await;
            let found = found.map_err(unavailable)?;
            let found = found.and_then(|found| Some((found.partition.number(), found.id?)));
            // It was deleted or has expired, and was most likely where this one would have gone.
            let (partition, id) = found.unwrap_or_else(|| (partition, MessageUuid::derived(&name, position)));
            Some(Posted { partition, id, time: position, is_delayed: false })
        }
        Appended::Duplicate(None) => None,
    })
}

/// The delayed messages that these repeat, one for each that repeats one; `None` if it is gone.
async fn repeated_delayed(
    store: &QueueStore,
    partitions: u16,
    placed: &[Placed],
    appended: &[Appended],
) -> Result<Vec<Option<Posted>>, Reply> {
    let all = placed.iter().zip(appended).filter(|(_, appended)| **appended == Appended::Duplicate(None));
    let dedups: Vec<Bytes> = all.map(|(one, _)| one.dedup.clone().unwrap_or_default()).collect();
    if dedups.is_empty() {
        return Ok(Vec::new());
    }
    let candidates = (1..=partitions).map(|number| store.queue.partition(number));
    let found = duplicates::delayed(&*store.journal, candidates, &dedups).await.map_err(unavailable)?;
    let posted = |found: Put| {
        let time = found.position.or(found.due.map(MessageId))?;
        let is_delayed = found.position.is_none();
        Some(Posted { partition: found.partition.number(), id: found.id?, time, is_delayed })
    };
    Ok(found.into_iter().map(|found| found.and_then(posted)).collect())
}

fn parse_messages(request: &Request, settings: &Settings) -> Result<Vec<PostedMessage>, Reasons> {
    let Headers { content_type, partition, ttl, .. } = &request.headers;
    if bodies::is_json(content_type.as_deref()) {
        return bodies::parse_list(&request.body, settings);
    }
    let (body, partitions) = (request.body.clone(), settings.partitions);
    bodies::parse_single(body, partition.as_deref(), ttl.as_deref(), partitions).map(|one| vec![one])
}

fn idempotency_key(request: &Request) -> Result<Option<&str>, Reply> {
    match request.headers.idempotency_key.as_deref() {
        None => Ok(None),
        // Two different keys that are not UTF-8 would both be replaced by U+FFFD and count as one.
        Some(key) if key.contains('\u{fffd}') => {
            Err(Reply::error(400, "Idempotency-Key", "a key is text in UTF-8"))
        }
        Some(key) if (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len()) => Ok(Some(key)),
        Some(_) => {
            let why = format!("a key has 1 to {IDEMPOTENCY_KEY_BYTES_MAX} characters");
            Err(Reply::error(400, "Idempotency-Key", &why))
        }
    }
}

/// Commits; retries only if the commit is idempotent and the journal does not know whether the last attempt happened.
async fn commit_appends(journal: &dyn Journal, commit: Commit) -> Result<Vec<Appended>, Reply> {
    if commit.appends.is_empty() {
        return Ok(Vec::new());
    }
    // The journal does not name the delayed message that a duplicate repeats, so do not repeat those.
    let is_idempotent = |append: &Append| append.message.dedup.is_some() && append.message.due.is_none();
    if !commit.appends.iter().all(is_idempotent) {
        return Ok(journal.commit(commit).await.map_err(journal_refusal)?.appends);
    }
    let mut attempt = 1;
    loop {
        match journal.commit(commit.clone()).await {
            Err(JournalError::Unknown(_)) if attempt < COMMIT_ATTEMPTS_MAX => attempt += 1,
            outcome => return Ok(outcome.map_err(journal_refusal)?.appends),
        }
    }
}
