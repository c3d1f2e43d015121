//! The dashboard, in a real browser: headless Chromium, driven through Debian's chromedriver.
//!
//! - `chrome.rs`: a browser, and what tests do with it; `driver.rs`: chromedriver, and its protocol; `keys.rs`: a keyboard;
//!   `audit.rs`: what is wrong with a page: axe-core's findings, console errors, requests that leave the origin, width;
//!   `http.rs`: requests that no browser would send.
//! - `checks.rs`: the checks can fail, on pages of `fixture.rs` that deserve it.
//! - `dashboard.rs`: dashboards to look at. All tests that only look share one demo.
//! - Everything else: scenarios.

mod audit;
mod authority;
mod checks;
mod chrome;
mod dashboard;
mod driver;
mod fixture;
mod hostile;
mod http;
mod keyboard;
mod keys;
mod live;
mod outage;
mod pages;
mod pictures;
