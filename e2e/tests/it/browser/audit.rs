//! What is wrong with a page.

use std::env;
use std::fmt;
use std::fs;

use serde_json::{Value, json};

use super::chrome::{Browser, Scheme};

/// A finding of axe-core that keeps somebody from using the page.
#[derive(Debug)]
pub struct Violation {
    pub rule: String,
    /// `serious` or `critical`.
    pub impact: String,
    /// What to do, and where.
    pub details: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, impact, details } = self;
        write!(f, "axe: {rule} ({impact}): {details}")
    }
}

/// Impacts of which none is tolerated.
const GRAVE: [&str; 2] = ["serious", "critical"];

/// Runs axe-core, and returns little of what it finds.
const AXE: &str = "
return axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.map(one => ({
    rule: one.id,
    impact: one.impact,
    help: one.help,
    nodes: one.nodes.slice(0, 5).map(node => node.target.join(' ') + ': ' + node.failureSummary),
})))
";

impl Browser {
    /// What axe-core finds in the page that is serious or critical.
    ///
    /// # Panics
    /// If axe-core is not there: a check that was asked for is never skipped.
    #[track_caller]
    pub fn axe(&self) -> Vec<Violation> {
        if !self.holds("window.axe", json!([])) {
            self.run(&axe_core(), json!([]));
        }
        let found = self.run(AXE, json!([]));
        let found = found.as_array().unwrap_or_else(|| panic!("axe finds {found}"));
        found.iter().map(violation).filter(|one| GRAVE.contains(&one.impact.as_str())).collect()
    }

    /// Whether the page is wider than the window. A phone would zoom out instead, so the width after that counts, too.
    #[track_caller]
    pub fn has_horizontal_scroll(&self) -> bool {
        let wider = "Math.max(document.documentElement.scrollWidth, innerWidth) > screen.width || document.documentElement.scrollWidth > document.documentElement.clientWidth";
        self.holds(wider, json!([]))
    }

    /// Errors in the console since this was last asked, failed loads and violations of the content security policy among
    /// them.
    #[track_caller]
    pub fn console_errors(&self) -> Vec<String> {
        let severe = self.driver.log("browser").into_iter().filter(|entry| entry["level"] == "SEVERE");
        severe.filter_map(|entry| entry["message"].as_str().map(str::to_owned)).collect()
    }

    /// URLs that pages have requested since this was last asked.
    #[track_caller]
    pub fn requested_urls(&self) -> Vec<String> {
        self.driver.log("performance").iter().filter_map(requested_url).collect()
    }

    /// Those of them that are not the server's.
    #[track_caller]
    pub fn strayed(&self) -> Vec<String> {
        let own = [format!("{}/", self.origin()), "data:".to_owned(), "blob:".to_owned()];
        let urls = self.requested_urls().into_iter();
        urls.filter(|url| !own.iter().any(|own| url.starts_with(own))).collect()
    }

    /// All that is wrong with the page as it is shown now, a line each.
    #[track_caller]
    pub fn faults(&self, scheme: Scheme) -> Vec<String> {
        let mut faults: Vec<String> = self.axe().iter().map(Violation::to_string).collect();
        if self.has_horizontal_scroll() {
            faults.push(format!("wider than the window: {}", self.widest()));
        }
        let strayed = self.strayed().into_iter().map(|url| format!("requests {url}"));
        faults.extend(
            strayed.chain(self.console_errors().into_iter().map(|error| format!("console: {error}"))),
        );
        let place = format!("{} {scheme:?}", self.path());
        faults.into_iter().map(|fault| format!("{place}: {fault}")).collect()
    }

    /// Elements that stick out.
    fn widest(&self) -> Value {
        let script = "
            const edge = document.documentElement.clientWidth;
            const out = [...document.body.querySelectorAll('*')].filter(one => one.getBoundingClientRect().right > edge + 0.5);
            return out.slice(0, 5).map(one => one.outerHTML.slice(0, 80) + ' ends at ' + one.getBoundingClientRect().right)";
        self.run(script, json!([]))
    }
}

fn violation(found: &Value) -> Violation {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let nodes: Vec<String> = found["nodes"].as_array().into_iter().flatten().map(text).collect();
    Violation {
        rule: text(&found["rule"]),
        impact: text(&found["impact"]),
        details: format!("{}: {}", text(&found["help"]), nodes.join("; ")),
    }
}

/// The URL of an event of the network.
fn requested_url(entry: &Value) -> Option<String> {
    let event: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
    let event = &event["message"];
    let url = match event["method"].as_str()? {
        "Network.requestWillBeSent" => &event["params"]["request"]["url"],
        "Network.webSocketCreated" => &event["params"]["url"],
        _ => return None,
    };
    url.as_str().map(str::to_owned)
}

/// The source of axe-core.
fn axe_core() -> String {
    let path = env::var_os("AXE_CORE").expect("AXE_CORE names axe.min.js: `cargo xtask test` installs it");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("AXE_CORE, {}: {error}", path.display()))
}
