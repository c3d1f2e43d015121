//! Queues over HTTP: Queuey's API, with its texts and limits, plus keys, rate limits, long polls and idempotent posts.
//! Not here: what a queue is and does (`menagerie-queues`), and how a server is started (`menagerie`).
//!
//! # Layout
//! - [`route`]: what a path means. [`access`]: who calls, and what they are allowed to do. [`bucket`]: rate limits.
//!   [`memory`]: memory limits.
//! - [`form`]: parameters of queries, forms and headers. [`bodies`] and `items`: posted messages. [`ids`]: lists of
//!   message ids. All of them parse text into values, or into the reasons why not, worded as Queuey words them.
//! - [`reply`]: replies, with exactly the JSON keys that clients know. `refusal`: error replies.
//!   `story_reply`: the one with a message's story.
//! - [`keys`]: hashed keys. [`keyring`]: all known keys. `settings_cache`: settings of all queues.
//! - `newest_ids`: long polls.
//! - [`receive`]: receiving messages and saying what became of them.
//! - [`service`]: admits and dispatches requests. `queues`, `post`, `messages`, `by_id`, `deletion` and `one` carry
//!   them out, `search` finds messages by id. [`server`]: sockets and the access log. [`metrics`]: counters.

pub mod access;
pub mod bodies;
pub mod bucket;
mod by_id;
mod deletion;
pub mod form;
pub mod ids;
mod items;
pub mod keyring;
pub mod keys;
pub mod memory;
mod messages;
pub mod metrics;
mod newest_ids;
mod one;
mod post;
mod queues;
pub mod receive;
mod refusal;
pub mod reply;
pub mod route;
mod search;
pub mod server;
pub mod service;
mod settings_cache;
mod story_reply;
