//! Specs: what the map declares about each znode.

use std::fmt;

use crate::payload::Check;
use crate::quote::Component;
use crate::znode::Znode;

/// How long a znode lives, and whether the server numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Until somebody deletes it.
    Persistent,
    /// As long as the session that created it.
    Ephemeral,
    /// Until somebody deletes it; the server appends ten digits to its name.
    PersistentSequence,
    /// As long as its session; the server appends ten digits to its name.
    EphemeralSequence,
    /// Until its last child is gone.
    Container,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Persistent => "persistent",
            Self::Ephemeral => "ephemeral",
            Self::PersistentSequence => "persistent sequence",
            Self::EphemeralSequence => "ephemeral sequence",
            Self::Container => "container",
        })
    }
}

/// Declares a znode, or a family of them, on the map.
#[derive(Debug, Clone, Copy)]
pub struct ZnodeSpec {
    /// The path below the namespace; `<name>` stands for one component that varies.
    pub pattern: &'static str,
    /// Its lifetime.
    pub kind: Kind,
    /// Its payload, for people.
    pub payload: &'static str,
    /// Checks that data is such a payload.
    pub check: Check,
    /// Who creates and writes it.
    pub written_by: &'static str,
    /// The lock that protects it, or how else writers avoid conflicts.
    pub guarded_by: &'static str,
    /// Who deletes it.
    pub deleted_by: &'static str,
    /// The corresponding path in the seed.
    pub seed: &'static str,
}

impl ZnodeSpec {
    /// The znode that this pattern names, with each `<…>` replaced in order.
    ///
    /// # Panics
    /// If the number of components is not the number of placeholders: a bug that the first call shows.
    pub fn at<T>(&self, components: &[&dyn Component]) -> Znode<T> {
        let mut path = String::with_capacity(self.pattern.len() + 16);
        let mut components = components.iter();
        let mut rest = self.pattern;
        while let Some((before, behind)) = rest.split_once('<') {
            let (_, after) = behind.split_once('>').expect("every placeholder is closed");
            let component = components.next().expect("there is a component for every placeholder");
            path.push_str(before);
            component.write(&mut path);
            rest = after;
        }
        path.push_str(rest);
        assert!(components.next().is_none(), "{} has no place for another component", self.pattern);
        Znode::new(path, self.kind)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::map;
    use crate::quote::Quoted;

    const SPEC: ZnodeSpec = ZnodeSpec {
        pattern: "/queues/<queue>-<partition>",
        kind: Kind::Persistent,
        payload: "",
        check: crate::payload::check::<()>,
        written_by: "",
        guarded_by: "",
        deleted_by: "",
        seed: "",
    };

    #[test]
    fn placeholders_are_replaced_in_order_and_quoted() {
        let znode: Znode<()> = SPEC.at(&[&Quoted("a/b"), &3_u32]);
        assert_eq!(znode.path(), "/queues/a%2Fb-3");
    }

    #[test]
    #[should_panic(expected = "a component for every placeholder")]
    fn missing_component_is_a_bug() {
        let _: Znode<()> = SPEC.at(&[&1_u32]);
    }

    #[test]
    fn every_pattern_is_declared_once_and_well_formed() {
        let mut seen = BTreeSet::new();
        for (_, specs) in map() {
            for spec in specs {
                assert!(seen.insert(spec.pattern), "{} is declared twice", spec.pattern);
                assert!(spec.pattern.starts_with('/') && !spec.pattern.ends_with('/'), "{}", spec.pattern);
                assert_eq!(spec.pattern.matches('<').count(), spec.pattern.matches('>').count());
            }
        }
    }
}
