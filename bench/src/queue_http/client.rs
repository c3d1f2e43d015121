//! A cheap client: it writes prepared requests, and parses as little of the responses as it needs.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A keep-alive connection.
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A request as bytes on the wire.
pub fn request(method: &str, path: &str, key: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Application {key}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

impl Client {
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("cannot reach {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(64 << 10) })
    }

    /// Sends a request, expects this status code and returns the body.
    pub async fn ask(&mut self, request: &[u8], code: &[u8; 3]) -> Result<&[u8]> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("the connection was closed");
            }
            let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            let head = std::str::from_utf8(&self.buffer[..end])?;
            let length = |line: &str| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
            };
            let length = head.lines().find_map(length).context("an answer without a length")?;
            let whole = end + 4 + length;
            if self.buffer.get(9..12) != Some(code) {
                bail!("{}", String::from_utf8_lossy(&self.buffer));
            }
            while self.buffer.len() < whole {
                if self.stream.read_buf(&mut self.buffer).await? == 0 {
                    bail!("the connection was closed");
                }
            }
            return Ok(&self.buffer[end + 4..whole]);
        }
    }
}
