//! Every page is for everybody: readable by day and by night, on a phone, by keyboard and by screen reader, and without the
//! rest of the Internet.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::json;

use super::chrome::{Browser, LAPTOP, PHONE, Scheme};
use super::dashboard::demo;

/// Kinds of pages, by their paths, that the demo has something for. New ones need not be named here to be tried.
const KNOWN: [&str; 15] = [
    "/",
    "/audit",
    "/flows",
    "/flows/*",
    "/keeper",
    "/pipelines",
    "/pipelines/*",
    "/pipelines/*/history",
    "/queues",
    "/queues/*",
    "/queues/*/failed",
    "/queues/*/messages/*",
    "/slots",
    "/slots/*",
    "/znodes?path",
];

/// What a page is about, without its name: every second part of a path is one, and so are the values of a query.
fn kind(link: &str) -> String {
    let (path, query) = link.split_once('?').unwrap_or((link, ""));
    let parts = path.split('/').enumerate().map(|(at, part)| if at > 0 && at % 2 == 0 { "*" } else { part });
    let names = query.split('&').filter_map(|pair| pair.split('=').next()).filter(|name| !name.is_empty());
    let names: Vec<&str> = names.collect();
    let path = parts.collect::<Vec<_>>().join("/");
    if names.is_empty() { path } else { format!("{path}?{}", names.join("&")) }
}

/// One page of every kind that is reached by links from the overview.
fn pages(browser: &Browser) -> BTreeMap<String, String> {
    let mut pages = BTreeMap::from([("/".to_owned(), "/".to_owned())]);
    let mut unseen = vec!["/".to_owned()];
    while let Some(page) = unseen.pop() {
        browser.goto(&page);
        if !browser.holds("document.contentType == 'text/html'", json!([])) {
            pages.remove(&kind(&page));
            continue;
        }
        for link in browser.links() {
            if let Entry::Vacant(new) = pages.entry(kind(&link)) {
                new.insert(link.clone());
                unseen.push(link);
            }
        }
    }
    let missing: Vec<_> = KNOWN.iter().filter(|known| !pages.contains_key(**known)).collect();
    assert!(missing.is_empty(), "no links lead to {missing:?}, but to {pages:?}");
    pages
}

fn assert_flawless(scheme: Scheme) {
    let browser = demo().browser();
    browser.prefer(scheme);
    let mut pages: Vec<String> = pages(&browser).into_values().collect();
    pages.push("/login".to_owned());
    // Faults of the way here are found where they are.
    browser.console_errors();
    browser.requested_urls();
    let mut faults = Vec::new();
    for page in pages {
        browser.resize(LAPTOP);
        browser.goto(&page);
        let headings = browser.texts("h1").len();
        if headings != 1 {
            faults.push(format!("{page}: {headings} elements h1"));
        }
        faults.extend(browser.faults(scheme));
        browser.resize(PHONE);
        faults.extend(browser.faults(scheme).into_iter().map(|fault| format!("on a phone: {fault}")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_page_is_flawless_by_day() {
    assert_flawless(Scheme::Light);
}

#[test]
fn every_page_is_flawless_by_night() {
    assert_flawless(Scheme::Dark);
}

#[test]
fn a_page_that_does_not_exist_says_so_and_leads_on() {
    let browser = demo().browser();
    for page in ["/nothing", "/queues/nothing", "/slots/nothing", "/flows/nothing", "/pipelines/nothing"] {
        browser.goto(page);
        assert!(!browser.text("h1").is_empty(), "{page}");
        assert!(browser.links().contains(&"/".to_owned()), "{page}");
        let found: Vec<String> = browser.axe().iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{page}: {}", found.join("\n"));
    }
}
