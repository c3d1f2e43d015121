//! Marks tell a ticket from another of the same name. A ticket's znode is persistent, so no session owns it; and others
//! may take up its name, so the name proves nothing. So the creator appends a unique mark to its identifier, and
//! whoever takes up the ticket replaces that mark with its own.

const DIGITS: usize = 32;

/// The data of a ticket.
pub(super) fn marked(identifier: &str, mark: &str) -> Vec<u8> {
    format!("{identifier}\n{mark}").into_bytes()
}

/// Whether a ticket with this data was made with this mark.
pub(super) fn is_marked(data: &[u8], mark: &str) -> bool {
    data.strip_suffix(mark.as_bytes()).is_some_and(|rest| rest.ends_with(b"\n"))
}

/// The same ticket with another mark.
pub(super) fn remarked(data: &[u8], mark: &str) -> Vec<u8> {
    let end = data.len().checked_sub(DIGITS + 1).filter(|end| is_a_mark(&data[*end..])).unwrap_or(data.len());
    [&data[..end], b"\n", mark.as_bytes()].concat()
}

/// The data without the mark, if it has one.
pub(super) fn unmarked(data: &str) -> &str {
    match data.rsplit_once('\n') {
        Some((identifier, mark)) if looks_like_a_mark(mark) => identifier,
        _ => data,
    }
}

fn is_a_mark(line: &[u8]) -> bool {
    line.strip_prefix(b"\n").is_some_and(|mark| std::str::from_utf8(mark).is_ok_and(looks_like_a_mark))
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
    fn mark_is_replaced_by_that_of_whoever_takes_the_ticket_up() {
        let (mark, other) = (unique::hex(), unique::hex());
        for identifier in ["", "web-1", "two\nlines", "a line longer than any mark, and none itself"] {
            assert_eq!(remarked(&marked(identifier, &mark), &other), marked(identifier, &other));
            assert_eq!(remarked(identifier.as_bytes(), &mark), marked(identifier, &mark));
        }
    }

    #[test]
    fn what_has_no_mark_is_shown_as_it_is() {
        for data in ["", "web-1", "two\nlines"] {
            assert_eq!(unmarked(data), data);
        }
    }
}
