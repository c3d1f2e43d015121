//! chromedriver, and a session of its protocol, W3C WebDriver: a JSON object per request.
//!
//! Written out, because the client crates do not fit: fantoccini brings `webdriver`, whose licence deny.toml refuses, and
//! thirtyfour brings 38 crates for the twelve requests that we send.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use menagerie_testkit::{DEADLINE, Process};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::http;

const CHROMEDRIVER: &str = "/usr/bin/chromedriver";
const CHROMIUM: &str = "/usr/bin/chromium";

/// Chromium never asks the network for anything but the pages under test: it has no other server to talk to, and resolves no
/// names. The pipe makes it end with chromedriver, however that ends.
const FLAGS: [&str; 12] = [
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/// A running Chromium with a new profile. Dropping it ends it.
pub struct Driver {
    process: Process,
    address: SocketAddr,
    /// Path of the session's requests.
    session: String,
    /// Removed last.
    profile: TempDir,
}

impl Driver {
    /// Starts chromedriver on a free port, and Chromium.
    ///
    /// # Panics
    /// If they are not installed: a test that was asked for is never skipped.
    pub fn start() -> Self {
        for program in [CHROMEDRIVER, CHROMIUM] {
            assert!(
                Path::new(program).exists(),
                "{program} is missing: `cargo xtask test` installs it, or apt-get install chromium chromium-driver"
            );
        }
        let profile = tempfile::tempdir().expect("a temporary directory can be made");
        let mut command = Command::new(CHROMEDRIVER);
        let process = Process::spawn(command.arg("--port=0").env("HOME", profile.path()));
        let port = process.wait_for_line("on which port it listens", |line| {
            line.strip_prefix("ChromeDriver was started successfully on port ")?
                .trim_end_matches('.')
                .parse()
                .ok()
        });
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut driver = Self { process, address, session: "/session".to_owned(), profile };
        let opened = driver.post("", &driver.capabilities());
        let id = opened["sessionId"].as_str().expect("a session has an id");
        driver.session = format!("/session/{id}");
        driver
    }

    fn capabilities(&self) -> Value {
        let mut flags: Vec<String> = FLAGS.iter().map(|&flag| flag.to_owned()).collect();
        flags.push(format!("--user-data-dir={}", self.profile.path().display()));
        let patience = DEADLINE.as_millis();
        json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            // An alert must be seen by the test, which fails then.
            "unhandledPromptBehavior": "ignore",
            "timeouts": { "script": patience, "pageLoad": patience },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
            "goog:chromeOptions": { "binary": CHROMIUM, "args": flags },
        } } })
    }

    /// A command with arguments, below the session's path.
    ///
    /// # Panics
    /// If it fails.
    #[track_caller]
    pub fn post(&self, command: &str, arguments: &Value) -> Value {
        match self.send("POST", command, arguments.to_string().as_bytes()) {
            Ok(value) => value,
            Err(why) => panic!("{command}: {why}; chromedriver says:\n{}", self.process.stderr()),
        }
    }

    /// The same for somebody who fails already.
    pub fn try_post(&self, command: &str, arguments: &Value) -> Option<Value> {
        self.send("POST", command, arguments.to_string().as_bytes()).ok()
    }

    /// A question, below the session's path.
    pub fn get(&self, question: &str) -> Result<Value, String> {
        self.send("GET", question, b"")
    }

    /// A command of the Chrome DevTools Protocol.
    #[track_caller]
    pub fn devtools(&self, command: &str, parameters: &Value) {
        self.post("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }));
    }

    /// Entries of a log since this was last asked.
    #[track_caller]
    pub fn log(&self, kind: &str) -> Vec<Value> {
        match self.post("/se/log", &json!({ "type": kind })) {
            Value::Array(entries) => entries,
            other => panic!("log {kind} is no list: {other}"),
        }
    }

    fn send(&self, method: &str, command: &str, body: &[u8]) -> Result<Value, String> {
        let path = format!("{}{command}", self.session);
        let is_json = "Content-Type: application/json\r\n";
        let answer =
            http::request(self.address, method, &path, is_json, body).map_err(|error| error.to_string())?;
        let mut answered: Value =
            serde_json::from_slice(&answer.body).map_err(|error| format!("{error}: {}", answer.text()))?;
        let value = answered["value"].take();
        match answer.status {
            200 => Ok(value),
            _ => Err(format!("{}: {}", value["error"], value["message"])),
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Ends Chromium before its profile is removed. The test may fail because chromedriver has ended.
        let _ = self.send("DELETE", "", b"");
    }
}
