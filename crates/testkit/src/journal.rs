//! A journal on threads of the test.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use menagerie_journal::client::{Address, Client};
use menagerie_journal::server::{Listen, Server};
use menagerie_journal::token::Token;
use menagerie_journal::{Config, Metrics, Store};
use prometheus_client::registry::Registry;
use tempfile::TempDir;

use crate::ports::free_port;

/// A journal with a folder of its own within the test's process, and its server for clients over the network. It can
/// go away and come back, but only a process can be killed or paused: see `world.serve(&["journal"])`.
pub struct LocalJournal {
    /// Declared, and so dropped, before the store that it serves.
    server: Option<Server>,
    /// `None` only while it is reopened.
    store: Option<Store>,
    /// Its address, whether it is served or not.
    address: SocketAddr,
    folder: TempDir,
}

impl LocalJournal {
    /// An empty journal that is not served yet.
    ///
    /// # Panics
    /// If it cannot be opened.
    #[expect(clippy::new_without_default, reason = "it makes a directory, which nobody expects of a default")]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        // A port chosen by the server could be given to another process while it is away.
        let address = (Ipv4Addr::LOCALHOST, free_port()).into();
        let store = Some(open(&data(&folder)));
        Self { server: None, store, address, folder }
    }

    /// The journal itself, for callers in this process. A [`restart`](Self::restart) invalidates clones.
    pub fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open unless it is just opened again")
    }

    /// Its data folder.
    pub fn folder(&self) -> PathBuf {
        data(&self.folder)
    }

    /// Serves it until [`stop_serving`](Self::stop_serving), always on the same port; no effect if it is served.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn serve(&mut self) {
        let listen = Listen { address: self.address, tls: None, connections_max: None };
        if self.server.is_none() {
            match Server::start(self.store().clone(), &listen) {
                Ok(server) => self.server = Some(server),
                Err(failure) => panic!("the journal cannot be served: {failure}; {}", failure.help()),
            }
        }
    }

    /// Closes all connections and accepts none, as if its host were down; the store goes on.
    pub fn stop_serving(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
    }

    /// A client over the network, valid across restarts.
    ///
    /// # Panics
    /// If it was never served, so that there is no token yet.
    pub fn client(&self) -> Client {
        let token = Token::read(&self.token_file()).expect("there is a token once it was served");
        Client::new(Address::plain(self.address.to_string(), token))
    }

    /// Where it is served.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Path of its token, which exists once it was served.
    pub fn token_file(&self) -> PathBuf {
        self.folder().join("token")
    }

    /// Closes and reopens it on the same data; if it was served, on the same port.
    ///
    /// # Panics
    /// If it had failed, or somebody still has a clone of the store.
    pub fn restart(&mut self) {
        let was_served = self.server.is_some();
        self.stop_serving();
        let store = self.store.take().expect("it is open unless it is just opened again");
        if let Err(error) = store.close() {
            panic!("the journal had failed: {error}");
        }
        // The store keeps the folder locked.
        drop(store);
        self.store = Some(open(&self.folder()));
        if was_served {
            self.serve();
        }
    }
}

fn data(folder: &TempDir) -> PathBuf {
    folder.path().join("journal")
}

fn open(data: &Path) -> Store {
    match Store::open(Config::new(data.to_owned()), Metrics::new(&mut Registry::default())) {
        Ok(store) => store,
        Err(error) => panic!("the journal cannot be opened: {error}; {}", error.help()),
    }
}
