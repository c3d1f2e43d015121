//! A web server within the test, over a world with a journal.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Deref;

use menagerie_kernel::{Session, retry};
use menagerie_queues::Journals;
use menagerie_queues::task::Outcome;
use menagerie_slots::core::{Limits, Source};
use menagerie_slots::{Request, identity, poll};
use menagerie_web::access::token;
use menagerie_web::builds;
use menagerie_web::history::History;
use menagerie_web::metrics::Metrics;
use menagerie_web::server::{Options, Server};
use menagerie_web::sources::Sources;
use menagerie_znodes::flows::{Deployment, Plan};
use menagerie_znodes::web::{Grant, Rights};
use menagerie_znodes::{Name, Payload as _};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::{Answer, ask};
use crate::world::{Log, World, options};

/// A web server, and a token that may do everything.
pub struct Site {
    pub world: World,
    /// The session of the server.
    pub session: Session,
    pub server: Running,
    pub token: String,
}

/// A running server. It ends with the test's runtime.
pub struct Running {
    pub address: SocketAddr,
    pub stop: oneshot::Sender<()>,
    pub served: JoinHandle<std::io::Result<()>>,
}

impl Deref for Site {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl Site {
    pub async fn new(name: &str) -> Self {
        let world = World::new(name);
        let session = world.session().await;
        let server = start(&session, world.journals(), 100).await;
        Self::with(world, session, server).await
    }

    pub async fn with(world: World, session: Session, server: Running) -> Self {
        let token = create_token(&world.session().await, &["read", "submit", "operate", "admin"]).await;
        Self { world, session, server, token }
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// A request without any credentials.
    pub async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        ask(self.address(), method, path, headers, body).await
    }

    /// The same, with a token.
    pub async fn ask_as(
        &self,
        token: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let bearer = format!("Bearer {token}");
        let mut all = vec![("Authorization", bearer.as_str())];
        all.extend(headers);
        self.ask(method, path, &all, body).await
    }

    /// Reads below `/api/v1` with the token that may.
    pub async fn get(&self, path: &str) -> Answer {
        self.ask_as(&self.token, "GET", &format!("/api/v1{path}"), &[], b"").await
    }

    /// Changes something with the token that may.
    pub async fn post(&self, path: &str, body: &str) -> Answer {
        self.post_as(&self.token, path, body).await
    }

    pub async fn post_as(&self, token: &str, path: &str, body: &str) -> Answer {
        let json = [("Content-Type", "application/json")];
        self.ask_as(token, "POST", &format!("/api/v1{path}"), &json, body.as_bytes()).await
    }

    /// A page, as its viewer with all rights sees it.
    pub async fn page(&self, path: &str) -> Answer {
        let page = self.ask_as(&self.token, "GET", path, &[], b"").await;
        assert!(page.header("content-type").unwrap().starts_with("text/html"), "{path}: {page:?}");
        page
    }

    /// Every znode of the namespace, with its data and version.
    pub async fn znodes(&self) -> BTreeMap<String, (Vec<u8>, i32)> {
        let session = self.world.session().await;
        let term = session.term();
        let (mut found, mut left) = (BTreeMap::new(), vec!["/".to_owned()]);
        while let Some(path) = left.pop() {
            let (data, stat) = term.get(&path).await.unwrap();
            let children = term.children(&path).await.unwrap();
            left.extend(children.iter().map(|name| format!("{}/{name}", path.trim_end_matches('/'))));
            found.insert(path, (data.to_vec(), stat.version));
        }
        found
    }
}

/// Starts a server over these sources.
pub async fn start(session: &Session, journals: Journals, streams_max: usize) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let sources = Sources {
        session: session.clone(),
        journals,
        deployment: deployment(),
        servers: Vec::new(),
        speaks_words: true,
        git: None,
        builds: builds::Memory::default(),
        history: History::default(),
    };
    let metrics = Metrics::new(&mut Registry::default());
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async move {
        // A test that drops the sender has ended.
        if stopped.await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let options = Options { sources, address, is_tls: false, streams_max, metrics };
    let server = Server::new(options, stopped).await.unwrap();
    Running { address, stop, served: tokio::spawn(server.serve(listener)) }
}

pub fn deployment() -> Deployment {
    Deployment::new(Name::new("test").unwrap())
}

/// A token that may do this.
pub async fn create_token(session: &Session, grants: &[&str]) -> String {
    let rights: Rights = grants.iter().map(|grant| grant.parse::<Grant>().unwrap()).collect();
    let name = Name::new(grants.join("+").replace(':', "-")).unwrap();
    token::create(session, &name, rights, "a test").await.unwrap().0
}

impl Site {
    /// A pool of two slots, both held by clients without a process.
    pub async fn pool(&self, name: &str, holders: &[&str]) {
        let pool = name.parse().unwrap();
        menagerie_slots::admin::create(&self.session, &pool, 2, "a test").await.unwrap();
        for holder in holders {
            let limits = Limits { waiters: 100, per_source: 100 };
            let source = Source::of([127, 0, 0, 1].into());
            poll::ask(&self.session, &pool, &request(holder), &source, limits).await.unwrap();
        }
    }

    /// Puts messages that fail at once, and waits until all of them are failed ones.
    pub async fn fail(&self, queue: &str, bodies: &[&str], error: &str) {
        self.put_to(&self.session, &format!("{queue}-1"), bodies).await;
        let error = error.to_owned();
        let hopeless = Log::default().task_with("w1", move |_| Outcome::failed(error.clone()));
        let worker = self.world.start(&self.session, options("w1", &[queue]), hopeless);
        self.drained(&self.session, queue, 1).await;
        worker.finish().await;
    }

    /// A job that nobody has planned yet.
    pub async fn job(&self, id: &str, name: &str) {
        let (term, tree, id) = (self.session.term(), deployment(), id.parse().unwrap());
        for directory in tree.directories() {
            retry::ensure(&term, directory.path(), b"").await.unwrap();
        }
        let plan = Plan { job: json!({ "name": name }), submitted_ms: 1, kill: false, answer: None };
        retry::ensure(&term, tree.plan(&id).path(), &plan.encode()).await.unwrap();
    }
}

fn request(holder: &str) -> Request {
    Request {
        holder: holder.to_owned(),
        priority: 0,
        ephemeral: false,
        who: Some("a test".to_owned()),
        reason: Some(format!("because of {holder}")),
        command: Vec::new(),
        local: identity::local(),
        process: None,
        guard: None,
    }
}
