//! The map: every znode that Menagerie owns, declared once.
//! Not here: reading and writing them (`menagerie-kernel`), and what engines decide from them.
//!
//! # Layout
//! - [`spec`]: a [`ZnodeSpec`] binds a path pattern, a kind, a payload, and who writes, locks and deletes it.
//!   `docs/znodes.md` is rendered from [`map`].
//! - [`znode`]: a [`Znode`] is one such znode, with the type of its payload; reads and writes take it, never a path and
//!   bytes.
//! - [`lookup`]: from a path back to its spec.
//! - [`payload`]: encoding and decoding of payloads.
//! - [`Name`]: a name that comes from a user, validated once; [`quote`]: how any text becomes one component of a path.
//! - One file per owner: [`kernel`], [`components`], [`flows`], [`journals`], [`pipelines`], [`queues`], [`slots`],
//!   [`web`].
//!
//! # Invariants
//! - A path of ours is formatted in [`ZnodeSpec::at`] and nowhere else.
//! - No IO, no clock.

pub mod components;
pub mod flows;
pub mod journals;
pub mod kernel;
pub mod lookup;
pub mod payload;
pub mod pipelines;
pub mod queues;
pub mod quote;
pub mod slots;
pub mod spec;
pub mod web;
pub mod znode;

pub use menagerie_types::{Name, NameError};
pub use payload::{Json, MaybeDamaged, Payload, PayloadError, Raw, Text};
pub use spec::{Kind, ZnodeSpec};
pub use znode::{Dir, Znode};

/// All specs by owner, in the order of the documentation.
pub fn map() -> Vec<(&'static str, &'static [ZnodeSpec])> {
    vec![
        ("kernel", kernel::SPECS),
        ("components", components::SPECS),
        ("journals", journals::SPECS),
        ("queues", queues::SPECS),
        ("slots", slots::SPECS),
        ("flows", flows::SPECS),
        ("pipelines", pipelines::SPECS),
        ("web", web::SPECS),
    ]
}
