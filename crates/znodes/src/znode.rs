//! A znode's path, with the type of its payload.

use std::fmt;
use std::marker::PhantomData;

use crate::payload::MaybeDamaged;
use crate::spec::Kind;

/// A znode on the map. `T` is its payload.
pub struct Znode<T> {
    path: String,
    kind: Kind,
    holds: PhantomData<fn() -> T>,
}

impl<T> Znode<T> {
    pub(crate) fn new(path: String, kind: Kind) -> Self {
        Self { path, kind, holds: PhantomData }
    }

    /// A znode that is not on the map, because it belongs to somebody else: to a Python program that contends for the
    /// same lock, say.
    pub fn foreign(path: impl Into<String>, kind: Kind) -> Self {
        Self::new(path.into(), kind)
    }

    /// The same path with another lifetime: some znodes are ephemeral only on request.
    pub fn with_kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// The same znode, for readers that tolerate damage.
    pub fn maybe_damaged(&self) -> Znode<MaybeDamaged<T>> {
        Znode::new(self.path.clone(), self.kind)
    }

    /// A child of this znode: what a recipe keeps in its directory. `name` is one component.
    pub fn child<U>(&self, name: &str, kind: Kind) -> Znode<U> {
        Znode::new(format!("{}/{name}", self.path), kind)
    }

    /// The path below the namespace.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its lifetime.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

/// The payload of a recipe's directory: none; the recipe owns its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dir {}

// Derived implementations would require the same of `T`, although the struct holds none.
impl<T> Clone for Znode<T> {
    fn clone(&self) -> Self {
        Self { path: self.path.clone(), kind: self.kind, holds: PhantomData }
    }
}

impl<T> fmt::Debug for Znode<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Znode({} {})", self.kind, self.path)
    }
}

impl<T> fmt::Display for Znode<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}
