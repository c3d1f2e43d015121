//! What happens is shown at once, in the page as it is.

use serde_json::json;

use super::dashboard::serve;
use super::keys::{ENTER, TAB};
use crate::queues::Fleet;

/// Ids of the page's elements that occur more than once.
pub const TWICE: &str = "
const ids = [...document.querySelectorAll('[id]')].map(one => one.id);
return ids.filter((id, at) => ids.indexOf(id) != at);
";

#[test]
fn messages_appear_and_go_without_a_reload() {
    let fleet = Fleet::with_queue("browser-live", "mail", 1);
    let (_web, dashboard) = serve(&fleet.user);
    let browser = dashboard.browser();
    browser.goto("/queues/mail");
    browser.wait_for_text("#main", "Nothing waits.");
    browser.mark();
    for letter in ["first letter", "second letter"] {
        fleet.user.ok(&["queue", "put", "mail", letter]);
        browser.wait_for_text("#main tr[id^=waiting-]", letter);
    }
    assert_eq!(browser.run(TWICE, json!([])), json!([]));
    let _worker = fleet.worker("mail", &[]);
    browser.wait_for_text("#main", "Nothing waits.");
    assert!(browser.is_marked(), "the page was loaded again");
    assert_eq!(browser.console_errors(), [""; 0]);
}

#[test]
fn whoever_types_while_the_page_changes_is_not_disturbed() {
    let fleet = Fleet::with_queue("browser-typing", "mail", 1);
    let (_web, dashboard) = serve(&fleet.user);
    fleet.user.ok(&["queue", "put", "mail", "a"]);
    let failing = fleet.starting("mail", &[], &["sh", "-c", "exit 65"]);
    let browser = dashboard.browser();

    browser.goto("/queues/mail");
    browser.tab_to("input[name=body]");
    browser.press("half a ");
    fleet.user.ok(&["queue", "put", "mail", "b"]);
    browser.wait_until(
        "two have failed",
        "document.querySelector('a[href$=\"/failed\"]').innerText == '2'",
        json!([]),
    );
    browser.press("letter");
    let typed = "return [document.activeElement.name, document.activeElement.value]";
    assert_eq!(browser.run(typed, json!([])), json!(["body", "half a letter"]));

    browser.goto("/queues/mail/failed");
    browser.tab_to("tr[id^=failed-] details.confirm > summary");
    browser.press(ENTER);
    browser.press(TAB);
    fleet.user.ok(&["queue", "put", "mail", "c"]);
    browser.wait_until(
        "three have failed",
        "document.querySelectorAll('tr[id^=failed-]').length == 3",
        json!([]),
    );
    let is_there = "document.activeElement.matches('tr[id^=failed-]:first-child details[open] button')";
    assert!(browser.holds(is_there, json!([])), "what was unfolded is open, and the focus where it was");
    drop(failing);
}

#[test]
fn a_page_that_is_left_and_come_back_to_is_live() {
    let fleet = Fleet::with_queue("browser-back", "mail", 1);
    let (_web, dashboard) = serve(&fleet.user);
    let browser = dashboard.browser();
    browser.goto("/queues/mail");
    browser.goto("/queues");
    browser.go_back();
    browser.wait_for_text("h1", "Queue mail");
    fleet.user.ok(&["queue", "put", "mail", "a letter"]);
    browser.wait_for_text("#main tr[id^=waiting-]", "a letter");
}

#[test]
fn somebody_with_many_tabs_sees_all_of_them_live() {
    let fleet = Fleet::with_queue("browser-tabs", "mail", 1);
    let (_web, dashboard) = serve(&fleet.user);
    let browser = dashboard.browser();
    // Browsers open six connections to a server, and a stream keeps one.
    for tab in 1..=8 {
        browser.open_tab();
        browser.goto("/queues/mail");
        let letter = format!("letter {tab}");
        fleet.user.ok(&["queue", "put", "mail", &letter]);
        browser.wait_for_text("#main tr[id^=waiting-]", &letter);
    }
}
