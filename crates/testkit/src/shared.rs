//! One ensemble for all tests of a binary.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::{Mutex, OnceLock};

use crate::chroot;
use crate::ensemble::Ensemble;

/// An ensemble that tests share. It has no verbs that other tests would notice; each test has its own
/// [`chroot`](Self::chroot), and its own faults behind a [`Proxy`](crate::Proxy).
pub struct Shared {
    addresses: Vec<SocketAddr>,
    /// The running servers. Statics are never dropped; guards clean up. The mutex, never locked, makes the field
    /// `Sync`.
    _held: Mutex<Box<dyn Any + Send>>,
}

/// The ensemble that `MENAGERIE_TEST_ENSEMBLE` names, started by the first test that asks and ended with the process,
/// however that ends. With the feature `in-process`, our own keeper runs within the process.
///
/// # Panics
/// If a prerequisite is not installed: a requested ensemble is never skipped.
pub fn ensemble() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| match Ensemble::from_env() {
        #[cfg(feature = "in-process")]
        Ensemble::Keeper => {
            let keeper = crate::in_process::InProcess::start();
            Shared::new(vec![keeper.address()], keeper)
        }
        other => {
            let servers = other.start_own();
            Shared::new(servers.addresses(), servers)
        }
    })
}

impl Shared {
    fn new(addresses: Vec<SocketAddr>, held: impl Send + 'static) -> Self {
        Self { addresses, _held: Mutex::new(Box::new(held)) }
    }

    /// `host:port[,host:port…]`.
    pub fn connect_string(&self) -> String {
        chroot::join(&self.addresses)
    }

    /// The connect string with a fresh chroot, `host:port[,…]/test-NNN-name`. The znode exists.
    ///
    /// # Panics
    /// If the name is not valid for a znode.
    #[track_caller]
    pub fn chroot(&self, name: &str) -> String {
        self.connect_string() + &self.fresh_path(name)
    }

    /// A fresh chroot alone, for clients that connect through a proxy: `format!("{}{path}", proxy.address())`.
    ///
    /// # Panics
    /// If the name is not valid for a znode.
    #[track_caller]
    pub fn fresh_path(&self, name: &str) -> String {
        chroot::create(self.addresses[0], name)
    }

    /// The servers' addresses: what a proxy forwards to.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}
