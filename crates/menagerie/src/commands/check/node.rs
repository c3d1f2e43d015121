//! `menagerie check node PATH`: does it exist, what does it hold, how old is it?

use clap::Args;
use menagerie_kernel::session::Stat;
use serde_json::Value;

use super::report::{Perf, Report, State, Thresholds};
use super::thresholds::AgeArgs;
use crate::client::Client;
use crate::commands::zk::path;
use crate::exit::{CliError, cannot};
use crate::{clock, durations};

/// Service name in the plugin's output.
pub const SERVICE: &str = "NODE";

/// How much of the data the line shows: it should fit a pager.
const DATA_SHOWN_MAX: usize = 40;

/// Check a znode: whether it exists, what it holds, and its age.
#[derive(Debug, Args)]
pub struct Node {
    #[command(flatten)]
    path: PathArgs,
    #[command(flatten)]
    age: AgeArgs,
    /// Measure the age from the last change of the data, not from creation.
    #[arg(long)]
    changed: bool,
    /// Critical if the znode does not exist; without this, a missing znode is OK, as for a free slot.
    #[arg(long)]
    must_exist: bool,
}

/// Plugins have named arguments; people do not like them.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct PathArgs {
    /// Znode to check; a full path from the ensemble's root.
    #[arg(value_parser = path::parse, value_name = "PATH")]
    path: Option<String>,
    /// Same as PATH.
    #[arg(long = "path", value_parser = path::parse, value_name = "PATH")]
    named: Option<String>,
}

#[derive(Debug)]
struct Facts<'a> {
    path: &'a str,
    /// Data and stat, if the znode exists.
    found: Option<(&'a [u8], Stat)>,
    changed: bool,
    must_exist: bool,
    thresholds: Thresholds,
    now_ms: i64,
}

impl Node {
    /// Reads the znode and judges it.
    pub async fn inspect(&self, client: &Client) -> Result<Report, CliError> {
        let path = self.path.path.as_ref().or(self.path.named.as_ref()).map_or("/", String::as_str);
        let term = client.term();
        // Our server may lag behind: without a sync we might page somebody for a problem long solved.
        let found = match term.sync(path).await {
            Ok(()) => term.get(path).await,
            Err(error) => Err(error),
        };
        let found = match found {
            Ok(found) => Some(found),
            Err(error) if error.is_no_znode() => {
                client.require_root().await?;
                None
            }
            Err(error) => return Err(cannot(format!("read {path}"))(error)),
        };
        let found = found.as_ref().map(|(data, stat)| (data.as_slice(), *stat));
        let (changed, must_exist, thresholds) = (self.changed, self.must_exist, self.age.thresholds());
        Ok(judge(&Facts { path, found, changed, must_exist, thresholds, now_ms: clock::now_ms() }))
    }
}

fn judge(facts: &Facts<'_>) -> Report {
    let Facts { path, thresholds, .. } = *facts;
    let perf = |age: Option<f64>, bytes: Option<f64>| {
        let age = Perf { thresholds, ..Perf::new("age", age, "s") };
        vec![age, Perf::new("bytes", bytes, "B")]
    };
    let Some((data, stat)) = facts.found else {
        let state = if facts.must_exist { State::Critical } else { State::Ok };
        let mut report = Report::new(SERVICE, state, format!("{path} does not exist"));
        report.perf = perf(None, None);
        return report;
    };
    let since_ms = if facts.changed { stat.mtime_ms } else { stat.ctime_ms };
    let age_s = facts.now_ms.saturating_sub(since_ms).max(0) / 1000;
    let state = thresholds.judge(age_s as f64);
    let age = durations::precise(std::time::Duration::from_secs(age_s.unsigned_abs()));
    let kind = if stat.ephemeral_owner != 0 { ", ephemeral" } else { "" };
    let verb = if facts.changed { "unchanged for" } else { "there for" };
    let description = describe_data(data);
    let mut report = Report::new(SERVICE, state, format!("{description}: {path} {verb} {age}{kind}"));
    report.perf = perf(Some(age_s as f64), Some(data.len() as f64));
    report.detail(
        1,
        format!(
            "created {}, changed {}, version {}, children {}",
            clock::utc(stat.ctime_ms),
            clock::utc(stat.mtime_ms),
            stat.version,
            stat.children
        ),
    );
    if stat.ephemeral_owner != 0 {
        report.detail(1, format!("lives with session {:#x}", stat.ephemeral_owner));
    }
    report.detail(3, format!("data: {}", String::from_utf8_lossy(data)));
    report
}

/// Describes the data: the holder's name if it has one, else the beginning of the text.
fn describe_data(data: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(data) else { return format!("{} bytes", data.len()) };
    let object: Value = serde_json::from_str(text).unwrap_or_default();
    let word = |key: &str| object.get(key).and_then(Value::as_str).filter(|word| !word.is_empty());
    let holder = word("holder").or(word("name"));
    let host = word("host").or(word("hostname"));
    let shown = match (holder, host) {
        (Some(holder), Some(host)) if holder != host => format!("{holder} on {host}"),
        (Some(name), _) | (None, Some(name)) => name.to_owned(),
        (None, None) => text.lines().next().unwrap_or_default().trim().to_owned(),
    };
    match shown.char_indices().nth(DATA_SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None if shown.is_empty() => "no data".to_owned(),
        None => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::super::range::{Range, number};
    use super::*;

    const STAT: Stat = Stat {
        czxid: 1,
        mzxid: 1,
        pzxid: 1,
        ctime_ms: 1_000_000,
        mtime_ms: 91_000_000,
        version: 0,
        cversion: 0,
        aversion: 0,
        ephemeral_owner: 0,
        data_length: 5,
        children: 0,
    };

    fn facts(found: Option<(&[u8], Stat)>) -> Facts<'_> {
        let range = |text| Some(Range::parse(text, number).unwrap());
        let thresholds = Thresholds { warning: range("86400"), critical: range("172800") };
        let now_ms = 1_000_000 + 100_000_000;
        Facts { path: "/lock1", found, changed: false, must_exist: false, thresholds, now_ms }
    }

    #[test]
    fn age_counts_from_creation_or_from_the_last_change() {
        let old = judge(&facts(Some((b"host7", STAT))));
        assert_eq!(
            old.render(0),
            "NODE WARNING - host7: /lock1 there for 1d 3h | 'age'=100000s;86400;172800;0 'bytes'=5B;;;0\n"
        );
        let changed = judge(&Facts { changed: true, ..facts(Some((b"host7", STAT))) });
        assert_eq!((changed.state, changed.text.as_str()), (State::Ok, "host7: /lock1 unchanged for 2h 46m"));
        let later = judge(&Facts { now_ms: 1_000_000_000, ..facts(Some((b"host7", STAT))) });
        assert_eq!(later.state, State::Critical);
        let ahead = judge(&Facts { now_ms: 0, ..facts(Some((b"", Stat { ephemeral_owner: 7, ..STAT }))) });
        assert_eq!(
            (ahead.state, ahead.text.as_str()),
            (State::Ok, "no data: /lock1 there for 0s, ephemeral")
        );
    }

    #[test]
    fn absence_is_well_unless_it_must_exist() {
        let absent = judge(&facts(None));
        assert_eq!(
            absent.render(0),
            "NODE OK - /lock1 does not exist | 'age'=U;86400;172800;0 'bytes'=U;;;0\n"
        );
        assert_eq!(judge(&Facts { must_exist: true, ..facts(None) }).state, State::Critical);
    }

    #[test]
    fn holder_is_told_by_name() {
        for (data, shown) in [
            (&b"host7\nmore"[..], "host7"),
            (br#"{"holder":"db-7","host":"host7","pid":1}"#, "db-7 on host7"),
            (br#"{"holder":"host7","host":"host7"}"#, "host7"),
            (br#"{"hostname":"web-1","state":"running"}"#, "web-1"),
            (br#"{"a":1}"#, r#"{"a":1}"#),
            (b"\xff\xfe", "2 bytes"),
            (b"", "no data"),
        ] {
            assert_eq!(describe_data(data), shown);
        }
        assert_eq!(describe_data("é".repeat(100).as_bytes()).chars().count(), DATA_SHOWN_MAX + 1);
    }
}
