//! Reading the messages of a queue.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;
use menagerie_journal::{Batch, Journal, JournalError, Message, MessageId, Order, PartitionId, Read};
use menagerie_queues::MessageUuid;
use menagerie_queues::admin;
use menagerie_queues::coordination::claim::partition_id;
use menagerie_znodes::queues::{QueueName, Settings};
use tokio::time::timeout;

use crate::access::{Action, Caller};
use crate::form::{Form, ReadForm};
use crate::reply::Reply;
use crate::search;
use crate::service::{Request, RequestMemory, Service, journal_refusal, unavailable};

/// Largest reply to a read. A client that wants more asks again, with `after` the last message it got.
pub(crate) const REPLY_BYTES_MAX: usize = 32 << 20;

/// Memory a message costs besides its body, here and in the reply, so that a million empty messages still hit the
/// limit.
const MESSAGE_OVERHEAD_BYTES: usize = 256;

/// Messages per read from the journal, however small they are.
pub(crate) const BATCH_MESSAGES_MAX: u32 = 4_096;

/// A queue and the journal that stores its messages.
pub(crate) struct QueueStore {
    pub(crate) queue: QueueName,
    pub(crate) journal: Arc<dyn Journal>,
}

impl QueueStore {
    pub(crate) fn partition(&self, number: u16) -> Result<PartitionId, Reply> {
        partition_id(&self.queue.partition(number)).map_err(unavailable)
    }

    /// The message at this position.
    pub(crate) async fn message_at(
        &self,
        partition: u16,
        position: MessageId,
    ) -> Result<Option<Message>, Reply> {
        let read = Read::one(self.partition(partition)?, position);
        Ok(self.read(read).await?.messages.pop())
    }

    /// The id of a message of this partition.
    pub(crate) fn id_of(&self, partition: u16, message: &Message) -> MessageUuid {
        MessageUuid::of(&self.queue.partition(partition), message)
    }

    /// A missing partition reads as empty: another server may have recreated the queue with fewer partitions.
    pub(crate) async fn read(&self, read: Read) -> Result<Batch, Reply> {
        match self.journal.read(read).await {
            Err(JournalError::NoPartition { .. }) => Ok(Batch::default()),
            batch => batch.map_err(journal_refusal),
        }
    }
}

impl Service {
    pub(crate) fn open_store(&self, queue: QueueName, settings: &Settings) -> Result<QueueStore, Reply> {
        let journal = admin::journal_of(&self.journals, &queue, settings).map_err(unavailable)?;
        Ok(QueueStore { queue, journal })
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
        Ok(Reply::messages(&store.queue, &page.messages, page.is_truncated))
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
        let moved = search::position_of_marker(store, *number, form).await?;
        let mut read = journal_read(store.partition(*number)?, form, moved);
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

/// `moved`: where the message stands that the client names, if its id does not say so.
fn journal_read(partition: PartitionId, form: &ReadForm, moved: Option<MessageId>) -> Read {
    let limit = form.limit.map_or(u32::MAX, |limit| u32::try_from(limit).unwrap_or(u32::MAX));
    let all = Read::after(partition, MessageId::ZERO).limit(limit);
    let (since, after) = (form.since.map(|id| moved.unwrap_or(id)), form.after.map(|id| moved.unwrap_or(id)));
    match (form.order, since, after) {
        (Order::Ascending, Some(since), _) => Read { after: since.previous(), ..all },
        (Order::Ascending, None, Some(after)) => Read { after, ..all },
        (Order::Ascending, None, None) => all,
        (Order::Descending, Some(since), _) => Read { before: since.next(), ..all }.descending(),
        (Order::Descending, None, Some(after)) => Read { before: after, ..all }.descending(),
        (Order::Descending, None, None) => all.descending(),
    }
}
