//! The queues over HTTP: Queuey's API, and what a client of today expects on top; its texts, limits, keys and sockets.
//! Not here: what a queue is and does (`menagerie-queues`), and how a server is started (`menagerie`).
//!
//! # Layout
//! - [`route`]: what a path means; [`access`]: who asks, and whether they may; [`bucket`]: and how often; [`room`]: and how much.
//! - [`form`]: parameters of queries, forms and headers; [`bodies`] and `items`: messages as they are posted; [`ids`]: lists of
//!   message ids. All of them take text and give values, or the reasons why not, in the words of the original.
//! - [`reply`]: what goes back, with exactly the keys that clients know; `refusal`: what does when it was not done.
//! - [`keys`]: keys as they are kept; [`keyring`]: all of them, as they come and go.
//! - `shelf`: what queues are; `tide`: readers that wait.
//! - [`service`]: a request is answered; `queues`, `messages` and `named`: what is done. [`server`]: the sockets;
//!   [`metrics`]: what is counted.

pub mod access;
pub mod bodies;
pub mod bucket;
pub mod form;
pub mod ids;
mod items;
pub mod keyring;
pub mod keys;
mod messages;
pub mod metrics;
mod named;
mod queues;
mod refusal;
pub mod reply;
pub mod room;
pub mod route;
pub mod server;
pub mod service;
mod shelf;
mod tide;
