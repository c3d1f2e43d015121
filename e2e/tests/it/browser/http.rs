//! One HTTP request, on a connection of its own.

use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use menagerie_testkit::DEADLINE;

/// Longer than whoever answers waits for a page itself, and then says so.
const PATIENCE: Duration = DEADLINE.saturating_add(Duration::from_secs(30));

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Status line and header lines.
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of the first header line of this name, which is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Sends a request and reads the response. `headers` are complete lines; the
/// first may be another `Host`.
pub fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &[u8],
) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    let host = if headers.starts_with("Host:") { String::new() } else { format!("Host: {address}\r\n") };
    let head = format!(
        "{method} {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), body].concat())?;
    read(BufReader::new(stream))
}

fn read(mut stream: impl BufRead) -> io::Result<Answer> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or(io::ErrorKind::InvalidData)?;
    let mut answer = Answer { status, head, body: Vec::new() };
    // chromedriver keeps the connection open, whatever it is asked to do.
    match answer.header("content-length").and_then(|length| length.parse().ok()) {
        Some(length) => stream.take(length).read_to_end(&mut answer.body)?,
        None => stream.read_to_end(&mut answer.body)?,
    };
    Ok(answer)
}
