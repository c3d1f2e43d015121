//! One message, and what has become of it.

use std::time::Duration;

use menagerie_queues::story::{self, Story};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::access::{Action, Caller};
use crate::ids;
use crate::messages::reply_bytes;
use crate::reply::Reply;
use crate::search::is_in_queue;
use crate::service::{RequestMemory, Service, queue_refusal};
use crate::story_reply::Audience;

/// Stories that are read at a time: each takes many reads.
const TRACES_MAX: usize = 16;

/// Of these, for callers without a key.
const ANONYMOUS_TRACES_MAX: usize = 4;

/// How long a request waits for others to end.
const TURN_TIMEOUT: Duration = Duration::from_secs(2);

/// Memory for what is read at a time in search of a story.
const READ_BYTES: usize = 4 << 20;

/// Memory of a line of a story besides its error, here and in the reply.
const LINE_BYTES: usize = 512;

/// Bounds how many stories are read at a time.
pub(crate) struct Traces {
    all: Semaphore,
    anonymous: Semaphore,
}

impl Default for Traces {
    fn default() -> Self {
        Self { all: Semaphore::new(TRACES_MAX), anonymous: Semaphore::new(ANONYMOUS_TRACES_MAX) }
    }
}

impl Traces {
    /// Waits for a turn, but not for long: whoever asks for many stories does not keep others waiting.
    async fn begin(&self, caller: &Caller) -> Result<[Option<SemaphorePermit<'_>>; 2], Reply> {
        let turn = async {
            let own = match caller.0.is_empty() {
                true => Some(self.anonymous.acquire().await.ok()?),
                false => None,
            };
            Some([own, Some(self.all.acquire().await.ok()?)])
        };
        timeout(TURN_TIMEOUT, turn).await.ok().flatten().ok_or_else(Reply::too_many_traces)
    }
}

impl Service {
    /// `GET /v1/{application}/{queue}/messages/{id}`: from whichever partition it is in, with its story.
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
        let nothing = || Reply::error(404, "InvalidMessageID", "There is no message of that id.");
        let (uuid, is_named) = (target.id.ok_or_else(nothing)?, id.contains(':'));
        if is_named && !is_in_queue(&target, &settings) {
            return Err(nothing());
        }
        let turn = self.traces.begin(caller).await?;
        memory.grow(READ_BYTES).map_err(|_| Reply::busy())?;
        let story = story::trace(&self.session, &self.journals, uuid, Some(&queue)).await;
        drop(turn);
        let story = story.map_err(queue_refusal)?.ok_or_else(nothing)?;
        if is_named && story.partition.number() != target.partition {
            return Err(nothing());
        }
        memory.grow(story_bytes(&story)).map_err(|_| Reply::busy())?;
        let audience = match caller.is_insider(queue.application(), &settings) {
            true => Audience::Insiders,
            false => Audience::Public,
        };
        Ok(Reply::story(&story, audience))
    }
}

/// Approximate size of a story in a reply.
fn story_bytes(story: &Story) -> usize {
    let error_bytes = |line: &story::Line| match line {
        story::Line::Attempt { error, .. } => error.as_ref().map_or(0, String::len),
        story::Line::Put { .. }
        | story::Line::Due { .. }
        | story::Line::Running { .. }
        | story::Line::Act { .. } => 0,
    };
    let lines: usize = story.lines.iter().map(|line| LINE_BYTES + error_bytes(line)).sum();
    lines + story.message.as_ref().map_or(0, reply_bytes)
}
