//! A client that sends exactly the bytes a test wants, and checks of every reply what every reply must have.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A reply, parsed just far enough.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    /// Status line and header lines.
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn of(bytes: &[u8]) -> io::Result<Self> {
        let broken = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(broken)?;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(broken)?;
        Ok(Self { code, head, body: bytes[end + 4..].to_vec() })
    }

    /// The value of the first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        assert!(self.header("content-type").unwrap().contains("json"), "{self:?}");
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The value of a reply that has one.
    #[track_caller]
    pub fn value(&self) -> Value {
        assert_eq!(self.code, 200, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// What a refusal says, which must be a problem with this status.
    #[track_caller]
    pub fn problem(&self, code: u16) -> String {
        assert_eq!(self.code, code, "{}", String::from_utf8_lossy(&self.body));
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], code, "{problem}");
        problem["detail"].as_str().unwrap().to_owned()
    }
}

/// Sends a request and reads the whole reply. `Host` is the address, unless it is among the headers.
pub async fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = head(address, &format!("{method} {path} HTTP/1.1"), headers);
    let head = format!("{head}Connection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = Answer::of(&answer).unwrap();
    check(&answer, path);
    answer
}

/// The begin of a request, without the empty line.
pub fn head(address: SocketAddr, first: &str, headers: &[(&str, &str)]) -> String {
    let mut head = format!("{first}\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        let _ = write!(head, "Host: {address}\r\n");
    }
    for (name, value) in headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head
}

/// What every reply must have, whoever gets it and whatever it says.
#[track_caller]
fn check(answer: &Answer, path: &str) {
    let header = |name| answer.header(name).unwrap_or_else(|| panic!("{name} of {path}: {answer:?}"));
    assert_eq!(header("x-content-type-options"), "nosniff");
    let policy = header("content-security-policy");
    for part in ["default-src 'none'", "script-src 'self'", "form-action 'self'", "frame-ancestors 'none'"] {
        assert!(policy.contains(part), "{part} of {path}: {policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    let is_asset = path.starts_with("/assets/") && answer.code == 200;
    assert!(is_asset || header("cache-control") == "no-store", "{path}: {}", answer.head);
    // Only the cookie itself has the token.
    let lines = answer.head.lines().filter(|line| !line.to_lowercase().starts_with("set-cookie: menagerie-"));
    let said = lines.collect::<String>() + &String::from_utf8_lossy(&answer.body);
    assert!(!said.contains("mng_"), "a token in the reply of {path}: {said}");
}
