//! Properties of the core: random scripts against simple models.
//!
//! # Layout
//! - `script`: random scripts. `world`: runs one, with any number of writes in flight.
//! - `model`: the tree as a map, changed at once, copied for a rollback; too simple to be wrong in the same way.
//! - `decisions`, `codec`, `captures`, `watching`: the properties.

mod captures;
mod codec;
mod decisions;
mod model;
mod script;
mod watching;
mod world;
