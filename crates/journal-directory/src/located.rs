//! A journal named by a [`JournalRef`]: each call goes to wherever it is now.

use std::sync::{Mutex, PoisonError};

use menagerie_journal::client::Address;
use menagerie_journal::{
    Batch, Client, Commit, Committed, Consumer, Created, Fence, Journal, JournalError, MessageId, Opened,
    PartitionId, PartitionStats, RandomId, Read, Reply, Ticks, Topic, TopicConfig, TopicView, Usage,
};
use menagerie_znodes::journals::Server;

use crate::directory::Directory;
use crate::resolve::{JournalRef, RegisteredJournal, Resolution, resolve};

/// A journal that is registered, was, or will be.
pub struct LocatedJournal {
    directory: Directory,
    target: JournalRef,
    last: Mutex<Option<Resolved>>,
}

/// The last resolution.
struct Resolved {
    /// Revision of the directory that it is valid for.
    revision: u64,
    entry: RegisteredJournal,
    client: Client,
}

impl LocatedJournal {
    /// The journal that this reference names, wherever it is.
    pub fn new(directory: Directory, target: JournalRef) -> Self {
        Self { directory, target, last: Mutex::new(None) }
    }

    fn unreachable_error(&self, why: String) -> JournalError {
        JournalError::Unreachable { address: format!("{:?}", self.target.journal), why }
    }

    /// A client for its current address. Synchronous, so that calls keep their order.
    fn client(&self) -> Result<Client, JournalError> {
        let revision = self.directory.revision();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = last.as_ref().filter(|known| known.revision == revision) {
            return Ok(known.client.clone());
        }
        let entries = self.directory.entries();
        match (resolve(&entries, &self.target), last.as_mut()) {
            (Resolution::One(entry), Some(known)) if known.entry.is_same_server(entry) => {
                known.revision = revision;
                Ok(known.client.clone())
            }
            (Resolution::One(entry), _) => {
                let client = self.connect(entry)?;
                *last = Some(Resolved { revision, entry: entry.clone(), client: client.clone() });
                Ok(client)
            }
            (Resolution::None, known) => match (self.directory.contested(&self.target), known) {
                (Some(both), _) => Err(self.contested_error(&both)),
                // It serves without ZooKeeper, too, and may only have lost its session.
                (None, Some(known)) => Ok(known.client.clone()),
                (None, None) => Err(self.unreachable_error("none of that name is registered".to_owned())),
            },
            (Resolution::OtherFolder(entry), _) => Err(self.unreachable_error(format!(
                "the one on {} has folder {}, and these messages are in folder {}; start the journal that has them",
                entry.address,
                entry.identity.folder,
                self.target.folder.as_deref().unwrap_or_default()
            ))),
            (Resolution::Several(addresses), _) => Err(self.unreachable_error(format!(
                "several are registered by that name ({}); each needs a --name of its own",
                addresses.join(", ")
            ))),
        }
    }

    fn contested_error(&self, (one, other): &(Server, Server)) -> JournalError {
        self.unreachable_error(format!(
            "two have served copies of one folder, on {} of {} and on {} of {}, and neither does any more; their logs say what \
             to do",
            one.address, one.host, other.address, other.host
        ))
    }

    fn connect(&self, entry: &RegisteredJournal) -> Result<Client, JournalError> {
        let access = self.directory.access();
        let authority = match (&access.authority, entry.tls) {
            (Some(authority), true) => Some(authority.clone()),
            (None, true) => {
                return Err(self.unreachable_error(
                    "it speaks TLS, and nobody says whom to trust (--journal-ca)".to_owned(),
                ));
            }
            (Some(_), false) => {
                return Err(self.unreachable_error(format!(
                    "it is registered on {} without TLS, and --journal-ca asks for TLS",
                    entry.address
                )));
            }
            (None, false) => None,
        };
        let tokens = access
            .tokens
            .read(&entry.identity.folder.to_string())
            .map_err(|why| self.unreachable_error(why))?;
        let (address, identity) = (entry.address.clone(), Some(entry.identity));
        Ok(Client::new(Address { address, tokens, authority, identity }))
    }
}

impl Journal for LocatedJournal {
    fn folder(&self) -> Reply<'_, RandomId> {
        Box::pin(async move { self.client()?.folder().await })
    }

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
