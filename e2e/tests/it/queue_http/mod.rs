//! Queues over HTTP, through the binary.

mod commands;
mod draining;
mod outage;
mod receiving;
#[cfg(feature = "python")]
mod schema;
mod storm;
mod thousand;
mod tls;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use menagerie_testkit::Daemon;
use serde_json::Value;

use crate::cli::User;

/// Generous, even for a busy machine.
const LONG: Duration = Duration::from_secs(60);

pub struct Server {
    pub process: Daemon,
    pub address: SocketAddr,
}

impl Server {
    pub fn start(user: &User, more: &[&str]) -> Self {
        let process = user.serve(&[&["queue", "serve", "--log-level", "warn"], more].concat());
        let address = process.address();
        Self { process, address }
    }

    pub fn ask(&self, key: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
        Client::open(self.address, key)
            .and_then(|mut client| client.ask(method, path, "", body))
            .expect("it answers")
    }
}

/// A keep-alive connection.
pub struct Client<S = TcpStream> {
    stream: S,
    key: String,
}

fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LONG))?;
    Ok(stream)
}

impl Client {
    pub fn open(address: SocketAddr, key: &str) -> std::io::Result<Self> {
        Ok(Self { stream: connect(address)?, key: key.to_owned() })
    }
}

impl<S: Read + Write> Client<S> {
    pub fn over(stream: S, key: &str) -> Self {
        Self { stream, key: key.to_owned() }
    }

    /// `headers`: complete lines.
    pub fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> std::io::Result<(u16, Value)> {
        self.send(method, path, headers, body)?;
        self.answer()
    }

    /// Sends a request without waiting for the response.
    pub fn send(&mut self, method: &str, path: &str, headers: &str, body: &str) -> std::io::Result<()> {
        let authorization = match self.key.as_str() {
            "" => String::new(),
            key => format!("Authorization: Application {key}\r\n"),
        };
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: queue\r\n{authorization}{headers}Content-Length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(request.as_bytes())?;
        self.stream.flush()
    }

    /// The response to the last request.
    pub fn answer(&mut self) -> std::io::Result<(u16, Value)> {
        let broken = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let mut answer = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&answer).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let field = |name: &str| {
                    head.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<usize>().ok())
                };
                let length = field("content-length:").ok_or_else(broken)?;
                if body.len() >= length {
                    let code =
                        head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(broken)?;
                    return Ok((code, serde_json::from_str(body).unwrap_or(Value::Null)));
                }
            }
            let mut buffer = [0; 16 << 10];
            match self.stream.read(&mut buffer)? {
                0 => return Err(broken()),
                read => answer.extend_from_slice(&buffer[..read]),
            }
        }
    }
}
