//! One place in the tree, with the type of what it holds.

use std::fmt;
use std::marker::PhantomData;

use crate::entry::Kind;
use crate::payload::MaybeDamaged;

/// A place of ours. `T` is what its data means.
pub struct Znode<T> {
    path: String,
    kind: Kind,
    holds: PhantomData<fn() -> T>,
}

impl<T> Znode<T> {
    pub(crate) fn new(path: String, kind: Kind) -> Self {
        Self { path, kind, holds: PhantomData }
    }

    /// A place that is not on the map, because it belongs to somebody else: to a Python program that contends for the
    /// same lock, say.
    pub fn foreign(path: impl Into<String>, kind: Kind) -> Self {
        Self::new(path.into(), kind)
    }

    /// The same place, for another life: some znodes end with their session only when that was asked for.
    pub fn with_kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// The same place, for those who read it even if it is damaged.
    pub fn maybe_damaged(&self) -> Znode<MaybeDamaged<T>> {
        Znode::new(self.path.clone(), self.kind)
    }

    /// A place below this one: what a recipe keeps in the directory that it was given. `name` is one component.
    pub fn child<U>(&self, name: &str, kind: Kind) -> Znode<U> {
        Znode::new(format!("{}/{name}", self.path), kind)
    }

    /// The path below the namespace.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// How long it lives.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

/// What a directory of a recipe holds: nothing itself; its children are the recipe's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dir {}

// Derived, these would ask the same of `T`, of which there is none in here.
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
