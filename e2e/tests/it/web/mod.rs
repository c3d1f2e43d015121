//! The web interface through the binary: REST, live values and pages. In a browser: `browser/`.

mod commands;
mod demo;
mod own_token;
#[cfg(feature = "python")]
mod schema;
mod serving;
mod tls;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use menagerie_testkit::Daemon;
use serde_json::Value;

use crate::cli::User;

/// Generous, even for a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    /// Status line and header lines.
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// What a request that was answered as asked has brought.
    #[track_caller]
    pub fn value(&self) -> Value {
        assert_eq!(self.code, 200, "{}{}", self.head, self.text());
        self.json()
    }
}

/// `menagerie web`, on a port that stays its own while it is down.
pub struct Web {
    pub process: Daemon,
    pub address: SocketAddr,
}

impl Web {
    pub fn start(user: &User, more: &[&str]) -> Self {
        let process = user.serve(&[&["web", "--log-level", "warn"], more].concat());
        let address = process.address();
        Self { process, address }
    }

    /// Reads below `/api/v1`.
    pub fn get(&self, token: &str, path: &str) -> Answer {
        self.try_get(token, path).expect("it answers")
    }

    pub fn try_get(&self, token: &str, path: &str) -> io::Result<Answer> {
        ask(connect(self.address)?, "GET", &format!("/api/v1{path}"), token, "")
    }

    /// Changes something.
    pub fn post(&self, token: &str, path: &str, body: &str) -> Answer {
        post(self.address, token, path, body)
    }

    /// A page, as a process of this user sees it without a token.
    pub fn page(&self, path: &str) -> Answer {
        page(self.address, path)
    }
}

pub fn post(address: SocketAddr, token: &str, path: &str, body: &str) -> Answer {
    let stream = connect(address).expect("it listens");
    ask(stream, "POST", &format!("/api/v1{path}"), token, body).expect("it answers")
}

pub fn page(address: SocketAddr, path: &str) -> Answer {
    ask(connect(address).expect("it listens"), "GET", path, "", "").expect("it answers")
}

/// A token that may do these.
pub fn token(user: &User, scopes: &str) -> String {
    user.ok(&["token", "create", "tester", "--scope", scopes]).trim().to_owned()
}

pub fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LONG))?;
    Ok(stream)
}

/// One request on a connection of its own; without a token if it is empty.
pub fn ask(
    mut stream: impl Read + Write,
    method: &str,
    path: &str,
    token: &str,
    body: &str,
) -> io::Result<Answer> {
    let authorization = match token {
        "" => String::new(),
        token => format!("Authorization: Bearer {token}\r\n"),
    };
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{authorization}Content-Type: application/json\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.flush()?;
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    };
    let length = head.lines().find_map(field).ok_or(io::ErrorKind::InvalidData)?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(Answer { code, head, body })
}
