//! How a ticket is told from another of its name. Its znode stays, so no session owns it; and others may take up its name,
//! so the name proves nothing. So whoever makes one writes a mark behind its identifier that nobody else has.

/// How many digits a mark has.
const DIGITS: usize = 32;

/// What to write into a ticket.
pub(super) fn marked(identifier: &str, mark: &str) -> Vec<u8> {
    format!("{identifier}\n{mark}").into_bytes()
}

/// Whether a ticket with this data was made with this mark.
pub(super) fn is_marked(data: &[u8], mark: &str) -> bool {
    data.strip_suffix(mark.as_bytes()).is_some_and(|rest| rest.ends_with(b"\n"))
}

/// What is written before the mark, if there is one.
pub(super) fn unmarked(data: &str) -> &str {
    match data.rsplit_once('\n') {
        Some((identifier, mark)) if looks_like_a_mark(mark) => identifier,
        _ => data,
    }
}

fn looks_like_a_mark(text: &str) -> bool {
    text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unique;

    #[test]
    fn mark_is_known_again_and_not_shown() {
        let (mark, other) = (unique::hex(), unique::hex());
        for identifier in ["", "web-1", "two\nlines"] {
            let data = marked(identifier, &mark);
            assert!(is_marked(&data, &mark) && !is_marked(&data, &other));
            assert_eq!(unmarked(std::str::from_utf8(&data).unwrap()), identifier);
        }
    }

    #[test]
    fn what_has_no_mark_is_shown_as_it_is() {
        for data in ["", "web-1", "two\nlines"] {
            assert_eq!(unmarked(data), data);
        }
    }
}
