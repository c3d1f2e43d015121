//! An HTTP server, and a client that sends exactly the bytes a test wants.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use menagerie_kernel::Session;
use menagerie_queue_http::keyring::Application;
use menagerie_queue_http::keys::Hash;
use menagerie_queue_http::metrics::Metrics;
use menagerie_queue_http::receive::workers::ReceiveOptions;
use menagerie_queue_http::server::{BODY_BYTES_MAX, Server};
use menagerie_queue_http::service::{Options, Service};
use menagerie_queues::Journals;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::world::{JOURNAL, QUICK, World};

/// Keys of two applications.
pub const KEY: &str = "actionable-key-of-notes-app";
pub const OTHER_KEY: &str = "another-key-for-another-app";

pub struct Site {
    pub session: Session,
    pub address: SocketAddr,
    pub registry: Registry,
}

/// A reply, parsed just far enough.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        assert!(self.head.to_lowercase().contains("content-type: application/json"), "{}", self.head);
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn keys(&self) -> Vec<String> {
        keys(&self.json())
    }

    /// The reason in an error reply for this field.
    pub fn reason(&self, field: &str) -> String {
        let json = self.json();
        assert_eq!(json["status"], "error", "{json}");
        json["error_msg"][field].as_str().unwrap_or_else(|| panic!("{field} in {json}")).to_owned()
    }

    /// Bodies of the messages in the reply, in order.
    pub fn bodies(&self) -> Vec<String> {
        assert_eq!(self.code, 200, "{self:?}");
        let json = self.json();
        let body = |message: &Value| message["body"].as_str().unwrap_or_default().to_owned();
        json["messages"].as_array().unwrap().iter().map(body).collect()
    }
}

pub fn keys(value: &Value) -> Vec<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

impl Site {
    pub async fn new(world: &World) -> Self {
        Self::with(world, None).await
    }

    pub async fn with(world: &World, rate_limit: Option<u32>) -> Self {
        Self::start(world, world.journals(), Options { rate_limit, ..Options::default() }).await
    }

    /// A server with other journals than the world's.
    pub async fn over(world: &World, journals: Journals) -> Self {
        Self::start(world, journals, Options::default()).await
    }

    pub async fn start(world: &World, journals: Journals, options: Options) -> Self {
        Self::start_in(world.session().await, journals, options).await
    }

    /// A server with this session.
    pub async fn start_in(session: Session, journals: Journals, options: Options) -> Self {
        let application = |key| Application { keys: vec![Hash::of(key)], ..Application::default() };
        let applications = BTreeMap::from([
            ("notes".to_owned(), application(KEY)),
            ("other".to_owned(), application(OTHER_KEY)),
        ]);
        let receive = ReceiveOptions { settle: QUICK, ..options.receive };
        let options = Options { journal: Some(JOURNAL.to_owned()), applications, receive, ..options };
        let service = Service::new(&session, journals, options).await.unwrap();
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        let server = Server { service, metrics, access_log: None, body_bytes_max: BODY_BYTES_MAX };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // The task ends with the test's runtime.
        tokio::spawn(server.serve(listener, std::future::pending()));
        Self { session, address, registry }
    }

    /// Sends a request with these headers.
    pub async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        ask(self.address, method, path, headers, body).await
    }

    /// Sends a request as the application `notes`.
    pub async fn own(&self, method: &str, path: &str, body: &str) -> Answer {
        self.own_with(method, path, &[], body.as_bytes()).await
    }

    pub async fn own_with(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let authorization = format!("Application {KEY}");
        let mut all = vec![("Authorization", authorization.as_str())];
        all.extend(headers);
        self.ask(method, path, &all, body).await
    }

    /// Requests in flight.
    pub fn open_requests(&self) -> u64 {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        let value = |line: &str| line.strip_prefix("menagerie_queue_http_open_requests ")?.parse().ok();
        text.lines().find_map(value).unwrap()
    }

    /// Creates a queue.
    pub async fn queue(&self, form: &str) {
        assert_eq!(self.own("POST", "/v1/notes", form).await.code, 201);
    }

    /// Posts a message and returns its id.
    pub async fn post(&self, path: &str, partition: u16, body: &str) -> String {
        let number = partition.to_string();
        let answer = self.own_with("POST", path, &[("X-Partition", &number)], body.as_bytes()).await;
        assert_eq!(answer.code, 201, "{answer:?}");
        answer.json()["messages"][0]["key"].as_str().unwrap().to_owned()
    }
}

/// Sends these bytes and returns everything until the server closes.
pub async fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    // The server may close before it has read everything.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

pub async fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    try_ask(address, method, path, headers, body).await.unwrap()
}

pub async fn try_ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(address).await?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: queue\r\nConnection: close\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("Content-Length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body].concat()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let broken = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(broken)?;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(broken)?;
    Ok(Answer { code, head, body: answer[end + 4..].to_vec() })
}
