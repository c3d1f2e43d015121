//! Logs as text for people. Programs write bytes: they need not be UTF-8, and colour their words for terminals.

/// How many of these bytes are whole characters: a piece of a log may end within one. What is no UTF-8 at all counts.
pub fn whole_chars(bytes: &[u8]) -> usize {
    let first = bytes.len().saturating_sub(3);
    let starts = bytes[first..].iter().enumerate().rev().find(|(_, byte)| **byte & 0xc0 != 0x80);
    let Some((at, start)) = starts.map(|(at, byte)| (first + at, *byte)) else { return bytes.len() };
    let length = match start {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    if bytes.len() - at < length { at } else { bytes.len() }
}

/// The bytes from the first line that begins in them on; all of them if none does. `is_start`: they are the beginning of
/// the log.
pub fn from_line_start(bytes: &[u8], is_start: bool) -> &[u8] {
    let line_end = bytes.iter().position(|byte| *byte == b'\n');
    match line_end {
        Some(end) if !is_start && end + 1 < bytes.len() => &bytes[end + 1..],
        Some(_) | None => bytes,
    }
}

/// Text without what terminals take for commands, such as colours. It never takes a line break away: a command that does
/// not end hides nothing.
pub fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    if !text.contains('\u{1b}') {
        return text;
    }
    let mut shown = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            shown.push(c);
            continue;
        }
        match chars.next_if(|c| matches!(c, '[' | ']' | ' '..='~')) {
            Some('[') => {
                while chars.next_if(|c| matches!(c, ' '..='?')).is_some() {}
                chars.next_if(|c| matches!(c, '@'..='~'));
            }
            // A title or a link: up to BEL or `ESC \`.
            Some(']') => {
                while chars.next_if(|c| !matches!(c, '\n' | '\u{7}' | '\u{1b}')).is_some() {}
                if chars.next_if_eq(&'\u{1b}').is_some() {
                    chars.next_if_eq(&'\\');
                } else {
                    chars.next_if_eq(&'\u{7}');
                }
            }
            Some(' '..='/') => {
                while chars.next_if(|c| matches!(c, ' '..='/')).is_some() {}
                chars.next_if(|c| matches!(c, '0'..='~'));
            }
            Some(_) | None => {}
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_with_whole_characters() {
        for (bytes, whole) in [
            (&b"abc"[..], 3),
            (b"", 0),
            ("aé".as_bytes(), 3),
            (&"aé".as_bytes()[..2], 1),
            (&"a€".as_bytes()[..3], 1),
            (&"😀".as_bytes()[..3], 0),
            ("😀".as_bytes(), 4),
            (b"a\xff", 2),
            (b"\x80\x80\x80\x80", 4),
        ] {
            assert_eq!(whole_chars(bytes), whole, "{bytes:?}");
        }
    }

    #[test]
    fn commands_to_terminals_are_gone_and_lines_are_not() {
        for (text, shown) in [
            ("\u{1b}[1;31mred\u{1b}[0m\r\nnext", "red\nnext"),
            ("\u{1b}]8;;javascript:alert(1)\u{1b}\\link\u{1b}]8;;\u{7}!", "link!"),
            ("\u{1b}]0;never ends\nsecond", "\nsecond"),
            ("\u{1b}[31\nsecond", "\nsecond"),
            ("\u{1b}(Bplain\u{1b}", "plain"),
            ("a\u{7}b\rc<script>", "a\u{7}b\rc<script>"),
        ] {
            assert_eq!(plain(text.as_bytes()), shown, "{text:?}");
        }
        assert_eq!(plain(b"\xffa"), "\u{fffd}a");
    }

    #[test]
    fn the_end_of_a_log_begins_with_a_line() {
        assert_eq!(from_line_start(b"rest\nline\n", false), b"line\n");
        assert_eq!(from_line_start(b"first\nline\n", true), b"first\nline\n");
        assert_eq!(from_line_start(b"one long line", false), b"one long line");
        assert_eq!(from_line_start(b"one long line\n", false), b"one long line\n");
    }
}
