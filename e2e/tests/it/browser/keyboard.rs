//! Everything can be done with a keyboard alone, and the focus is always visible.

use menagerie_testkit::eventually;
use serde_json::json;

use super::chrome::{PHONE, Scheme};
use super::dashboard::{demo, serve};
use super::keys::{ENTER, SPACE};
use crate::cli::User;
use crate::pipelines::site::Site;
use crate::queues::Fleet;

/// Lets messages of queue `mail` fail, and returns when they have.
pub fn fail(fleet: &Fleet, bodies: &[&str]) {
    let mut worker = fleet.starting("mail", &[], &["sh", "-c", "cat >&2; exit 65"]);
    fleet.user.ok(&[&["queue", "put", "mail"], bodies].concat());
    eventually("all have failed", || (failed(&fleet.user) == bodies.len()).then_some(()));
    // It commits what it has handled.
    worker.stop();
}

fn failed(user: &User) -> usize {
    user.json(&["queue", "failed", "mail"]).as_array().map_or(0, Vec::len)
}

#[test]
fn failed_messages_are_retried_and_forgotten_by_keyboard_alone() {
    let fleet = Fleet::with_queue("browser-keys", "mail", 1);
    let (_web, dashboard) = serve(&fleet.user);
    fail(&fleet, &["a", "b"]);
    let browser = dashboard.browser();
    browser.goto("/queues/mail/failed");
    assert_eq!(browser.faults(Scheme::Light), [""; 0]);
    browser.tab_to("tr[id^=failed-] form[action$='/retry'] button");
    browser.press(ENTER);
    let rows = "document.querySelectorAll('tr[id^=failed-]').length == arguments[0]";
    browser.wait_until("one is left", rows, json!([1]));
    assert_eq!((failed(&fleet.user), fleet.lag("mail")), (1, 1));

    browser.tab_to("tr[id^=failed-] details.confirm > summary");
    browser.press(SPACE);
    browser.tab_to("tr[id^=failed-] form[action$='/forget'] button");
    browser.press(ENTER);
    browser.wait_until("none is left", rows, json!([0]));
    assert_eq!((failed(&fleet.user), fleet.lag("mail")), (0, 1));
    browser.goto("/audit");
    let trail = browser.text("#main");
    assert!(["queues.retry", "queues.forget", "tester"].iter().all(|word| trail.contains(word)), "{trail}");
    assert_eq!(browser.faults(Scheme::Light), [""; 0]);
}

#[test]
fn a_pool_is_frozen_and_thawed_by_keyboard_alone() {
    let user = User::new("browser-freeze");
    user.ok(&["slots", "create", "pool", "--max", "2"]);
    let (_web, dashboard) = serve(&user);
    let browser = dashboard.browser();
    browser.goto("/slots/pool");
    browser.tab_to("form[action$='/freeze'] input[name=reason]");
    browser.press("bad update");
    browser.tab_to("form[action$='/freeze'] button");
    browser.press(ENTER);
    browser.wait_for_text("#main", "bad update");
    assert_eq!(user.json(&["slots", "show", "pool"])["frozen"]["reason"], "bad update");
    assert_eq!(browser.faults(Scheme::Light), [""; 0]);
    browser.tab_to("form[action$='/thaw'] button");
    browser.press(SPACE);
    browser.wait_for("form[action$='/freeze']");
    assert!(user.json(&["slots", "show", "pool"])["frozen"].is_null());
}

#[test]
fn a_change_is_dequeued_by_keyboard_alone() {
    let site = Site::new(User::new("browser-dequeue"), &["org/app"]);
    site.hold_builds();
    let _fleet = site.fleet();
    let (_web, dashboard) = serve(&site);
    let change = site.propose("org/app", "x", &[("x", "x\n")], "A change");
    let browser = dashboard.browser();
    browser.goto("/pipelines/main");
    browser.wait_for_text("li.item", &change);
    browser.wait_for_text("li.item", "org-app-test");
    let mut faults = browser.faults(Scheme::Light);
    browser.resize(PHONE);
    faults.extend(browser.faults(Scheme::Light));
    assert_eq!(faults, [""; 0]);
    browser.tab_to("li.item details.confirm > summary");
    browser.press(ENTER);
    browser.tab_to("li.item form[action$='/dequeue'] button");
    browser.press(ENTER);
    browser.wait_until_gone("li.item");
    assert_eq!(site.newest(&change, "check")["result"], "DEQUEUED");
    site.release_builds();
}

#[test]
fn keys_lead_to_pages_and_to_the_filter() {
    let browser = demo().browser();
    for (keys, page) in
        [("gs", "/slots"), ("gf", "/flows"), ("gp", "/pipelines"), ("gk", "/keeper"), ("gq", "/queues")]
    {
        browser.press(keys);
        browser.wait_until(page, "location.pathname == arguments[0]", json!([page]));
    }
    browser.press("/ma");
    browser.press(ENTER);
    browser.wait_until("the filter is applied", "location.search == '?q=ma'", json!([]));
    browser.tab_to("a.skip");
    browser.press(ENTER);
    assert!(browser.holds("document.activeElement.id == 'main'", json!([])), "the content has the focus");
}
