//! Pictures for the guide: written into `docs/screenshots` when UPDATE_SCREENSHOTS is set.

use std::env;
use std::fs;
use std::path::Path;

use serde_json::json;

use super::chrome::{Browser, LAPTOP, Scheme};
use super::dashboard::{demo, serve};
use crate::cli::User;
use crate::pipelines::site::Site;

/// Takes a picture of a page by day and one by night.
fn take(browser: &Browser, name: &str, page: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/screenshots");
    browser.resize(LAPTOP);
    browser.goto(page);
    let height = browser.run("return document.documentElement.scrollHeight", json!([]));
    browser.resize((LAPTOP.0, u32::try_from(height.as_u64().expect("a number")).expect("of a page")));
    for (scheme, word) in [(Scheme::Light, "light"), (Scheme::Dark, "dark")] {
        browser.prefer(scheme);
        browser.goto(page);
        assert!(browser.picture().starts_with(b"\x89PNG"), "{page} cannot be pictured");
        if env::var_os("UPDATE_SCREENSHOTS").is_some() {
            fs::create_dir_all(&folder).expect("a folder can be made");
            browser.screenshot(&folder.join(format!("{name}-{word}.png")));
        }
    }
}

#[test]
fn the_way_from_the_overview_to_a_failed_message_can_be_pictured() {
    let browser = demo().browser();
    take(&browser, "overview", "/");
    take(&browser, "failed", "/queues/mail/failed");
    let message = browser.run("return document.querySelector('tr[id^=failed-] a').pathname", json!([]));
    take(&browser, "message", message.as_str().expect("an address"));
    take(&browser, "queue", "/queues/mail");
}

#[test]
fn a_gate_at_work_can_be_pictured() {
    let site = Site::new(User::new("browser-picture"), &["org/app", "org/lib"]);
    site.hold_builds();
    let _fleet = site.fleet();
    let (_web, dashboard) = serve(&site);
    let browser = dashboard.browser();
    browser.goto("/pipelines/main");
    for (project, topic) in [("org/app", "greeting"), ("org/lib", "parser"), ("org/app", "farewell")] {
        let file = format!("{topic}.txt");
        let change = site.propose(project, topic, &[(&file, "text\n")], &format!("Add {file}"));
        site.ok(&["pipeline", "approve", &change]);
        browser.wait_for_text("#pipeline-gate li.item", &change);
    }
    take(&browser, "pipelines", "/pipelines/main");
    site.release_builds();
}
