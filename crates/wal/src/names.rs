//! Every file name of a log directory, built and understood in one place.

/// How far the log was durable, and its state.
pub(crate) const MARK: &str = "mark";
/// The next mark, until it is whole.
pub(crate) const MARK_NEXT: &str = "mark.next";

/// The segment whose first record has this sequence number. Sixteen digits, so that names sort like numbers.
pub(crate) fn segment(base: u64) -> String {
    format!("log-{base:016x}")
}

/// A file with nothing of value in it, to become a segment.
pub(crate) fn spare(number: u64) -> String {
    format!("spare-{number}")
}

/// The kind of a file in the directory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Mark,
    Segment(u64),
    Spare(u64),
    /// Not ours: left alone.
    Other,
}

/// Parses a name only in exactly the form that we write.
pub(crate) fn parse(name: &str) -> Name {
    let as_segment =
        || u64::from_str_radix(name.strip_prefix("log-")?, 16).ok().filter(|n| segment(*n) == name);
    let as_spare = || name.strip_prefix("spare-")?.parse().ok().filter(|n| spare(*n) == name);
    if name == MARK {
        Name::Mark
    } else if let Some(base) = as_segment() {
        Name::Segment(base)
    } else if let Some(number) = as_spare() {
        Name::Spare(number)
    } else {
        Name::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_form_of_a_name_is_ours() {
        assert_eq!(parse(&segment(0xabc)), Name::Segment(0xabc));
        assert_eq!(parse(&segment(u64::MAX)), Name::Segment(u64::MAX));
        assert_eq!(parse(&spare(12)), Name::Spare(12));
        assert_eq!(parse("mark"), Name::Mark);
        for other in
            ["log-1", "log-0000000000000ABC", "log-+000000000000001", "spare-01", "spare-", "mark.next", ""]
        {
            assert_eq!(parse(other), Name::Other, "{other}");
        }
    }
}
