//! A journal by its name and folder: each call goes to where it is now.

use std::sync::{Mutex, PoisonError};

use menagerie_journal::client::Address;
use menagerie_journal::{
    Batch, Client, Commit, Committed, Consumer, Created, Fence, Journal, JournalError, MessageId, Opened,
    PartitionId, PartitionStats, RandomId, Read, Reply, Ticks, Topic, TopicConfig, TopicView, Usage,
};
use menagerie_znodes::journals::Server;

use crate::directory::Directory;
use crate::whereabouts::{Choice, Home, Registered, choose};

/// One that is registered, or was, or will be.
pub struct Located {
    directory: Directory,
    home: Home,
    last: Mutex<Option<Known>>,
}

/// Where it was when it was looked for last.
struct Known {
    /// Nothing has changed in the directory since.
    revision: u64,
    entry: Registered,
    client: Client,
}

impl Located {
    /// The one with this home, wherever it is.
    pub fn new(directory: Directory, home: Home) -> Self {
        Self { directory, home, last: Mutex::new(None) }
    }

    fn unreachable(&self, why: String) -> JournalError {
        JournalError::Unreachable { address: format!("{:?}", self.home.journal), why }
    }

    /// Where it is. Does not wait, so that calls keep their order.
    fn client(&self) -> Result<Client, JournalError> {
        let revision = self.directory.revision();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = last.as_ref().filter(|known| known.revision == revision) {
            return Ok(known.client.clone());
        }
        let entries = self.directory.entries();
        match (choose(&entries, &self.home), last.as_mut()) {
            (Choice::One(entry), Some(known)) if known.entry.leads_where(entry) => {
                known.revision = revision;
                Ok(known.client.clone())
            }
            (Choice::One(entry), _) => {
                let client = self.connect(entry)?;
                *last = Some(Known { revision, entry: entry.clone(), client: client.clone() });
                Ok(client)
            }
            (Choice::None, known) => match (self.directory.contested(&self.home), known) {
                (Some(both), _) => Err(self.contested(&both)),
                // It serves without ZooKeeper, too: it may only have lost its session.
                (None, Some(known)) => Ok(known.client.clone()),
                (None, None) => Err(self.unreachable("none of that name is registered".to_owned())),
            },
            (Choice::Strange(entry), _) => Err(self.unreachable(format!(
                "the one on {} has folder {}, and these messages are in folder {}; start the journal that has them",
                entry.address,
                entry.identity.folder,
                self.home.folder.as_deref().unwrap_or_default()
            ))),
            (Choice::Several(addresses), _) => Err(self.unreachable(format!(
                "several are registered by that name ({}); each needs a --name of its own",
                addresses.join(", ")
            ))),
        }
    }

    fn contested(&self, (one, other): &(Server, Server)) -> JournalError {
        self.unreachable(format!(
            "two have served copies of one folder, on {} of {} and on {} of {}, and neither does any more; their logs say what \
             to do",
            one.address, one.host, other.address, other.host
        ))
    }

    fn connect(&self, entry: &Registered) -> Result<Client, JournalError> {
        let access = self.directory.access();
        let authority = match (&access.authority, entry.tls) {
            (Some(authority), true) => Some(authority.clone()),
            (None, true) => {
                return Err(self
                    .unreachable("it speaks TLS, and nobody says whom to trust (--journal-ca)".to_owned()));
            }
            (Some(_), false) => {
                return Err(self.unreachable(format!(
                    "it is registered on {} without TLS, and --journal-ca asks for TLS",
                    entry.address
                )));
            }
            (None, false) => None,
        };
        let tokens =
            access.tokens.read(&entry.identity.folder.to_string()).map_err(|why| self.unreachable(why))?;
        let (address, identity) = (entry.address.clone(), Some(entry.identity));
        Ok(Client::new(Address { address, tokens, authority, identity }))
    }
}

impl Journal for Located {
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
