//! The configuration of a session.

use std::time::Duration;

/// How long the server keeps a silent session, unless told otherwise. Long enough for a leader election and a long pause
/// of a virtual machine; work under a lease ends before it.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// Default limit on calls in flight: the client itself has none, and a server throttles clients that flood it.
const IN_FLIGHT_MAX: usize = 512;

/// Whether a session may own anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// It may hold locks and the like: it creates the namespace if that is missing, and runs the lease clock.
    Owner,
    /// It holds nothing: it runs no lease clock, and writes nothing on its own account.
    Observer,
}

/// Credentials for the ensemble. With them, only our user may access what we create.
#[derive(Clone, PartialEq, Eq)]
pub struct Auth {
    /// `user:password`, as digest authentication takes it.
    pub digest: String,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Auth(hidden)")
    }
}

/// Encryption of the connection; all PEM.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// Certificates of the authorities that we trust.
    pub ca: String,
    /// Our certificate and key, for mutual TLS.
    pub identity: Option<(String, String)>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("mutual", &self.identity.is_some()).finish_non_exhaustive()
    }
}

/// How to reach the ensemble, and as whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `host:port,host:port[/chroot]`.
    pub servers: String,
    /// The path that is our root; `/` for the whole tree. It is appended to the chroot of `servers`.
    pub namespace: String,
    /// Whether this session may own anything.
    pub rights: Rights,
    /// The session time-out to ask for; the server may grant another.
    pub timeout: Duration,
    /// How long a call may take before its outcome is unknown.
    pub call_timeout: Duration,
    /// Calls in flight at once.
    pub in_flight_max: usize,
    /// Our user; without one, everybody may access what we create.
    pub auth: Option<Auth>,
    /// TLS; `None`: plain text.
    pub tls: Option<Tls>,
}

impl Config {
    /// An owner with the usual settings.
    pub fn new(servers: impl Into<String>, namespace: impl Into<String>) -> Self {
        Self {
            servers: servers.into(),
            namespace: namespace.into(),
            rights: Rights::Owner,
            timeout: TIMEOUT,
            call_timeout: TIMEOUT,
            in_flight_max: IN_FLIGHT_MAX,
            auth: None,
            tls: None,
        }
    }
}

impl Config {
    /// The servers without the optional chroot.
    pub(super) fn hosts(&self) -> &str {
        self.servers.split_once('/').map_or(self.servers.as_str(), |(hosts, _)| hosts)
    }

    /// The path of our root in the ensemble's tree.
    pub(super) fn root(&self) -> String {
        let chroot = self.servers.split_once('/').map_or("", |(_, chroot)| chroot);
        let parts = chroot.split('/').chain(self.namespace.split('/')).filter(|part| !part.is_empty());
        let root: String = parts.flat_map(|part| ["/", part]).collect();
        if root.is_empty() { "/".to_owned() } else { root }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_comes_behind_the_chroot_of_the_servers() {
        for (servers, namespace, hosts, root) in [
            ("a:1,b:2", "/menagerie", "a:1,b:2", "/menagerie"),
            ("a:1,b:2/prod", "/menagerie", "a:1,b:2", "/prod/menagerie"),
            ("a:1/prod/", "/", "a:1", "/prod"),
            ("a:1", "/", "a:1", "/"),
        ] {
            let config = Config::new(servers, namespace);
            assert_eq!((config.hosts(), config.root().as_str()), (hosts, root));
        }
    }

    #[test]
    fn secrets_do_not_show() {
        let mut config = Config::new("a:1", "/");
        config.auth = Some(Auth { digest: "me:hush".to_owned() });
        config.tls =
            Some(Tls { ca: "ca".to_owned(), identity: Some(("certificate".to_owned(), "hush".to_owned())) });
        assert!(!format!("{config:?}").contains("hush"));
    }
}
