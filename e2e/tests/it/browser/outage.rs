//! The server goes and comes back, or the network does.

use menagerie_testkit::Ensemble;
use serde_json::json;

use super::chrome::{Browser, Scheme};
use super::dashboard::serve;
use super::live::TWICE;
use crate::cli::User;
use crate::queues::Fleet;

const BANNER: &str = "[data-stale]";
const ROWS: &str = "document.querySelectorAll('#main tr[id^=waiting-]').length == arguments[0]";

/// Waits until the page says that it is out of date, and still shows what it knows.
fn wait_until_stale(browser: &Browser) {
    browser.wait_for_text(BANNER, "stale since");
    browser.wait_for(BANNER);
    browser.wait_until("what is known is still there", ROWS, json!([1]));
}

/// Waits until the page is current again, with two messages, each once.
fn wait_until_healed(browser: &Browser) {
    browser.wait_until_gone(BANNER);
    browser.wait_for_text("#main tr[id^=waiting-]", "second letter");
    browser.wait_until("each message is listed once", ROWS, json!([2]));
    assert_eq!(browser.run(TWICE, json!([])), json!([]));
    assert!(browser.is_marked(), "the page was loaded again");
}

#[test]
fn a_page_says_that_it_is_stale_until_its_server_is_back() {
    let fleet = Fleet::with_queue("browser-restart", "mail", 1);
    let (mut web, dashboard) = serve(&fleet.user);
    fleet.user.ok(&["queue", "put", "mail", "first letter"]);
    let browser = dashboard.browser();
    browser.goto("/queues/mail");
    browser.wait_for_text("#main tr[id^=waiting-]", "first letter");
    browser.mark();
    web.kill();
    wait_until_stale(&browser);
    fleet.user.ok(&["queue", "put", "mail", "second letter"]);
    web.restart();
    wait_until_healed(&browser);
}

#[test]
fn a_stale_page_is_readable() {
    let fleet = Fleet::with_queue("browser-stale", "mail", 1);
    let (mut web, dashboard) = serve(&fleet.user);
    fleet.user.ok(&["queue", "put", "mail", "first letter"]);
    let browser = dashboard.browser();
    browser.goto("/queues/mail");
    web.kill();
    wait_until_stale(&browser);
    for scheme in [Scheme::Light, Scheme::Dark] {
        browser.prefer(scheme);
        let found: Vec<String> = browser.axe().iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{scheme:?}: {}", found.join("\n"));
    }
}

#[test]
fn a_page_whose_server_hangs_says_so_and_catches_up() {
    let fleet = Fleet::with_queue("browser-silent", "mail", 1);
    let (web, dashboard) = serve(&fleet.user);
    fleet.user.ok(&["queue", "put", "mail", "first letter"]);
    let browser = dashboard.browser();
    browser.goto("/queues/mail");
    browser.wait_for_text("#main tr[id^=waiting-]", "first letter");
    browser.mark();
    // Its connections stay open, as those of a machine that has lost its network.
    web.pause();
    wait_until_stale(&browser);
    fleet.user.ok(&["queue", "put", "mail", "second letter"]);
    web.resume();
    wait_until_healed(&browser);
}

#[test]
fn a_page_without_network_catches_up_when_it_is_back() {
    let fleet = Fleet::with_queue("browser-offline", "mail", 1);
    let (mut web, dashboard) = serve(&fleet.user);
    fleet.user.ok(&["queue", "put", "mail", "first letter"]);
    let browser = dashboard.browser();
    browser.goto("/queues/mail");
    browser.wait_for_text("#main tr[id^=waiting-]", "first letter");
    browser.mark();
    // Chromium does not cut streams that are open.
    browser.go_offline();
    web.restart();
    wait_until_stale(&browser);
    fleet.user.ok(&["queue", "put", "mail", "second letter"]);
    browser.go_online();
    wait_until_healed(&browser);
}

#[test]
fn a_page_says_that_it_is_stale_until_zookeeper_is_back() {
    let servers = Ensemble::from_env().start_own();
    let fleet = Fleet::of(User::at(servers.chroot("browser-zookeeper")));
    fleet.create("mail", 1);
    let (_web, dashboard) = serve(&fleet.user);
    fleet.user.ok(&["queue", "put", "mail", "first letter"]);
    let browser = dashboard.browser();
    browser.goto("/queues/mail");
    browser.wait_for_text("#main tr[id^=waiting-]", "first letter");
    browser.mark();
    servers.pause();
    wait_until_stale(&browser);
    servers.resume();
    fleet.user.ok(&["queue", "put", "mail", "second letter"]);
    wait_until_healed(&browser);
}
