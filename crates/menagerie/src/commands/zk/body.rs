//! Shows data to people: JSON with line breaks, text as it is, anything else as a hex dump.

use std::fmt::Write as _;

use serde_json::value::RawValue;

/// Bytes per line of a dump.
const DUMP_WIDTH: usize = 16;

/// Formats data; the result ends with a line break unless it is empty.
pub fn show(data: &[u8]) -> String {
    let Some(text) = text(data) else { return dump(data) };
    let shown = if is_structure(text) { indent(text) } else { text.to_owned() };
    if shown.is_empty() || shown.ends_with('\n') { shown } else { shown + "\n" }
}

/// The data as text, if it is text that is safe for a terminal.
pub fn text(data: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(data).ok()?;
    (!text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))).then_some(text)
}

/// Whether it is an object or an array; scalars need no line breaks.
fn is_structure(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<&RawValue>(text).is_ok()
}

/// The data as JSON on one line, if it is JSON; key order and digits stay as written.
pub fn json(data: &[u8]) -> Option<Box<RawValue>> {
    let text = serde_json::from_slice::<&RawValue>(data).ok()?.get();
    let (mut quoted, mut escaped) = (false, false);
    let within = |c: &char| {
        let kept = quoted || !c.is_whitespace();
        quoted = if quoted { escaped || *c != '"' } else { *c == '"' };
        escaped = quoted && !escaped && *c == '\\';
        kept
    };
    RawValue::from_string(text.chars().filter(within).collect()).ok()
}

/// Breaks valid JSON into lines. Key order and digits stay as written.
fn indent(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    let mut rest = json.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some(c) = rest.next() {
        if quoted {
            out.push(c);
            quoted = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            c if c.is_whitespace() => {}
            '{' | '[' => {
                out.push(c);
                while rest.next_if(|c| c.is_whitespace()).is_some() {}
                if let Some(end) = rest.next_if(|c| matches!(c, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c => {
                quoted = c == '"';
                out.push(c);
            }
        }
    }
    out
}

fn dump(data: &[u8]) -> String {
    let mut out = String::new();
    for (row, bytes) in data.chunks(DUMP_WIDTH).enumerate() {
        let hex: String = bytes.iter().map(|byte| format!(" {byte:02x}")).collect();
        let shown =
            |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' };
        let text: String = bytes.iter().map(shown).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{:08x} {hex:<48}  |{text}|", row * DUMP_WIDTH);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_gets_lines_and_keeps_every_digit_and_the_order() {
        let json = r#"{"b":1.0000000000000000001,"a":[1,{"x":"a,\"b\\"}],"e":{},"f":[ ]}"#;
        let expected = "{\n  \"b\": 1.0000000000000000001,\n  \"a\": [\n    1,\n    {\n      \
                        \"x\": \"a,\\\"b\\\\\"\n    }\n  ],\n  \"e\": {},\n  \"f\": []\n}\n";
        assert_eq!(show(json.as_bytes()), expected);
    }

    #[test]
    fn json_for_programs_is_one_line_and_otherwise_as_it_was_written() {
        for (text, expected) in [
            (
                "{\n  \"b\": 1.0,\n \"a\": [12345678901234567890, 1e3 ]\n}\n",
                r#"{"b":1.0,"a":[12345678901234567890,1e3]}"#,
            ),
            (r#"{"a \" b\\": "c  d" , "e": "" }"#, r#"{"a \" b\\":"c  d","e":""}"#),
            (" 1.50 ", "1.50"),
        ] {
            assert_eq!(json(text.as_bytes()).unwrap().get(), expected);
        }
        for text in ["", "word", "{not json", "1 2"] {
            assert!(json(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn text_stays_and_what_could_harm_a_terminal_is_dumped() {
        assert_eq!(show(b""), "");
        assert_eq!(show(b"plain"), "plain\n");
        assert_eq!(show(b"42"), "42\n");
        assert_eq!(show(b"{not json"), "{not json\n");
        let dumped = show(b"\x1b[2Jhello, terminal");
        assert!(!dumped.contains('\x1b'));
        assert_eq!(dumped.lines().count(), 2);
        assert!(dumped.starts_with("00000000  1b 5b 32 4a 68 "), "{dumped}");
        assert!(dumped.contains("|.[2Jhello, termi|"), "{dumped}");
    }
}
