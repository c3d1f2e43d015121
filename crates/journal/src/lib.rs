//! The journal: topics with partitions, which store messages durably and in order.
//! Not here: where journals run and who may serve a folder (`menagerie-journal-directory`), and what messages mean.
//!
//! [`Journal`] is what engines use. It is narrow on purpose: the store in this crate is one journal, a client of its
//! server another, and a cluster's log service may be a third. The trait documents the promises.
//!
//! # Layout
//! - [`journal`]: the trait.
//! - [`store`]: a journal on this machine's disk. [`server`]: serves it to others. [`client`]: a remote journal.
//!   [`token`] and `tls`: how these two authenticate each other; [`identity`]: which journal it is.
//! - The values that it takes and gives: [`commit`], [`read`], [`topic`], [`stats`], [`id`], [`Fence`], [`error`].

pub mod client;
mod codec;
pub mod commit;
mod core;
pub mod error;
mod explain;
pub mod id;
pub mod identity;
pub mod journal;
mod protocol;
pub mod read;
pub mod server;
pub mod stats;
pub mod store;
mod tls;
pub mod token;
pub mod topic;

pub use client::Client;
pub use commit::{Append, Appended, Commit, Committed, Edit, Edited, Move, NewMessage, Opened, StateWrite};
pub use commit::{CONSUMER_BYTES_MAX, CONSUMERS_MAX};
pub use error::JournalError;
pub use id::{DelayedId, MessageId, Ticks};
pub use identity::{Identity, RandomId};
pub use journal::{Journal, Reply};
pub use menagerie_types::{Fence, NameError, Remedy};
pub use read::{Batch, Message, Order, Read};
pub use server::Server;
pub use stats::{ConsumerStats, PartitionStats, Usage};
pub use store::{Config, Metrics, Store, StoreError};
pub use token::Token;
pub use topic::{Compression, Consumer, Created, Group, PartitionId, Topic, TopicConfig, TopicView};
