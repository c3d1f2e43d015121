//! The checks of pages can fail: each is tried on a page that deserves it, under a policy as strict as the dashboard's.

use std::net::SocketAddr;

use serde_json::json;

use super::chrome::{Browser, LAPTOP, PHONE, Scheme};
use super::fixture::{Page, serve};
use super::keys::{ENTER, TAB};

const STRICT: &str = "Content-Security-Policy: default-src 'none'; img-src data:; script-src 'self'; style-src 'unsafe-inline'\r\n";

const PAGES: &[Page] = &[
    (
        "/good",
        STRICT,
        r#"<!doctype html><html lang="en"><meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">
<style>:root { color-scheme: light dark } button:focus-visible { outline: 2px solid blue }</style>
<title>Good</title><main><h1>Good</h1><form action="/pressed"><button>Press</button></form></main>"#,
    ),
    (
        "/unreadable",
        STRICT,
        r#"<!doctype html><title>Bad</title><link rel="icon" href="data:,">
<main><h1>Bad</h1><p style="color: #999; background: #aaa">grey</p><input></main>"#,
    ),
    (
        "/unreadable-in-the-dark",
        STRICT,
        r#"<!doctype html><html lang="en"><title>Dark</title><link rel="icon" href="data:,">
<style>@media (prefers-color-scheme: dark) { body { background: #111; color: #222 } }</style><main><h1>Dark</h1></main>"#,
    ),
    (
        "/wide",
        STRICT,
        r#"<!doctype html><html lang="en"><meta name="viewport" content="width=device-width"><title>Wide</title>
<main><h1>Wide</h1><div style="width: 400px">wide</div></main>"#,
    ),
    (
        "/no-viewport",
        STRICT,
        r#"<!doctype html><html lang="en"><title>Old</title><main><h1>Made for wide screens</h1></main>"#,
    ),
    (
        "/strays",
        "",
        r#"<!doctype html><title>Strays</title><img src="http://127.0.0.1:9/x.png"><script>window.marked = 0; oops()</script>"#,
    ),
    ("/blocked", STRICT, "<!doctype html><title>Blocked</title><script>window.hacked = 1</script>"),
    ("/pressed?", STRICT, "<!doctype html><title>Pressed</title><h1>Pressed</h1>"),
    ("/alert", "", "<!doctype html><title>Alert</title><script>setTimeout(() => alert('hi'))</script>"),
];

fn browser() -> Browser {
    let server: SocketAddr = serve(PAGES);
    Browser::open(server)
}

#[test]
fn a_page_that_some_cannot_read_or_use_is_found_out() {
    let browser = browser();
    let rules = |scheme, path: &str| -> Vec<String> {
        browser.prefer(scheme);
        browser.goto(path);
        browser.axe().into_iter().map(|one| one.rule).collect()
    };
    assert_eq!(rules(Scheme::Light, "/good"), [""; 0]);
    assert_eq!(rules(Scheme::Dark, "/good"), [""; 0]);
    assert_eq!(rules(Scheme::Light, "/unreadable"), ["color-contrast", "html-has-lang", "label"]);
    assert_eq!(rules(Scheme::Light, "/unreadable-in-the-dark"), [""; 0]);
    assert_eq!(rules(Scheme::Dark, "/unreadable-in-the-dark"), ["color-contrast"]);
}

#[test]
fn a_page_too_wide_for_a_phone_is_found_out() {
    let browser = browser();
    let is_too_wide = |path: &str| {
        browser.goto(path);
        [PHONE, LAPTOP].map(|size| {
            browser.resize(size);
            browser.has_horizontal_scroll()
        })
    };
    assert_eq!(is_too_wide("/good"), [false, false]);
    assert_eq!(is_too_wide("/wide"), [true, false]);
    assert_eq!(is_too_wide("/no-viewport"), [true, false]);
}

#[test]
fn errors_and_requests_that_leave_the_server_are_found_out() {
    let browser = browser();
    browser.goto("/good");
    assert_eq!(browser.console_errors(), [""; 0]);
    assert_eq!(browser.requested_urls(), [browser.origin() + "/good"]);
    browser.goto("/strays");
    assert_eq!(browser.strayed(), ["http://127.0.0.1:9/x.png"]);
    let errors = browser.console_errors().join("\n");
    assert!(errors.contains("oops is not defined"), "{errors}");
    browser.goto("/blocked");
    let errors = browser.console_errors().join("\n");
    assert!(errors.contains("Content Security Policy"), "{errors}");
    assert!(browser.holds("window.hacked === undefined", json!([])));
    assert_eq!(browser.dialog(), None);
    browser.goto("/alert");
    menagerie_testkit::eventually("a dialog", || browser.dialog());
}

#[test]
fn a_browser_can_be_used_by_keyboard_reloaded_and_cut_off() {
    let browser = browser();
    browser.goto("/good");
    browser.mark();
    assert!(browser.is_marked());
    browser.go_offline();
    let fetches = "return fetch(location.href).then(() => true, () => false)";
    assert_eq!(browser.run(fetches, json!([])), json!(false));
    browser.go_online();
    browser.tab_to("button");
    browser.press(ENTER);
    browser.wait_for_text("h1", "Pressed");
    assert!(!browser.is_marked());
    browser.press(TAB);
    assert!(browser.picture().starts_with(b"\x89PNG"));
}
