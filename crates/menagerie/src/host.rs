//! The full name of this host: how others reach it, and the prefix of its workers' names.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use dns_lookup::{AddrInfoHints, getaddrinfo};

use crate::who::this_host;

/// Flag of getaddrinfo: return the canonical name.
const AI_CANONNAME: i32 = 2;
/// Longest wait for a slow resolver.
const PATIENCE: Duration = Duration::from_secs(2);

/// This host's name, with its domain if the resolver knows it.
pub fn full_name() -> String {
    let host = this_host();
    if host.contains('.') {
        return host;
    }
    let (tell, answers) = mpsc::channel();
    let asked = host.clone();
    let ask = move || {
        // The caller may have stopped waiting.
        let _ = tell.send(resolve(&asked));
    };
    let begun = thread::Builder::new().name("resolver".to_owned()).spawn(ask);
    let found = begun.ok().and_then(|_| answers.recv_timeout(PATIENCE).ok()?);
    found.filter(|name| is_full_name_of(name, &host)).unwrap_or(host)
}

fn resolve(host: &str) -> Option<String> {
    let hints = AddrInfoHints { flags: AI_CANONNAME, ..AddrInfoHints::default() };
    getaddrinfo(Some(host), None, Some(hints)).ok()?.find_map(|found| found.ok()?.canonname)
}

/// Many hosts are called `localhost.localdomain` or the like: such a name identifies none.
fn is_full_name_of(name: &str, host: &str) -> bool {
    name.strip_prefix(host).is_some_and(|domain| domain.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_host_itself_has_its_full_name() {
        assert!(is_full_name_of("db1.example.org", "db1"));
        for other in ["db1", "db10.example.org", "localhost.localdomain", ""] {
            assert!(!is_full_name_of(other, "db1"), "{other}");
        }
    }
}
