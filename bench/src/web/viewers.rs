//! Pages and streams, over plain sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// What viewers look at, in turn.
const WATCHED: [&str; 5] = ["/", "/queues", "/queues/q0000", "/queues/q0001", "/flows"];

/// A page that was read.
pub struct Page {
    pub took: Duration,
    /// Length of its HTML.
    pub bytes: usize,
}

/// Reads a page as a browser does that comes for the first time.
pub async fn fetch(address: SocketAddr, path: &str) -> Result<Page> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request(address, path, "text/html", "close").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let took = begun.elapsed();
    let text = String::from_utf8_lossy(&answer);
    ensure!(text.starts_with("HTTP/1.1 200"), "{path}: {:.80}", text);
    let (_, body) = text.split_once("\r\n\r\n").context("it has a head")?;
    Ok(Page { took, bytes: body.len() })
}

/// Asks for a change.
pub async fn post(address: SocketAddr, path: &str, token: &str, json: &str) -> Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{json}",
        json.len()
    );
    stream.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    ensure!(answer.starts_with(b"HTTP/1.1 200"), "{path}: {:.200}", String::from_utf8_lossy(&answer));
    Ok(())
}

fn request(address: SocketAddr, path: &str, accept: &str, connection: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: {accept}\r\nConnection: {connection}\r\n\r\n")
}

/// Live viewers; they go when dropped.
pub struct Viewers {
    events: Arc<AtomicU64>,
    readers: Vec<JoinHandle<()>>,
}

impl Viewers {
    pub async fn open(address: SocketAddr, count: usize) -> Result<Self> {
        let (events, mut readers) = (Arc::new(AtomicU64::new(0)), Vec::new());
        for path in WATCHED.iter().cycle().take(count) {
            let events = events.clone();
            let mut stream = watch(address, path).await?;
            readers.push(tokio::spawn(async move {
                while let Ok(count) = next_pages(&mut stream).await {
                    events.fetch_add(count, Ordering::Relaxed);
                }
            }));
        }
        Ok(Self { events, readers })
    }

    /// Pages that were sent to all of them so far.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }
}

impl Drop for Viewers {
    fn drop(&mut self) {
        self.readers.iter().for_each(JoinHandle::abort);
    }
}

/// Opens the stream of a page.
pub async fn watch(address: SocketAddr, path: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request(address, path, "text/event-stream", "keep-alive").as_bytes()).await?;
    Ok(stream)
}

/// Waits for the next data of a stream; the pages that begin in it.
async fn next_pages(stream: &mut TcpStream) -> Result<u64> {
    let mut buffer = vec![0; 64 << 10];
    let read = stream.read(&mut buffer).await?;
    ensure!(read > 0, "the stream has ended");
    let text = String::from_utf8_lossy(&buffer[..read]);
    Ok(text.matches("event: page").count() as u64)
}

/// Waits until a stream has sent this.
pub async fn wait_for(stream: &mut TcpStream, wanted: &str) -> Result<()> {
    let (mut seen, mut buffer) = (String::new(), vec![0; 64 << 10]);
    loop {
        let read = stream.read(&mut buffer).await?;
        ensure!(read > 0, "the stream has ended");
        seen.push_str(&String::from_utf8_lossy(&buffer[..read]));
        if seen.contains(wanted) {
            return Ok(());
        }
    }
}
