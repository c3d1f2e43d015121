//! Checks what a session gets: latency, time-out and rights.

use std::time::{Duration, Instant};

use menagerie_kernel::session::{IfLate, TreeEvent};
use menagerie_kernel::{CallError, Term, subtree};
use menagerie_znodes::{Kind, Name, kernel};

use super::access::{self, AccessFacts, Identity};
use super::finding::Findings;
use super::tree;
use crate::client::Client;
use crate::clock;
use crate::config::{self, Secret};

/// Calls per measurement; the median counts.
const SAMPLES: usize = 15;

/// A slower round trip is felt in every lock.
const ROUND_TRIP_SLOW: Duration = Duration::from_millis(20);
/// A slower write points, most often, to a disk that syncs slowly.
const WRITE_SLOW: Duration = Duration::from_millis(100);

/// Larger clock differences confuse readers of timestamps, and generations made on different machines.
const SKEW_MAX_MS: i64 = 1000;

/// Longest wait for a watch event.
const EVENT_PATIENCE: Duration = Duration::from_secs(5);

const READ_REMEDY: &str = "see `menagerie zk acl get`, and set zookeeper.auth to a user with access";

/// Runs all checks of a session.
pub async fn examine(client: &Client, findings: &mut Findings) {
    let term = client.term();
    timeout(client, &term, findings);
    if let Err(error) = round_trip(&term, findings).await {
        findings.fail("round trip", error.to_string(), "see the findings for each server above");
    }
    let namespace = client.namespace();
    match nearest(&term, namespace).await {
        Ok(Some(place)) => {
            let exists = place == namespace;
            if !exists {
                findings.warn(
                    "namespace",
                    format!("{namespace} does not exist yet; what follows was tried in {place}"),
                    "the first engine creates it; or choose another with --namespace",
                );
            } else {
                unfinished(&term, namespace, findings).await;
                tree::examine(&term, namespace, findings).await;
            }
            access(client, &term, exists, findings).await;
            if let Err(error) = write(&term, &place, findings).await {
                findings.fail("write", format!("cannot write below {place}: {error}"), READ_REMEDY);
            }
        }
        Ok(None) => findings.warn(
            "namespace",
            format!(
                "{}, the chroot given after the servers, does not exist: writes, the clock, watches and access were not tried",
                client.settings.servers.value.chroot()
            ),
            "correct --zookeeper, or create it; the first engine would create it too",
        ),
        Err(error) => findings.fail("namespace", format!("{namespace}: {error}"), READ_REMEDY),
    }
}

/// The namespace, or its nearest existing ancestor if nobody has created it yet.
async fn nearest(term: &Term, namespace: &str) -> Result<Option<String>, CallError> {
    let mut place = namespace;
    loop {
        if term.stat(place).await?.is_some() {
            return Ok(Some(place.to_owned()));
        }
        place = match place.rsplit_once('/') {
            None | Some(("", "")) => return Ok(None),
            Some(("", _)) => "/",
            Some((above, _)) => above,
        };
    }
}

fn timeout(client: &Client, term: &Term, findings: &mut Findings) {
    let (asked, granted) = (client.settings.session_timeout.value, term.timeout());
    let finding = format!("asked for {} ms, granted {} ms", asked.as_millis(), granted.as_millis());
    if granted == asked {
        findings.ok("session time-out", finding);
    } else {
        findings.warn(
            "session time-out",
            finding,
            "set zookeeper.session_timeout within the server's limits, or change minSessionTimeout, maxSessionTimeout there",
        );
    }
}

async fn round_trip(term: &Term, findings: &mut Findings) -> Result<(), CallError> {
    let took = median(async || term.stat("/").await.map(drop)).await?;
    let finding = format!("{:.2} ms", took.as_secs_f64() * 1000.0);
    if took < ROUND_TRIP_SLOW {
        findings.ok("round trip", finding);
    } else {
        findings.warn("round trip", finding, "run closer to the servers, or find out what keeps them busy");
    }
    Ok(())
}

async fn unfinished(term: &Term, namespace: &str, findings: &mut Findings) {
    let note = subtree::join(namespace, kernel::importing().path().trim_start_matches('/'));
    if let Ok(Some(stat)) = term.stat(&note).await {
        findings.fail(
            "import",
            format!("an import into {namespace} began {} and is not finished", clock::utc(stat.ctime_ms)),
            "run `menagerie zk import` again with the same file",
        );
    }
}

async fn access(client: &Client, term: &Term, exists: bool, findings: &mut Findings) {
    let (namespace, settings) = (client.namespace(), &client.settings);
    let list = match exists {
        false => None,
        true => match term.access(namespace).await {
            Ok((list, _)) => Some(list),
            Err(error @ CallError::Denied { .. }) => {
                return findings.fail("access", format!("{namespace} is closed to us: {error}"), READ_REMEDY);
            }
            Err(error) => return findings.warn("access", format!("{namespace}: {error}"), READ_REMEDY),
        },
    };
    // Unreadable credentials were reported before; we could not have connected with them.
    let credentials = config::credentials(settings).unwrap_or_default();
    let user = credentials.digest.as_ref().and_then(|Secret(digest)| digest.split(':').next());
    let identity = match (user, &settings.tls_cert) {
        (Some(user), _) => Identity::User(user),
        (None, Some(_)) => Identity::Certified,
        (None, None) => Identity::Anonymous,
    };
    let loopback = settings.servers.value.is_loopback();
    access::judge(AccessFacts { namespace, list: list.as_deref(), identity, loopback }, findings);
}

/// Writes to an ephemeral znode of our own.
async fn write(term: &Term, namespace: &str, findings: &mut Findings) -> Result<(), CallError> {
    let id = Name::new(format!("{:x}", term.session_id())).expect("hexadecimal digits are a name");
    let path = subtree::join(namespace, kernel::doctor(&id).path().trim_start_matches('/'));
    let before = clock::now_ms();
    let created = term.create(&path, b"", Kind::Ephemeral, IfLate::Undo).await?;
    skew(created.stat.ctime_ms, before, clock::now_ms(), findings);
    let took = median(async || term.set(&path, b"how long does this take?", None).await.map(drop)).await?;
    let finding = format!("{:.2} ms", took.as_secs_f64() * 1000.0);
    if took < WRITE_SLOW {
        findings.ok("write", finding);
    } else {
        findings.warn("write", finding, "give the servers' log a disk of its own that syncs fast");
    }
    watch(term, &path, findings).await?;
    term.delete(&path, None).await
}

/// The server's time must lie between our clock before and after the call.
fn skew(theirs: i64, before: i64, after: i64, findings: &mut Findings) {
    let skew = if theirs < before { theirs - before } else { (theirs - after).max(0) };
    let finding = format!("{skew:+} ms at the server, to within {} ms", after - before);
    if skew.abs() <= SKEW_MAX_MS {
        findings.ok("clock", finding);
    } else {
        findings.warn("clock", finding, "run NTP on both machines");
    }
}

async fn watch(term: &Term, path: &str, findings: &mut Findings) -> Result<(), CallError> {
    let remedy = "use ZooKeeper 3.6 or later: caches need persistent recursive watches";
    let mut watch = match term.watch_tree(path).await {
        Ok(watch) => watch,
        Err(error @ CallError::Refused { .. }) => {
            findings.fail("watches", error.to_string(), remedy);
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let began = Instant::now();
    term.set(path, b"do you see this?", None).await?;
    match tokio::time::timeout(EVENT_PATIENCE, watch.next()).await {
        Ok(TreeEvent::At(..)) => {
            let took = began.elapsed().as_secs_f64() * 1000.0;
            findings.ok(
                "watches",
                format!("persistent and recursive; an event within {took:.2} ms of the write"),
            );
        }
        _ => findings.fail("watches", "a watch was set, and no event came", remedy),
    }
    Ok(())
}

async fn median(mut call: impl AsyncFnMut() -> Result<(), CallError>) -> Result<Duration, CallError> {
    let mut times = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let began = Instant::now();
        call().await?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    Ok(times[SAMPLES / 2])
}

#[cfg(test)]
mod tests {
    use super::super::finding::Health;
    use super::*;

    #[test]
    fn clocks_are_judged_by_what_is_certain() {
        for (theirs, health) in
            [(100, Health::Ok), (150, Health::Ok), (2000, Health::Warn), (-1500, Health::Warn)]
        {
            let mut findings = Findings::default();
            skew(theirs, 100, 200, &mut findings);
            assert_eq!(findings.count(health), 1, "{theirs}: {findings:?}");
        }
    }
}
