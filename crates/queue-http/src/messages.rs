//! Messages: posted and read.

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

use crate::access::{Caller, Wish};
use crate::bodies::{self, Posted};
use crate::form::{Form, ReadForm, Reasons};
use crate::ids::Place;
use crate::reply::{self, Reply};
use crate::service::{Headers, Held, Request, Service, failed, unreachable};

/// An answer has an end: messages of so many bytes. Whoever wants more asks for what is behind the last message.
pub(crate) const ANSWER_BYTES_MAX: usize = 32 << 20;

/// What a message takes besides its body, here and in the answer: a million empty ones are not nothing.
const MESSAGE_BYTES: usize = 256;

/// So many are asked for at once, however small they are.
const BATCH_MESSAGES_MAX: u32 = 4_096;

/// Longest idempotency key; the number of a message is appended to it.
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 200;

/// A commit whose outcome is unknown is made again so often, if it can be made again.
const ATTEMPTS: u32 = 3;

/// Messages that were posted before are looked for in partitions so often, for one request.
const LOOKS_MAX: usize = 20_000;

/// Where a queue's messages are.
pub(crate) struct Desk {
    queue: QueueName,
    pub(crate) store: Arc<dyn Journal>,
}

impl Desk {
    pub(crate) fn partition(&self, number: u16) -> Result<PartitionId, Reply> {
        partition_id(&self.queue.partition(number)).map_err(unreachable)
    }

    pub(crate) async fn one(&self, place: &Place) -> Result<Option<Message>, Reply> {
        let Some(id) = place.id else { return Ok(None) };
        let read = Read::one(self.partition(place.partition)?, id);
        Ok(self.read(read).await?.messages.pop())
    }

    /// A partition that is not there has nothing: the queue may have been made anew with fewer of them, on another server.
    async fn read(&self, read: Read) -> Result<Batch, Reply> {
        match self.store.read(read).await {
            Err(JournalError::NoPartition { .. }) => Ok(Batch::default()),
            batch => batch.map_err(failed),
        }
    }

    /// The message of this id, and not another one of the same time.
    pub(crate) async fn same(&self, place: &Place) -> Result<Option<Message>, Reply> {
        let named = format!("{:032x}", place.uuid);
        Ok(self.one(place).await?.filter(|message| reply::name(message) == named))
    }
}

impl Service {
    pub(crate) fn desk(&self, queue: QueueName, settings: &Settings) -> Result<Desk, Reply> {
        let store = admin::home(&self.journals, &queue, settings).map_err(unreachable)?;
        Ok(Desk { queue, store })
    }

    /// `POST /v1/{application}/{queue}`
    pub(crate) async fn post(
        &self,
        request: &Request,
        caller: &Caller,
        place: (&str, &str),
    ) -> Result<Reply, Reply> {
        let (queue, settings) = self.queue(caller, Wish::Post, place).await?;
        match self.post_to(request, &queue, &settings).await {
            // Another server may have added the partition that is meant, or made the queue anew with fewer of them.
            Err(refused) if refused.code == 400 => match self.refreshed(&queue).await? {
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
        let posted = understood(request, settings.partitions).map_err(|why| Reply::refused(400, &why))?;
        let dedup = idempotency(request)?;
        let desk = self.desk(queue.clone(), settings)?;
        let mut commit = Commit::default();
        let mut placed = Vec::with_capacity(posted.len());
        let several = bodies::is_json(request.headers.content_type.as_deref());
        for (index, one) in posted.into_iter().enumerate() {
            // What others are known by, an operator's retry for one, is never taken for a client's key.
            let dedup = dedup.map(|key| match several {
                true => format!("http-list/{key}/{index}"),
                false => format!("http/{key}"),
            });
            let number = self.number(one.partition, dedup.as_deref(), settings.partitions);
            placed.push((number, one.body.clone()));
            let message = NewMessage {
                body: one.body,
                ttl: Some(one.ttl),
                dedup: dedup.map(Into::into),
                ..NewMessage::default()
            };
            commit.appends.push(Append { partition: desk.partition(number)?, message });
        }
        let appended = append(&*desk.store, commit, dedup.is_some()).await?;
        let (mut ids, mut looks) = (Vec::with_capacity(placed.len()), LOOKS_MAX);
        for ((number, body), appended) in placed.iter().zip(appended) {
            let id = match appended {
                Appended::At(id) => (*number, id),
                Appended::Duplicate(Some(id)) => {
                    let candidates = std::iter::once(*number).chain(1..=settings.partitions);
                    (holding(&desk, candidates, id, body, &mut looks).await?.unwrap_or(*number), id)
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

    /// With an idempotency key a message goes to the same place again.
    fn number(&self, wanted: Option<u16>, dedup: Option<&str>, partitions: u16) -> u16 {
        match (wanted, dedup, NonZeroU16::new(partitions)) {
            (Some(number), _, _) => number,
            (None, Some(key), Some(partitions)) => partitioning::of_key(key.as_bytes(), partitions),
            (None, _, _) => self.any_partition(partitions),
        }
    }

    /// `GET /v1/{application}/{queue}`
    pub(crate) async fn read(
        &self,
        request: &Request,
        caller: &Caller,
        place: (&str, &str),
        held: &mut Held,
    ) -> Result<Reply, Reply> {
        let (queue, mut settings) = self.queue(caller, Wish::View, place).await?;
        let form = Form::parse(request.query.as_bytes())
            .and_then(|form| ReadForm::parse(&form))
            .map_err(|reasons| Reply::refused(400, &reasons))?;
        if form.partitions.iter().any(|number| *number > u64::from(settings.partitions)) {
            settings = self.refreshed(&queue).await?;
        }
        let known =
            |number: &u64| u16::try_from(*number).ok().filter(|n| (1..=settings.partitions).contains(n));
        let numbers: Vec<u16> = form.partitions.iter().filter_map(known).collect();
        let desk = self.desk(queue, &settings)?;
        let mut found = gather(&desk, &numbers, &form, held).await?;
        if found.messages.is_empty()
            && !numbers.is_empty()
            && self.waited(&desk, &numbers, &found.last, form.wait).await?
        {
            // Meanwhile the key may have been revoked, or the queue have become private or another.
            let caller = self.caller(request).await?;
            self.queue(&caller, Wish::View, place).await?;
            found = gather(&desk, &numbers, &form, held).await?;
        }
        Ok(Reply::messages(&found.messages, found.more))
    }

    /// Waits until there may be more in one of these partitions than there was, or so long; whether there may be.
    async fn waited(
        &self,
        desk: &Desk,
        numbers: &[u16],
        last: &[MessageId],
        wait: Duration,
    ) -> Result<bool, Reply> {
        if wait.is_zero() {
            return Ok(false);
        }
        let mut waits = Vec::with_capacity(numbers.len());
        for (number, last) in numbers.iter().zip(last) {
            let (partition, last) = (desk.partition(*number)?, *last);
            waits.push(Box::pin(async move { self.tide.above(&desk.store, &partition, last).await }));
        }
        Ok(timeout(wait, select_all(waits)).await.is_ok())
    }
}

fn understood(request: &Request, partitions: u16) -> Result<Vec<Posted>, Reasons> {
    let Headers { content_type, partition, ttl, .. } = &request.headers;
    match bodies::is_json(content_type.as_deref()) {
        true => bodies::several(&request.body, partitions),
        false => bodies::single(request.body.clone(), partition.as_deref(), ttl.as_deref(), partitions)
            .map(|one| vec![one]),
    }
}

fn idempotency(request: &Request) -> Result<Option<&str>, Reply> {
    match request.headers.idempotency_key.as_deref() {
        None => Ok(None),
        // Two that are no text must not count as one.
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

/// What can be made again is, when nobody knows whether it happened.
async fn append(store: &dyn Journal, commit: Commit, again: bool) -> Result<Vec<Appended>, Reply> {
    if commit.appends.is_empty() {
        return Ok(Vec::new());
    }
    if !again {
        return Ok(store.commit(commit).await.map_err(failed)?.appends);
    }
    let mut attempt = 1;
    loop {
        match store.commit(commit.clone()).await {
            Err(JournalError::Unknown(_)) if attempt < ATTEMPTS => attempt += 1,
            outcome => return Ok(outcome.map_err(failed)?.appends),
        }
    }
}

/// The partition that a message is in which was posted before: perhaps another than it would go to now. Two partitions may use
/// the same id, so the body must be the same, too. None if it was deleted since, or its life is over.
async fn holding(
    desk: &Desk,
    candidates: impl Iterator<Item = u16>,
    id: MessageId,
    body: &Bytes,
    looks: &mut usize,
) -> Result<Option<u16>, Reply> {
    for partition in candidates.take(*looks) {
        *looks -= 1;
        let place = Place { partition, id: Some(id), uuid: id.to_uuid() };
        if desk.one(&place).await?.is_some_and(|message| message.body == body) {
            return Ok(Some(partition));
        }
    }
    Ok(None)
}

/// What was found: grouped by partition, in the order asked for.
#[derive(Default)]
struct Found {
    messages: Vec<(u16, Message)>,
    /// The newest id of each partition.
    last: Vec<MessageId>,
    /// There are more than fit into an answer.
    more: bool,
}

async fn gather(desk: &Desk, numbers: &[u16], form: &ReadForm, held: &mut Held) -> Result<Found, Reply> {
    let mut found = Found::default();
    let mut room = ANSWER_BYTES_MAX;
    for number in numbers {
        let mut read = asked(desk.partition(*number)?, form);
        let (mut last, mut left) = (None, read.limit);
        found.more |= room == 0;
        while left > 0 && room > 0 {
            read.limit = left.min(BATCH_MESSAGES_MAX);
            let batch = desk.read(read.clone()).await?;
            last.get_or_insert(batch.last);
            let Some(end) = batch.messages.last().map(|message| message.id) else { break };
            left = left.saturating_sub(u32::try_from(batch.messages.len()).unwrap_or(u32::MAX));
            let bytes: usize = batch.messages.iter().map(answered_bytes).sum();
            held.grow(bytes).map_err(|_| Reply::no_room())?;
            room = room.saturating_sub(bytes);
            found.messages.extend(batch.messages.into_iter().map(|message| (*number, message)));
            match form.order {
                Order::Ascending if end >= batch.last => break,
                Order::Ascending => read.after = end,
                Order::Descending => read.before = end,
            }
            found.more |= room == 0 && left > 0;
        }
        found.last.push(last.unwrap_or(MessageId::ZERO));
    }
    Ok(found)
}

/// So many bytes a message takes in an answer, about.
pub(crate) fn answered_bytes(message: &Message) -> usize {
    MESSAGE_BYTES + written(&message.body)
}

/// So many bytes a body takes in JSON, about: control characters are six each.
fn written(body: &[u8]) -> usize {
    let one = |byte: &u8| match byte {
        0..0x20 => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    };
    body.iter().map(one).sum()
}

fn asked(partition: PartitionId, form: &ReadForm) -> Read {
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
