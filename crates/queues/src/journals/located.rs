//! A journal by its name: each call goes to where it is now.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use menagerie_journal::client::Address;
use menagerie_journal::token::Token;
use menagerie_journal::{
    Batch, Client, Commit, Committed, Consumer, Created, Fence, Journal, JournalError, MessageId, Opened,
    PartitionId, PartitionStats, Read, Reply, Ticks, Topic, TopicConfig, TopicView, Usage,
};

use super::directory::Directory;
use crate::core::whereabouts::{Choice, Entry, choose};

/// One that is registered, or was, or will be.
pub struct Located {
    directory: Directory,
    name: String,
    last: Mutex<Option<Known>>,
}

/// Where it was when it was looked for last.
struct Known {
    /// Nothing has changed in the directory since.
    revision: u64,
    entry: Entry,
    client: Client,
}

impl Located {
    pub fn new(directory: Directory, name: &str) -> Self {
        Self { directory, name: name.to_owned(), last: Mutex::new(None) }
    }

    fn unreachable(&self, why: String) -> JournalError {
        JournalError::Unreachable { address: format!("{:?}", self.name), why }
    }

    /// Where it is. Does not wait, so that calls keep their order.
    fn client(&self) -> Result<Client, JournalError> {
        let revision = self.directory.revision();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = last.as_ref().filter(|known| known.revision == revision) {
            return Ok(known.client.clone());
        }
        let entries = self.directory.entries();
        match (choose(&entries, &self.name), last.as_mut()) {
            (Choice::One(entry), Some(known)) if known.entry == *entry => {
                known.revision = revision;
                Ok(known.client.clone())
            }
            (Choice::One(entry), _) => {
                let client = self.connect(entry)?;
                *last = Some(Known { revision, entry: entry.clone(), client: client.clone() });
                Ok(client)
            }
            // It serves without ZooKeeper, too: it may only have lost its session.
            (Choice::None, Some(known)) => Ok(known.client.clone()),
            (Choice::None, None) => Err(self.unreachable("none of that name is registered".to_owned())),
            (Choice::Several(addresses), _) => Err(self.unreachable(format!(
                "several are registered by that name ({}); each needs a --name of its own",
                addresses.join(", ")
            ))),
        }
    }

    fn connect(&self, entry: &Entry) -> Result<Client, JournalError> {
        let access = self.directory.access();
        let file = access.token_file.as_deref().unwrap_or(Path::new(&entry.token_file));
        let token = Token::read(file).map_err(|error| {
            self.unreachable(format!("its token {} cannot be read: {error}", file.display()))
        })?;
        let authority = match (&access.authority, entry.tls) {
            (Some(authority), true) => Some(authority.clone()),
            (None, true) => {
                return Err(self
                    .unreachable("it speaks TLS, and nobody says whom to trust (--journal-ca)".to_owned()));
            }
            (_, false) => None,
        };
        Ok(Client::new(Address { address: entry.address.clone(), token, authority }))
    }
}

impl Journal for Located {
    fn open<'a>(
        &'a self,
        partition: &'a PartitionId,
        consumer: &'a Consumer,
        fence: Fence,
    ) -> Reply<'a, Opened> {
        Box::pin(async move { self.client()?.open(partition, consumer, fence).await })
    }

    fn consumer<'a>(
        &'a self,
        partition: &'a PartitionId,
        consumer: &'a Consumer,
    ) -> Reply<'a, Option<Opened>> {
        Box::pin(async move { self.client()?.consumer(partition, consumer).await })
    }

    fn commit(&self, commit: Commit) -> Reply<'_, Committed> {
        Box::pin(async move { self.client()?.commit(commit).await })
    }

    fn read(&self, read: Read) -> Reply<'_, Batch> {
        Box::pin(async move { self.client()?.read(read).await })
    }

    fn at_time<'a>(&'a self, partition: &'a PartitionId, time: Ticks) -> Reply<'a, Option<MessageId>> {
        Box::pin(async move { self.client()?.at_time(partition, time).await })
    }

    fn trim<'a>(&'a self, partition: &'a PartitionId, through: MessageId) -> Reply<'a, ()> {
        Box::pin(async move { self.client()?.trim(partition, through).await })
    }

    fn stats<'a>(&'a self, topic: &'a Topic) -> Reply<'a, Vec<PartitionStats>> {
        Box::pin(async move { self.client()?.stats(topic).await })
    }

    fn usage(&self) -> Reply<'_, Usage> {
        Box::pin(async move { self.client()?.usage().await })
    }

    fn create_topic<'a>(&'a self, topic: &'a Topic, config: TopicConfig) -> Reply<'a, Created> {
        Box::pin(async move { self.client()?.create_topic(topic, config).await })
    }

    fn topics(&self) -> Reply<'_, Vec<TopicView>> {
        Box::pin(async move { self.client()?.topics().await })
    }

    fn alter_topic<'a>(&'a self, topic: &'a Topic, config: TopicConfig) -> Reply<'a, ()> {
        Box::pin(async move { self.client()?.alter_topic(topic, config).await })
    }

    fn delete_topic<'a>(&'a self, topic: &'a Topic) -> Reply<'a, bool> {
        Box::pin(async move { self.client()?.delete_topic(topic).await })
    }
}
