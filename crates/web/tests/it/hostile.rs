//! Names and texts that others have chosen do nothing on any page.

use menagerie_kernel::retry;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use crate::site::Site;
use crate::world::{Log, options};

/// Names may have no blanks and no control characters; everything else may.
const NAMES: [&str; 5] = [
    "<script>alert(1)<",
    "\"onmouseover=\"alert(1)",
    "'><iframe>alert(1)<",
    "javascript:alert(1)",
    "\u{202e}gpj.exe\u{2066}",
];
const TEXTS: [&str; 5] = [
    "<script>alert(1)</script>",
    "\" onmouseover=\"alert(1)",
    "javascript:alert(1)",
    "\u{1b}[2J\u{7}\u{0}\u{9b}31m",
    "\u{202e}\u{2066}desrever\u{200f}",
];

/// Tags with their attributes. Panics where the text is no HTML as we write it.
fn tags(html: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut tags = Vec::new();
    for (at, _) in html.match_indices('<') {
        let tag = &html[at + 1..at + html[at..].find('>').expect("a tag has an end")];
        if tag.starts_with(['/', '!']) {
            continue;
        }
        let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "<{tag}>");
        let mut attributes = Vec::new();
        while !rest.is_empty() {
            let end = rest.find(['=', ' ']).unwrap_or(rest.len());
            let attribute = rest[..end].to_owned();
            match rest[end..].strip_prefix("=\"") {
                Some(quoted) => {
                    let (value, after) = quoted.split_once('"').unwrap_or_else(|| panic!("<{tag}>"));
                    attributes.push((attribute, value.to_owned()));
                    rest = after.trim_start();
                }
                None => {
                    attributes.push((attribute, String::new()));
                    rest = rest[end..].trim_start();
                }
            }
        }
        tags.push((name.to_owned(), attributes));
    }
    tags
}

/// What a page could do, or show otherwise than it is, because of what is in it.
fn faults(html: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (tag, attributes) in tags(html) {
        for (name, value) in &attributes {
            let is_link = matches!(name.as_str(), "href" | "src" | "action" | "formaction");
            let is_ours = value.starts_with(['/', '?', '#']) && !value.starts_with("//");
            // A field of a form has a name as it is: it is sent back.
            let is_field = tag == "input" && name == "value";
            if name.starts_with("on")
                || name == "style"
                || (is_link && !is_ours)
                || (!is_field && hides(value))
            {
                faults.push(format!("<{tag} {name}={value:?}>"));
            }
        }
        let is_asset = attributes.iter().any(|(name, value)| name == "src" && value.starts_with("/assets/"));
        let is_foreign = matches!(tag.as_str(), "img" | "iframe" | "object" | "embed" | "style" | "base");
        if is_foreign || (tag == "script" && !is_asset) {
            faults.push(format!("<{tag}>"));
        }
    }
    let texts = html.split('<').filter_map(|part| part.split_once('>'));
    faults.extend(texts.filter(|(_, text)| hides(text)).map(|(tag, text)| format!("<{tag}>{text:?}")));
    faults
}

/// Whether a text has characters that change how others look.
fn hides(text: &str) -> bool {
    text.contains(|c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    })
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_others_have_written_is_inert_on_every_page() {
    let site = Site::new("web-hostile").await;
    let mut paths: Vec<String> =
        ["/", "/slots", "/queues", "/flows", "/pipelines", "/znodes", "/keeper", "/audit"]
            .map(str::to_owned)
            .to_vec();
    let mut workers = Vec::new();
    for (number, name) in NAMES.into_iter().enumerate() {
        let text = TEXTS[number];
        site.pool(name, &[name, text, "waits", TEXTS[(number + 1) % TEXTS.len()]]).await;
        let reason = json!({ "reason": text }).to_string();
        site.post(&format!("/slots/{}/freeze", encoded(name)), &reason).await.value();
        site.create(&site.session, name, 1).await;
        site.fail(name, &[text, name], text).await;
        let put = json!({ "body": text, "key": text }).to_string();
        let messages = format!("/queues/{}/messages", encoded(name));
        let put = site.post(&messages, &put).await.value()["ids"][0].as_str().unwrap().to_owned();
        site.post(&format!("/queues/{}/pause", encoded(name)), &reason).await.value();
        let worker = site.start(&site.session, options(name, &[name]), Log::default().task("w1"));
        worker.has(1).await;
        workers.push(worker);
        site.post(&format!("/workers/{}/pause", encoded(name)), &reason).await.value();
        site.job(name, text).await;
        retry::ensure(&site.session.term(), &format!("/elsewhere/{name}"), text.as_bytes()).await.unwrap();
        let name = encoded(name);
        paths.push(format!("/slots/{name}"));
        paths.push(format!("/queues/{name}"));
        paths.push(format!("/queues/{name}/failed"));
        paths.push(format!("/queues/{name}/messages/{put}"));
        paths.push(format!("/flows/{name}"));
        paths.push(format!("/znodes?path=/elsewhere/{name}"));
        for list in ["/slots", "/queues", "/flows", "/znodes", "/pipelines"] {
            paths.push(format!("{list}?q={name}&limit=1"));
            paths.push(format!("{list}?q={}", encoded(text)));
        }
        paths.push(format!("/login?next={name}"));
        // Pages of problems repeat what they do not know.
        for missing in [
            "/slots/none",
            "/queues/none",
            "/flows/none",
            "/pipelines/",
            "/pipelines/x/history?cursor=",
            "/none",
        ] {
            paths.push(format!("{missing}{name}"));
        }
        paths.push(format!("/slots?{name}={name}"));
    }
    paths.push("/znodes?path=/elsewhere".to_owned());
    let mut found = Vec::new();
    for path in &paths {
        let page = site.page(path).await;
        assert!(page.code < 500, "{path}: {page:?}");
        found.extend(faults(&page.text()).into_iter().map(|fault| format!("{path}: {fault}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    // An act on hostile names reports, and its notice is as inert.
    let own = format!("http://{}", site.address());
    let bearer = format!("Bearer {}", site.token);
    for name in NAMES {
        let form = ("Content-Type", "application/x-www-form-urlencoded");
        let headers = [form, ("Authorization", bearer.as_str()), ("Origin", own.as_str())];
        let path = format!("/act/slots/{}/thaw", encoded(name));
        let done = site.ask("POST", &path, &headers, b"").await;
        let notice = done.header("set-cookie").unwrap().split(';').next().unwrap();
        let page = site.ask("GET", "/slots", &[("Cookie", notice)], b"").await.text();
        assert!(page.contains("id=\"notice\"") && page.contains("is open again"), "{page}");
        assert_eq!(faults(&page), [""; 0]);
    }
}

#[test]
fn what_is_not_inert_is_found() {
    for wrong in [
        "<script>x</script>",
        "<a href=\"javascript:x\">x</a>",
        "<a href=\"//evil.example\">x</a>",
        "<p onclick=\"x\">x</p>",
        "<p title=\"\" onclick=\"x\">x</p>",
        "<p>\u{202e}x</p>",
        "<img src=\"/x\">",
    ] {
        assert_eq!(faults(wrong).len(), 1, "{wrong}");
    }
    assert_eq!(faults("<a href=\"/x?y\" disabled title=\"javascript:\">&lt;script&gt;</a>"), [""; 0]);
}
