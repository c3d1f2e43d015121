//! One ensemble for all tests of a binary.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::{Mutex, OnceLock};

use crate::chroot;
use crate::ensemble::Ensemble;

/// An ensemble that tests share. It has no verbs that others would notice; each test has its own
/// [`chroot`](Self::chroot), and faults of its own behind a [`Proxy`](crate::Proxy).
pub struct Shared {
    addresses: Vec<SocketAddr>,
    /// What runs. Nobody drops a static; it has guards. Behind a mutex because a static must be fit to be shared; it is
    /// never locked.
    _held: Mutex<Box<dyn Any + Send>>,
}

/// The ensemble that `MENAGERIE_TEST_ENSEMBLE` names, started by the first test that asks and ended with the process,
/// however that ends. Our own runs within the process if the feature `in-process` is there.
///
/// # Panics
/// If what it takes is not installed: what was asked for is never skipped.
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

    /// `host:port[,host:port…]`, as clients take it.
    pub fn connect_string(&self) -> String {
        chroot::join(&self.addresses)
    }

    /// The connect string with a fresh root behind it, `host:port[,…]/test-NNN-name`. The znode is there.
    ///
    /// # Panics
    /// If the name is not one of a znode.
    #[track_caller]
    pub fn chroot(&self, name: &str) -> String {
        self.connect_string() + &self.fresh_path(name)
    }

    /// That root alone, for who connects through a proxy: `format!("{}{path}", proxy.address())`.
    ///
    /// # Panics
    /// If the name is not one of a znode.
    #[track_caller]
    pub fn fresh_path(&self, name: &str) -> String {
        chroot::create(self.addresses[0], name)
    }

    /// Where clients find the servers; what a proxy forwards to.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}
