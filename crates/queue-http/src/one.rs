//! One message, and what has become of it.

use menagerie_queues::story;

use crate::access::{Action, Caller};
use crate::ids;
use crate::messages::reply_bytes;
use crate::reply::Reply;
use crate::search::is_in_queue;
use crate::service::{RequestMemory, Service, unavailable};

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
        let story = story::trace(&self.session, &self.journals, uuid, Some(&queue)).await;
        let story = story.map_err(unavailable)?.ok_or_else(nothing)?;
        if is_named && story.partition.number() != target.partition {
            return Err(nothing());
        }
        let bytes = story.message.as_ref().map_or(0, reply_bytes);
        memory.grow(bytes).map_err(|_| Reply::busy())?;
        Ok(Reply::story(&story))
    }
}
