//! A viewer of a stream of live values.

use std::net::SocketAddr;
use std::time::Duration;

use menagerie_testkit::DEADLINE;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::client::{Answer, head};

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub name: String,
    pub id: Option<String>,
    pub data: String,
}

impl Event {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

/// An open stream.
pub struct Viewer {
    stream: BufReader<TcpStream>,
}

impl Viewer {
    /// Opens a stream as a process of this user; what is answered instead is the error.
    pub async fn try_open(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Result<Self, Answer> {
        let socket = TcpSocket::new_v4().unwrap();
        // Small buffers, so that a viewer that does not read is noticed early.
        socket.set_recv_buffer_size(16 << 10).unwrap();
        let mut stream = socket.connect(address).await.unwrap();
        // HTTP/1.0: the events come as they are, not in chunks.
        let head = head(address, &format!("GET {path} HTTP/1.0"), headers);
        let head = format!("{head}Accept: text/event-stream\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut viewer = Self { stream: BufReader::new(stream) };
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            let read = timeout(DEADLINE, viewer.stream.read_until(b'\n', &mut bytes)).await.unwrap();
            assert_ne!(read.unwrap(), 0, "the stream ended in its head: {bytes:?}");
        }
        let answer = Answer::of(&bytes).unwrap();
        if answer.code != 200 {
            let mut body = Vec::new();
            tokio::io::AsyncReadExt::read_to_end(&mut viewer.stream, &mut body).await.unwrap();
            return Err(Answer { body, ..answer });
        }
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        Ok(viewer)
    }

    pub async fn open(address: SocketAddr, path: &str) -> Self {
        Self::open_with(address, path, &[]).await
    }

    pub async fn open_with(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Self {
        Self::try_open(address, path, headers).await.unwrap_or_else(|answer| panic!("{answer:?}"))
    }

    /// Resumes after an event.
    pub async fn resume(address: SocketAddr, path: &str, id: &str) -> Self {
        Self::open_with(address, path, &[("Last-Event-ID", id)]).await
    }

    /// The next event; `None` if the stream has ended.
    pub async fn next(&mut self) -> Option<Event> {
        timeout(DEADLINE, self.read()).await.expect("an event comes, or the end")
    }

    /// The same, unless none comes within this time.
    pub async fn next_within(&mut self, patience: Duration) -> Option<Option<Event>> {
        timeout(patience, self.read()).await.ok()
    }

    /// The next event, which must have this name.
    pub async fn expect(&mut self, name: &str) -> Event {
        let event = self.next().await.expect("the stream goes on");
        assert_eq!(event.name, name, "{event:?}");
        event
    }

    async fn read(&mut self) -> Option<Event> {
        let mut event = Event { name: String::new(), id: None, data: String::new() };
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            let line = line.trim_end_matches('\n');
            match line.split_once(':') {
                Some(("event", name)) => event.name = name.trim_start().to_owned(),
                Some(("id", id)) => event.id = Some(id.trim_start().to_owned()),
                Some(("data", data)) => {
                    event.data += data.strip_prefix(' ').unwrap_or(data);
                    event.data.push('\n');
                }
                // `retry`, and comments.
                Some(_) => {}
                None if line.is_empty() && !event.name.is_empty() => {
                    event.data.pop();
                    return Some(event);
                }
                None => {}
            }
        }
    }
}
