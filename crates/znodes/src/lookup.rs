//! From a path back to the map: the spec of a znode.

use crate::map;
use crate::spec::{Kind, ZnodeSpec};

/// Digits that the server appends to the name of a sequence znode.
const SEQUENCE_DIGITS: usize = 10;

/// The spec of a path below the namespace, and the crate that owns it.
pub fn find(path: &str) -> Option<(&'static str, &'static ZnodeSpec)> {
    map()
        .into_iter()
        .flat_map(|(owner, specs)| specs.iter().map(move |spec| (owner, spec)))
        .filter(|(_, spec)| matches(spec, path))
        // If two match, the more specific one, which has more literal characters.
        .max_by_key(|(_, spec)| literals(spec.pattern))
}

/// Whether the map declares persistent sequence znodes below this path.
pub fn numbers_children(path: &str) -> bool {
    map().into_iter().flat_map(|(_, specs)| specs).any(|spec| {
        let parent = spec.pattern.rsplit_once('/').map_or("", |(parent, _)| parent);
        spec.kind == Kind::PersistentSequence && components_match(parent, path)
    })
}

/// The number that the server appended to a name, if it looks like one.
pub fn sequence_number(name: &str) -> Option<u32> {
    let digits = name.get(name.len().checked_sub(SEQUENCE_DIGITS)?..)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

fn matches(spec: &ZnodeSpec, path: &str) -> bool {
    let numbered = match spec.kind {
        Kind::PersistentSequence | Kind::EphemeralSequence => {
            let name = path.rsplit('/').next().unwrap_or_default();
            sequence_number(name).map(|_| &path[..path.len() - SEQUENCE_DIGITS])
        }
        Kind::Persistent | Kind::Ephemeral | Kind::Container => None,
    };
    components_match(spec.pattern, path) || numbered.is_some_and(|path| components_match(spec.pattern, path))
}

fn components_match(pattern: &str, path: &str) -> bool {
    let (mut patterns, mut components) = (pattern.split('/'), path.split('/'));
    loop {
        match (patterns.next(), components.next()) {
            (None, None) => return true,
            (Some(pattern), Some(component)) if component_matches(pattern, component) => {}
            _ => return false,
        }
    }
}

/// A placeholder stands for one character at least.
fn component_matches(pattern: &str, component: &str) -> bool {
    let Some((before, behind)) = pattern.split_once('<') else { return pattern == component };
    let Some((_, pattern)) = behind.split_once('>') else { return false };
    let Some(rest) = component.strip_prefix(before) else { return false };
    rest.char_indices()
        .skip(1)
        .map(|(at, _)| at)
        .chain([rest.len()])
        .any(|end| end > 0 && component_matches(pattern, &rest[end..]))
}

fn literals(pattern: &str) -> usize {
    let mut within = false;
    pattern
        .chars()
        .filter(|c| {
            within = (within || *c == '<') && *c != '>';
            !within && *c != '>'
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn spec(pattern: &'static str, kind: Kind) -> ZnodeSpec {
        let check = crate::payload::check::<()>;
        ZnodeSpec {
            pattern,
            kind,
            payload: "",
            check,
            written_by: "",
            guarded_by: "",
            deleted_by: "",
            seed: "",
        }
    }

    #[test]
    fn placeholders_stand_for_one_part_of_one_component() {
        let queue = spec("/queues/<queue>-<partition>", Kind::Persistent);
        assert!(matches(&queue, "/queues/mail-1"));
        assert!(matches(&queue, "/queues/a-b-1"));
        for other in ["/queues", "/queues/mail", "/queues/-1", "/queues/mail-1/x", "/other/mail-1"] {
            assert!(!matches(&queue, other), "{other}");
        }
    }

    #[test]
    fn sequence_entries_match_with_and_without_their_number() {
        let ticket = spec("/slots/<pool>/ticket-", Kind::EphemeralSequence);
        assert!(matches(&ticket, "/slots/web/ticket-0000000007"));
        assert!(!matches(&ticket, "/slots/web/ticket-7"));
    }

    #[test]
    fn numbers_are_recognised_by_their_ten_digits() {
        assert_eq!(sequence_number("lock-0000000042"), Some(42));
        assert_eq!(sequence_number("0000000042"), Some(42));
        assert_eq!(sequence_number("lock-42"), None);
        assert_eq!(sequence_number("é000000042"), None);
    }

    #[test]
    fn everything_on_the_map_is_found_again() {
        let (owner, spec) = find("/generation").expect("it is on the map");
        assert_eq!((owner, spec.pattern), ("kernel", "/generation"));
        assert!(find("/no-such-thing").is_none());
        assert_eq!(literals("/a/<b>-c"), 5);
    }
}
