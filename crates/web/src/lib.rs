//! The web interface: REST, live values and pages over what the engines show, and buttons for what they can be asked.
//! Not here: what is shown and done (the engines), and how a server is started (`menagerie`).
//!
//! # Layout
//! - [`access`]: who calls, and what they may. [`audit`]: who changed what.
//! - [`reads`]: what can be read; [`acts`]: what can be changed. Each is a function, which REST and pages share.
//! - [`routes`]: the addresses of the REST interface; [`openapi`]: the document made of them; `api`: answers.
//! - [`live`]: values that are read again while somebody watches; `stream`: them as server-sent events;
//!   `news`: when they have changed.
//! - [`builds`]: builds of pipelines and their logs; `downloads`: them as files.
//! - [`history`]: the last hour of queues; `chart`: it as a picture. `dag`: where the boxes and lines of a job's picture go.
//! - `pages`: HTML; `assets`: its style sheet and script; `login`: from token to cookie.
//! - [`params`]: what a request asks for. [`problem`]: errors as replies; `reply`: what all replies have.
//! - [`sources`]: what all of it reads from. [`server`]: sockets. [`metrics`]: counters.
//!
//! # Invariants
//! - Nothing is changed without a token that may, nor without an entry in the audit trail before it.
//! - What others wrote reaches a page only as text that maud has escaped.
//! - Nobody's browser is asked to load anything from elsewhere.

pub mod access;
pub mod acts;
mod api;
mod assets;
pub mod audit;
pub mod builds;
mod chart;
mod dag;
mod downloads;
pub mod history;
pub mod live;
mod login;
pub mod metrics;
mod news;
pub mod openapi;
mod pages;
pub mod params;
pub mod problem;
pub mod reads;
mod reply;
pub mod routes;
pub mod server;
pub mod sources;
mod stream;
