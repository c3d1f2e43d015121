//! What others wrote is shown as text, whatever it is.

use serde_json::json;

use super::chrome::Browser;
use super::dashboard::serve;
use super::keyboard::fail;
use crate::queues::Fleet;

/// What pages may make of text that is not ours, and what must be readable of it.
const EVIL: [(&str, &str); 6] = [
    ("<script>window.hacked=1</script>", "<script>window.hacked=1</script>"),
    ("\"onmouseover=\"window.hacked=1\" x=\"", "\"onmouseover=\"window.hacked=1\" x=\""),
    ("'><img src=x onerror=window.hacked=1>", "'><img src=x onerror=window.hacked=1>"),
    ("javascript:window.hacked=1", "javascript:window.hacked=1"),
    ("bell \u{7} escape \u{1b}[31m", "\\u{7}"),
    ("left \u{202e}thgir", "\\u{202e}"),
];

/// Does to the page what a user might, and insists that nothing but the page's own script has run.
#[track_caller]
fn assert_inert(browser: &Browser) {
    let provoke = "
        for (const one of document.querySelectorAll('details')) one.open = true;
        for (const one of document.querySelectorAll('main *'))
            for (const type of ['mouseover', 'mouseenter', 'focus']) one.dispatchEvent(new Event(type, { bubbles: true }));
        return [...document.querySelectorAll('main *')].filter(one =>
            ['SCRIPT', 'IMG', 'IFRAME'].includes(one.tagName)
            || one.getAttributeNames().some(name => name.startsWith('on'))
            || (one.getAttribute('href') || '').startsWith('javascript:')).map(one => one.outerHTML)";
    assert_eq!(browser.run(provoke, json!([])), json!([]), "{}", browser.path());
    assert!(browser.holds("window.hacked === undefined", json!([])), "{}", browser.path());
    assert_eq!(browser.dialog(), None);
    // Even the policy had nothing to stop.
    assert_eq!(browser.console_errors(), [""; 0], "{}", browser.path());
    assert_eq!(browser.strayed(), [""; 0], "{}", browser.path());
}

/// Insists that all of it can be read.
#[track_caller]
fn assert_readable(browser: &Browser) {
    let main = browser.text("#main");
    for (_, shown) in EVIL {
        assert!(main.contains(shown), "{} does not show {shown:?}:\n{main}", browser.path());
    }
    assert!(!main.contains(['\u{7}', '\u{1b}', '\u{202e}']), "{} shows them raw:\n{main}", browser.path());
}

#[test]
fn messages_are_text_whatever_they_say() {
    let fleet = Fleet::with_queue("browser-hostile", "mail", 1);
    let (_web, dashboard) = serve(&fleet.user);
    let bodies = EVIL.map(|(body, _)| body);
    fail(&fleet, &bodies);
    fleet.user.ok(&[&["queue", "put", "mail"], &bodies[..]].concat());
    let browser = dashboard.browser();
    browser.goto("/queues/mail");
    browser.wait_for("tr[id^=waiting-]:nth-child(6)");
    assert_inert(&browser);
    assert_readable(&browser);
    // Script that came with an update of the page would be another way in.
    fleet.user.ok(&["queue", "put", "mail", "the last one <script>window.hacked=1</script>"]);
    browser.wait_for_text("tr[id^=waiting-]", "the last one");
    assert_inert(&browser);
    let story =
        browser.links().into_iter().find(|link| link.contains("/messages/")).expect("messages are linked");
    browser.goto(&story);
    assert_inert(&browser);

    browser.goto("/queues/mail/failed");
    browser.wait_for("tr[id^=failed-]:nth-child(6)");
    assert_inert(&browser);
    assert_readable(&browser);
}

#[test]
fn reasons_notices_and_addresses_are_text_whatever_they_say() {
    let fleet = Fleet::with_queue("browser-reasons", "mail", 1);
    let user = &fleet.user;
    user.ok(&["slots", "create", "pool", "--max", "2"]);
    let (_web, dashboard) = serve(user);
    let browser = dashboard.browser();
    for (reason, shown) in EVIL {
        let frozen = user.run(&["slots", "freeze", "pool", "--reason", reason]);
        // Reasons without control characters are text like any other.
        if frozen.code != Some(0) {
            assert!(shown.starts_with("\\u"), "{reason:?}: {}", frozen.stderr);
            continue;
        }
        browser.goto("/slots/pool");
        assert_inert(&browser);
        let main = browser.text("#main");
        assert!(main.contains(shown), "{shown:?} is missing: {main}");
        user.ok(&["slots", "thaw", "pool"]);
    }
    // By the page itself, whose notice repeats what was typed, and so does the audit trail.
    browser.goto("/slots/pool");
    browser.tab_to("form[action$='/freeze'] input[name=reason]");
    browser.press(EVIL[2].0);
    browser.press(super::keys::ENTER);
    browser.wait_for_text("#main", EVIL[2].1);
    assert_inert(&browser);
    browser.goto("/audit");
    assert_inert(&browser);
    for address in [
        "/queues?q=%22%3E%3Cscript%3Ewindow.hacked%3D1%3C%2Fscript%3E",
        "/login?next=%22%3E%3Cscript%3Ewindow.hacked%3D1%3C%2Fscript%3E",
        "/znodes?path=%2Fmenagerie%3Cscript%3Ewindow.hacked%3D1%3C%2Fscript%3E",
        "/%3Cscript%3Ewindow.hacked%3D1%3C%2Fscript%3E",
        "/queues/%3Cscript%3Ewindow.hacked%3D1%3C%2Fscript%3E",
    ] {
        browser.goto(address);
        // Chromium logs pages that are not found.
        browser.console_errors();
        assert_inert(&browser);
    }
    browser.goto(&format!("/login?next=javascript:window.hacked=1&token={}", dashboard.token));
    assert_eq!(browser.path(), "/");
    browser.goto(&format!("/login?next=//127.0.0.1:9/&token={}", dashboard.token));
    assert_eq!(browser.path(), "/");
}
