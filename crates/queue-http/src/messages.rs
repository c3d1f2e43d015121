//! Posting messages to a queue and reading them back.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::select_all;
use menagerie_journal::{
    Append, Appended, Batch, Commit, Journal, JournalError, Message, MessageId, NewMessage, Order,
    PartitionId, Read,
};
use menagerie_queues::admin;
use menagerie_queues::coordination::claim::partition_id;
use menagerie_queues::core::partitioning;
use menagerie_znodes::queues::{QueueName, Settings};
use tokio::time::timeout;

use crate::access::{Action, Caller};
use crate::bodies::{self, PostedMessage};
use crate::form::{Form, ReadForm, Reasons};
use crate::ids::MessageRef;
use crate::reply::{self, Reply};
use crate::service::{Headers, Request, RequestMemory, Service, journal_refusal, unavailable};

/// Largest reply to a read. A client that wants more asks again, with `after` the last message it got.
pub(crate) const REPLY_BYTES_MAX: usize = 32 << 20;

/// Memory a message costs besides its body, here and in the reply, so that a million empty messages still hit the
/// limit.
const MESSAGE_OVERHEAD_BYTES: usize = 256;

/// Messages per read from the journal, however small they are.
const BATCH_MESSAGES_MAX: u32 = 4_096;

/// Longest idempotency key; the number of a message is appended to it.
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 200;

/// How often an idempotent commit is tried while its outcome is unknown.
const COMMIT_ATTEMPTS_MAX: u32 = 3;

/// Reads one request may spend on finding the partitions of its duplicates.
const DUPLICATE_READS_MAX: usize = 20_000;

/// A queue and the journal that stores its messages.
pub(crate) struct QueueStore {
    queue: QueueName,
    pub(crate) journal: Arc<dyn Journal>,
}

impl QueueStore {
    pub(crate) fn partition(&self, number: u16) -> Result<PartitionId, Reply> {
        partition_id(&self.queue.partition(number)).map_err(unavailable)
    }

    /// The message with this timestamp, whatever the rest of its UUID.
    pub(crate) async fn message_at(&self, message: &MessageRef) -> Result<Option<Message>, Reply> {
        let Some(id) = message.id else { return Ok(None) };
        let read = Read::one(self.partition(message.partition)?, id);
        Ok(self.read(read).await?.messages.pop())
    }

    /// A missing partition reads as empty: another server may have recreated the queue with fewer partitions.
    async fn read(&self, read: Read) -> Result<Batch, Reply> {
        match self.journal.read(read).await {
            Err(JournalError::NoPartition { .. }) => Ok(Batch::default()),
            batch => batch.map_err(journal_refusal),
        }
    }

    /// The message with exactly this UUID, not another one with the same timestamp.
    pub(crate) async fn message_named(&self, message: &MessageRef) -> Result<Option<Message>, Reply> {
        let named = format!("{:032x}", message.uuid);
        Ok(self.message_at(message).await?.filter(|message| reply::name(message) == named))
    }
}

impl Service {
    pub(crate) fn open_store(&self, queue: QueueName, settings: &Settings) -> Result<QueueStore, Reply> {
        let journal = admin::journal_of(&self.journals, &queue, settings).map_err(unavailable)?;
        Ok(QueueStore { queue, journal })
    }

    /// `POST /v1/{application}/{queue}`
    pub(crate) async fn post(
        &self,
        request: &Request,
        caller: &Caller,
        path: (&str, &str),
    ) -> Result<Reply, Reply> {
        let (queue, settings) = self.queue(caller, Action::Post, path).await?;
        match self.post_to(request, &queue, &settings).await {
            // Our settings may be stale: another server may have added the partition, or recreated the queue with
            // fewer.
            Err(refused) if refused.code == 400 => match self.fresh_settings(&queue).await? {
                same if same == settings => Err(refused),
                fresh => self.post_to(request, &queue, &fresh).await,
            },
            outcome => outcome,
        }
    }

    async fn post_to(
        &self,
        request: &Request,
        queue: &QueueName,
        settings: &Settings,
    ) -> Result<Reply, Reply> {
        let posted = parse_messages(request, settings.partitions).map_err(|why| Reply::refused(400, &why))?;
        let dedup = idempotency_key(request)?;
        let store = self.open_store(queue.clone(), settings)?;
        let mut commit = Commit::default();
        let mut placed = Vec::with_capacity(posted.len());
        let is_list = bodies::is_json(request.headers.content_type.as_deref());
        for (index, one) in posted.into_iter().enumerate() {
            // The prefixes keep clients' keys apart from dedup ids of our own, such as those of an operator's retry.
            let dedup = dedup.map(|key| match is_list {
                true => format!("http-list/{key}/{index}"),
                false => format!("http/{key}"),
            });
            let number = self.choose_partition(one.partition, dedup.as_deref(), settings.partitions);
            placed.push((number, one.body.clone()));
            let message = NewMessage {
                body: one.body,
                ttl: Some(one.ttl),
                dedup: dedup.map(Into::into),
                ..NewMessage::default()
            };
            commit.appends.push(Append { partition: store.partition(number)?, message });
        }
        let appended = commit_appends(&*store.journal, commit, dedup.is_some()).await?;
        let (mut ids, mut reads_left) = (Vec::with_capacity(placed.len()), DUPLICATE_READS_MAX);
        for ((number, body), appended) in placed.iter().zip(appended) {
            let id = match appended {
                Appended::At(id) => (*number, id),
                Appended::Duplicate(Some(id)) => {
                    let candidates = std::iter::once(*number).chain(1..=settings.partitions);
                    let found = find_duplicate(&store, candidates, id, body, &mut reads_left).await?;
                    (found.unwrap_or(*number), id)
                }
                Appended::Duplicate(None) | Appended::Delayed(_) => {
                    let why = "This key was used for a message that is not due yet.";
                    return Err(Reply::error(409, "Idempotency-Key", why));
                }
            };
            ids.push(id);
        }
        Ok(Reply::posted(&ids))
    }

    /// A repeated idempotency key goes to the same partition, where the journal can recognise the duplicate.
    fn choose_partition(&self, wanted: Option<u16>, dedup: Option<&str>, partitions: u16) -> u16 {
        match (wanted, dedup, NonZeroU16::new(partitions)) {
            (Some(number), _, _) => number,
            (None, Some(key), Some(partitions)) => partitioning::of_key(key.as_bytes(), partitions),
            (None, _, _) => self.next_partition(partitions),
        }
    }

    /// `GET /v1/{application}/{queue}`
    pub(crate) async fn read(
        &self,
        request: &Request,
        caller: &Caller,
        path: (&str, &str),
        memory: &mut RequestMemory,
    ) -> Result<Reply, Reply> {
        let (queue, mut settings) = self.queue(caller, Action::View, path).await?;
        let form = Form::parse(request.query.as_bytes())
            .and_then(|form| ReadForm::parse(&form))
            .map_err(|reasons| Reply::refused(400, &reasons))?;
        if form.partitions.iter().any(|number| *number > u64::from(settings.partitions)) {
            settings = self.fresh_settings(&queue).await?;
        }
        let known =
            |number: &u64| u16::try_from(*number).ok().filter(|n| (1..=settings.partitions).contains(n));
        let numbers: Vec<u16> = form.partitions.iter().filter_map(known).collect();
        let store = self.open_store(queue, &settings)?;
        let mut page = read_page(&store, &numbers, &form, memory).await?;
        if page.messages.is_empty()
            && !numbers.is_empty()
            && self.wait_for_messages(&store, &numbers, &page.newest, form.wait).await?
        {
            // While we waited, the key may have been revoked, or the queue made private or recreated.
            let caller = self.caller(request).await?;
            self.queue(&caller, Action::View, path).await?;
            page = read_page(&store, &numbers, &form, memory).await?;
        }
        Ok(Reply::messages(&page.messages, page.is_truncated))
    }

    /// Waits until one of these partitions may have a message newer than `last`. `false` after `wait` without any.
    async fn wait_for_messages(
        &self,
        store: &QueueStore,
        numbers: &[u16],
        last: &[MessageId],
        wait: Duration,
    ) -> Result<bool, Reply> {
        if wait.is_zero() {
            return Ok(false);
        }
        let mut waits = Vec::with_capacity(numbers.len());
        for (number, last) in numbers.iter().zip(last) {
            let (partition, last) = (store.partition(*number)?, *last);
            waits.push(Box::pin(async move {
                self.newest_ids.wait_for_newer(&store.journal, &partition, last).await
            }));
        }
        Ok(timeout(wait, select_all(waits)).await.is_ok())
    }
}

fn parse_messages(request: &Request, partitions: u16) -> Result<Vec<PostedMessage>, Reasons> {
    let Headers { content_type, partition, ttl, .. } = &request.headers;
    match bodies::is_json(content_type.as_deref()) {
        true => bodies::parse_list(&request.body, partitions),
        false => bodies::parse_single(request.body.clone(), partition.as_deref(), ttl.as_deref(), partitions)
            .map(|one| vec![one]),
    }
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
async fn commit_appends(
    journal: &dyn Journal,
    commit: Commit,
    is_idempotent: bool,
) -> Result<Vec<Appended>, Reply> {
    if commit.appends.is_empty() {
        return Ok(Vec::new());
    }
    if !is_idempotent {
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

/// The partition that stores the earlier copy of a duplicate, which may differ from the one it would go to now. Ids are
/// unique only within a partition, so the body must match, too. `None` if the copy was deleted or has expired.
async fn find_duplicate(
    store: &QueueStore,
    candidates: impl Iterator<Item = u16>,
    id: MessageId,
    body: &Bytes,
    reads_left: &mut usize,
) -> Result<Option<u16>, Reply> {
    for partition in candidates.take(*reads_left) {
        *reads_left -= 1;
        let message = MessageRef { partition, id: Some(id), uuid: id.to_uuid() };
        if store.message_at(&message).await?.is_some_and(|message| message.body == body) {
            return Ok(Some(partition));
        }
    }
    Ok(None)
}

/// Messages grouped by partition, in the order the client asked for.
#[derive(Default)]
struct Page {
    messages: Vec<(u16, Message)>,
    /// Newest id of each partition, in the order of the requested partitions.
    newest: Vec<MessageId>,
    /// More messages match than fit into one reply.
    is_truncated: bool,
}

async fn read_page(
    store: &QueueStore,
    numbers: &[u16],
    form: &ReadForm,
    memory: &mut RequestMemory,
) -> Result<Page, Reply> {
    let mut page = Page::default();
    let mut bytes_left = REPLY_BYTES_MAX;
    for number in numbers {
        let mut read = journal_read(store.partition(*number)?, form);
        let (mut last, mut left) = (None, read.limit);
        page.is_truncated |= bytes_left == 0;
        while left > 0 && bytes_left > 0 {
            read.limit = left.min(BATCH_MESSAGES_MAX);
            let batch = store.read(read.clone()).await?;
            last.get_or_insert(batch.last);
            let Some(end) = batch.messages.last().map(|message| message.id) else { break };
            left = left.saturating_sub(u32::try_from(batch.messages.len()).unwrap_or(u32::MAX));
            let bytes: usize = batch.messages.iter().map(reply_bytes).sum();
            memory.grow(bytes).map_err(|_| Reply::busy())?;
            bytes_left = bytes_left.saturating_sub(bytes);
            page.messages.extend(batch.messages.into_iter().map(|message| (*number, message)));
            match form.order {
                Order::Ascending if end >= batch.last => break,
                Order::Ascending => read.after = end,
                Order::Descending => read.before = end,
            }
            page.is_truncated |= bytes_left == 0 && left > 0;
        }
        page.newest.push(last.unwrap_or(MessageId::ZERO));
    }
    Ok(page)
}

/// Approximate size of a message in a reply.
pub(crate) fn reply_bytes(message: &Message) -> usize {
    MESSAGE_OVERHEAD_BYTES + json_bytes(&message.body)
}

/// Approximate size of a body in JSON, where a control character takes six bytes.
fn json_bytes(body: &[u8]) -> usize {
    let one = |byte: &u8| match byte {
        0..0x20 => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    };
    body.iter().map(one).sum()
}

fn journal_read(partition: PartitionId, form: &ReadForm) -> Read {
    let limit = form.limit.map_or(u32::MAX, |limit| u32::try_from(limit).unwrap_or(u32::MAX));
    let all = Read::after(partition, MessageId::ZERO).limit(limit);
    match (form.order, form.since, form.after) {
        (Order::Ascending, Some(since), _) => Read { after: since.previous(), ..all },
        (Order::Ascending, None, Some(after)) => Read { after, ..all },
        (Order::Ascending, None, None) => all,
        (Order::Descending, Some(since), _) => Read { before: since.next(), ..all }.descending(),
        (Order::Descending, None, Some(after)) => Read { before: after, ..all }.descending(),
        (Order::Descending, None, None) => all.descending(),
    }
}
