//! What pages are made of.

use std::borrow::Cow;

use maud::{Markup, PreEscaped, html};
use menagerie_types::moment::utc;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::params::Params;

/// What stays readable in an address.
const PART: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b':').remove(b'@');

/// A name as one part of a path. A name of dots would be another path to browsers.
pub fn part(name: &str) -> String {
    match name.bytes().all(|byte| byte == b'.') {
        true => name.replace('.', "%2E"),
        false => utf8_percent_encode(name, PART).to_string(),
    }
}

/// A link to something below an address.
pub fn link(base: &str, name: &str) -> Markup {
    html! { a href=(format!("{base}/{}", part(name))) { (name) } }
}

/// A moment; the script shows how long ago it is.
pub fn time(ms: i64) -> Markup {
    let text = utc(ms);
    let short = text.split_once('.').map_or(text.as_str(), |(seconds, _)| seconds).replace('T', " ");
    html! { time datetime=(text) data-since=(ms) { (short) "Z" } }
}

/// The same, or a dash. Ages are never written into a page: it would change although nothing has happened.
pub fn maybe_time(ms: Option<u64>) -> Markup {
    ms.and_then(|ms| i64::try_from(ms).ok()).map_or_else(dash, time)
}

/// `1 pool`, `2 pools`.
pub fn count<T: TryInto<u64>>(number: T, thing: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Nothing to show.
pub fn dash() -> Markup {
    html! { span.dash { "–" } }
}

/// A number, or a dash.
pub fn maybe<T: ToString>(value: Option<T>) -> Markup {
    value.map_or_else(dash, |value| html! { (value.to_string()) })
}

/// How something is, told by word, sign and colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// All is well.
    Good,
    /// Work is under way.
    Busy,
    /// Somebody should look.
    Warn,
    /// It is broken.
    Bad,
    /// Neither.
    Idle,
}

/// Its class in the style sheet, and its sign.
pub fn mood_mark(mood: Mood) -> (&'static str, &'static str) {
    match mood {
        Mood::Good => ("good", "✓"),
        Mood::Busy => ("busy", "▸"),
        Mood::Warn => ("warn", "▲"),
        Mood::Bad => ("bad", "✕"),
        Mood::Idle => ("idle", "○"),
    }
}

/// A state in a word.
pub fn badge(mood: Mood, word: &str) -> Markup {
    let (class, sign) = mood_mark(mood);
    html! { span.badge.(class) { span aria-hidden="true" { (sign) } " " (word) } }
}

/// A table that scrolls by itself where the page is narrow.
pub fn table(caption: &str, heads: &[&str], rows: &Markup) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table {
                caption { (caption) }
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                tbody { (rows) }
            }
        }
    }
}

/// Names and values.
pub fn facts(pairs: &[(&str, Markup)]) -> Markup {
    html! {
        dl.facts { @for (name, value) in pairs { div { dt { (name) } dd { (value) } } } }
    }
}

/// The form that filters a list; `about` says by what.
pub fn filter(params: &Params, about: &str) -> Markup {
    html! {
        form.filter method="get" role="search" {
            label for="q" { (about) }
            input #q type="search" name="q" value=(field_value(params.text("q").unwrap_or_default()));
            button { "Filter" }
        }
    }
}

/// The link to the next page of a list.
pub fn pager(params: &Params, next: Option<&String>) -> Markup {
    html! {
        @if params.text("cursor").is_some() || next.is_some() {
            nav.pager aria-label="Pages" {
                @if params.text("cursor").is_some() { a href="?" { "First page" } " " }
                @if let Some(next) = next {
                    a rel="next" href=(format!("?{}", params.query_with("cursor", next))) { "Next page" }
                }
            }
        }
    }
}

/// A command to type.
pub fn command(text: &str) -> Markup {
    html! { pre.command { code { (text) } } }
}

/// A bar of what is used of what there is.
pub fn meter(used: usize, max: usize, about: &str) -> Markup {
    html! { meter min="0" max=(max.max(used)) value=(used) aria-label=(about) { (used) " of " (max) } }
}

/// Text that somebody else wrote: control characters and changes of direction are made visible.
pub fn foreign(text: &str) -> Markup {
    html! { bdi { (visible(text)) } }
}

/// The same without an element, for where HTML has none: in pictures. Also for whole pages, so that no page can forget it.
pub fn visible(text: &str) -> Cow<'_, str> {
    replaced(text, |c| c.escape_unicode().to_string())
}

/// A value that a form sends back as it is: [`visible`] leaves it alone.
pub fn field_value(text: &str) -> Markup {
    let escaped = html! { (text) }.into_string();
    PreEscaped(replaced(&escaped, |c| format!("&#{};", u32::from(c))).into_owned())
}

fn replaced(text: &str, replacement: impl Fn(char) -> String) -> Cow<'_, str> {
    let is_hidden = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    if !text.contains(is_hidden) {
        return text.into();
    }
    let show = |c: char| if is_hidden(c) { replacement(c) } else { c.to_string() };
    text.chars().map(show).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_part_of_an_address() {
        for (name, expected) in [
            ("mail", "mail"),
            ("a/b", "a%2Fb"),
            ("..", "%2E%2E"),
            ("a?b#c", "a%3Fb%23c"),
            ("é", "%C3%A9"),
            ("\"><script>", "%22%3E%3Cscript%3E"),
        ] {
            assert_eq!(part(name), expected);
        }
    }

    #[test]
    fn what_others_wrote_is_text() {
        let shown = foreign("<script>\u{202e}evil\u{7}").into_string();
        assert_eq!(shown, "<bdi>&lt;script&gt;\\u{202e}evil\\u{7}</bdi>");
        let field = html! { input value=(field_value("\"<\u{202e}")); }.into_string();
        assert_eq!(visible(&field), "<input value=\"&quot;&lt;&#8238;\">");
        let quoted = html! { a title=("\"onmouseover=\"x") {} }.into_string();
        assert_eq!(quoted, "<a title=\"&quot;onmouseover=&quot;x\"></a>");
    }
}
