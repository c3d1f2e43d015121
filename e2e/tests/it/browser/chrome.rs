//! A browser, and what tests do with it.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use menagerie_testkit::eventually;
use serde_json::{Value, json};

use super::driver::Driver;
use super::keys::TAB;

/// More than any page has to offer.
const STOPS_MAX: usize = 300;

/// Width of a small phone, in CSS pixels.
pub const PHONE: (u32, u32) = (360, 740);
/// Width of a window on a laptop.
pub const LAPTOP: (u32, u32) = (1280, 900);

/// What the system tells pages about the user's taste.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Light,
    Dark,
}

/// Chromium, on pages of one server.
pub struct Browser {
    pub driver: Driver,
    server: SocketAddr,
}

impl Browser {
    /// Starts Chromium with a new profile, on an empty page.
    pub fn open(server: SocketAddr) -> Self {
        let browser = Self { driver: Driver::start(), server };
        browser.resize(LAPTOP);
        // What its own first page requests is not the pages' doing.
        browser.driver.post("/url", &json!({ "url": "about:blank" }));
        browser.driver.log("performance");
        browser
    }

    /// `http://HOST:PORT`.
    pub fn origin(&self) -> String {
        format!("http://{}", self.server)
    }

    /// Navigates to a path of the server, and waits until the page is loaded.
    #[track_caller]
    pub fn goto(&self, path: &str) {
        self.driver.post("/url", &json!({ "url": format!("{}{path}", self.origin()) }));
    }

    /// Goes back to the page before, as with the button.
    #[track_caller]
    pub fn go_back(&self) {
        self.driver.post("/back", &json!({}));
    }

    /// Opens another tab, which commands are for from now on.
    #[track_caller]
    pub fn open_tab(&self) {
        let tab = self.driver.post("/window/new", &json!({ "type": "tab" }));
        self.driver.post("/window", &json!({ "handle": tab["handle"] }));
    }

    /// The path of the page, with its query.
    pub fn path(&self) -> String {
        self.string("return location.pathname + location.search", json!([]))
    }

    /// Runs the body of a function in the page, and returns its result; if that is a promise, what it resolves to. The page's
    /// content security policy does not apply.
    #[track_caller]
    pub fn run(&self, script: &str, arguments: Value) -> Value {
        self.driver.post("/execute/sync", &json!({ "script": script, "args": arguments }))
    }

    #[track_caller]
    fn string(&self, script: &str, arguments: Value) -> String {
        let value = self.run(script, arguments);
        value.as_str().unwrap_or_else(|| panic!("no text but {value}: {script}")).to_owned()
    }

    /// Whether something in the page is so.
    #[track_caller]
    pub fn holds(&self, condition: &str, arguments: Value) -> bool {
        self.run(&format!("return !!({condition})"), arguments) == json!(true)
    }

    /// The visible text of each element that matches.
    #[track_caller]
    pub fn texts(&self, css: &str) -> Vec<String> {
        let found = self.run(
            "return [...document.querySelectorAll(arguments[0])].map(one => one.innerText.trim())",
            json!([css]),
        );
        found.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    }

    /// The visible text of the first element that matches.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn text(&self, css: &str) -> String {
        let first = self.texts(css).into_iter().next();
        first.unwrap_or_else(|| panic!("{} has no {css}", self.path()))
    }

    /// Paths of the page's links within the server, in the order of the page.
    #[track_caller]
    pub fn links(&self) -> Vec<String> {
        let found = self.run(
            "return [...document.links].filter(link => link.origin == location.origin).map(link => link.pathname + link.search)",
            json!([]),
        );
        found.as_array().into_iter().flatten().filter_map(|link| link.as_str().map(str::to_owned)).collect()
    }

    /// Waits until something in the page is so: an expression of JavaScript.
    #[track_caller]
    pub fn wait_until(&self, what: &str, condition: &str, arguments: Value) {
        eventually(what, || self.holds(condition, arguments.clone()).then_some(()));
    }

    /// Waits until an element that matches is visible.
    #[track_caller]
    pub fn wait_for(&self, css: &str) {
        let visible = "[...document.querySelectorAll(arguments[0])].some(one => one.checkVisibility())";
        self.wait_until(&format!("{css} is visible"), visible, json!([css]));
    }

    /// Waits until no element that matches is visible.
    #[track_caller]
    pub fn wait_until_gone(&self, css: &str) {
        let gone = "[...document.querySelectorAll(arguments[0])].every(one => !one.checkVisibility())";
        self.wait_until(&format!("{css} is gone"), gone, json!([css]));
    }

    /// Waits until the text is visible in an element that matches.
    #[track_caller]
    pub fn wait_for_text(&self, css: &str, text: &str) {
        let shown =
            "[...document.querySelectorAll(arguments[0])].some(one => one.innerText.includes(arguments[1]))";
        self.wait_until(&format!("{css} says {text:?}"), shown, json!([css, text]));
    }

    /// Marks the page as loaded now: a reload, or another page, has no mark.
    #[track_caller]
    pub fn mark(&self) {
        self.run("window.marked = performance.timeOrigin", json!([]));
    }

    /// Whether this is still the page that was marked.
    #[track_caller]
    pub fn is_marked(&self) -> bool {
        self.holds("window.marked && window.marked === performance.timeOrigin", json!([]))
    }

    /// Presses and releases these keys, one after the other, wherever the focus is.
    #[track_caller]
    pub fn press(&self, keys: &str) {
        let stroke = |key: char| {
            ["keyDown", "keyUp"].map(|movement| json!({ "type": movement, "value": key.to_string() }))
        };
        let strokes: Vec<Value> = keys.chars().flat_map(stroke).collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": strokes });
        self.driver.post("/actions", &json!({ "actions": [keyboard] }));
    }

    /// Moves the focus with the Tab key until it is on an element that matches, and insists that people see it there.
    #[track_caller]
    pub fn tab_to(&self, css: &str) {
        let is_there = "document.activeElement?.matches(arguments[0])";
        let reached = (0..STOPS_MAX).any(|_| {
            self.press(TAB);
            self.holds(is_there, json!([css]))
        });
        assert!(reached, "the Tab key does not lead to {css} on {}", self.path());
        let is_seen = "(({ outlineStyle, outlineWidth, boxShadow }) => boxShadow != 'none' || (outlineStyle != 'none' && parseFloat(outlineWidth) > 0))(getComputedStyle(document.activeElement))";
        assert!(self.holds(is_seen, json!([])), "the focus on {css} of {} is not visible", self.path());
    }

    /// Makes the system prefer this color scheme.
    #[track_caller]
    pub fn prefer(&self, scheme: Scheme) {
        let value = match scheme {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": value }] });
        self.driver.devtools("Emulation.setEmulatedMedia", &features);
    }

    /// Resizes the window, in CSS pixels. One as small as a phone behaves as on a phone, where a page without a `viewport` is
    /// laid out for a wider screen.
    #[track_caller]
    pub fn resize(&self, (width, height): (u32, u32)) {
        let metrics = json!({
            "width": width,
            "height": height,
            "screenWidth": width,
            "screenHeight": height,
            "deviceScaleFactor": 1,
            "mobile": width <= PHONE.0,
        });
        self.driver.devtools("Emulation.setDeviceMetricsOverride", &metrics);
        self.wait_until("the window has its size", "screen.width == arguments[0]", json!([width]));
        // The page is laid out before its next frame, and a phone zooms after that.
        let two_frames = "return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))).then(() => 0)";
        self.run(two_frames, json!([]));
    }

    /// Cuts the page off from the network.
    #[track_caller]
    pub fn go_offline(&self) {
        self.network(true);
    }

    /// Ends [`go_offline`](Self::go_offline).
    #[track_caller]
    pub fn go_online(&self) {
        self.network(false);
    }

    #[track_caller]
    fn network(&self, is_offline: bool) {
        let conditions =
            json!({ "offline": is_offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1 });
        self.driver.devtools("Network.emulateNetworkConditions", &conditions);
    }

    /// The window's content, as PNG.
    #[track_caller]
    pub fn picture(&self) -> Vec<u8> {
        let encoded = self.driver.get("/screenshot").expect("a screenshot can be made");
        BASE64_STANDARD.decode(encoded.as_str().unwrap_or_default()).expect("it is base64")
    }

    /// Writes it into a file.
    #[track_caller]
    pub fn screenshot(&self, path: &Path) {
        fs::write(path, self.picture()).expect("a file can be written");
    }

    /// The text of an open dialog: `alert`, `confirm` or `prompt`.
    pub fn dialog(&self) -> Option<String> {
        self.driver.get("/alert/text").ok()?.as_str().map(str::to_owned)
    }
}

impl Drop for Browser {
    /// Says what a failed test was looking at.
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        let seen = json!({ "script": "return location.href + '\\n' + document.body.innerText", "args": [] });
        if let Some(seen) = self.driver.try_post("/execute/sync", &seen).as_ref().and_then(Value::as_str) {
            eprintln!("the browser shows {}", seen.chars().take(2_000).collect::<String>());
        }
    }
}
