//! What pages are made of.

use maud::{Markup, html};
use menagerie_types::moment::utc;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::params::Params;
use crate::reads::now_ms;

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

/// The moment so many milliseconds ago, to the second: so that a page that is made again is the same.
pub fn ago(age_ms: u64) -> Markup {
    let then = now_ms().saturating_sub(age_ms);
    time(i64::try_from((then + 500) / 1000 * 1000).unwrap_or(i64::MAX))
}

/// The same, or a dash.
pub fn maybe_ago(age_ms: Option<u64>) -> Markup {
    age_ms.map_or_else(dash, ago)
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

/// A state in a word.
pub fn badge(mood: Mood, word: &str) -> Markup {
    let (class, sign) = match mood {
        Mood::Good => ("good", "✓"),
        Mood::Busy => ("busy", "▸"),
        Mood::Warn => ("warn", "▲"),
        Mood::Bad => ("bad", "✕"),
        Mood::Idle => ("idle", "○"),
    };
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
            input #q type="search" name="q" value=(params.text("q").unwrap_or_default());
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
    let is_hidden = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    if !text.contains(is_hidden) {
        return html! { bdi { (text) } };
    }
    let shown: String = text
        .chars()
        .map(|c| if is_hidden(c) { c.escape_unicode().to_string() } else { c.to_string() })
        .collect();
    html! { bdi { (shown) } }
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
        let quoted = html! { a title=("\"onmouseover=\"x") {} }.into_string();
        assert_eq!(quoted, "<a title=\"&quot;onmouseover=&quot;x\"></a>");
    }
}
