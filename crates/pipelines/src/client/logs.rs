//! Logs of builds. An executor keeps the logs of its builds and serves them over HTTP to whoever can read its component in
//! ZooKeeper, which says where, and has the key. So nobody is asked but registered executors.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use menagerie_kernel::{CallError, Term, Versioned};
use menagerie_znodes::components::{self, Component};
use menagerie_znodes::pipelines::Id;
use menagerie_znodes::{Kind, Name};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The kind of executors under `/components`.
pub const EXECUTOR: &str = "executor";
/// The detail of an executor's component that says where it serves logs: `HOST:PORT`.
pub const ADDRESS: &str = "address";
/// The detail that lets others read them. Whoever may read it may use pipelines.
pub const KEY: &str = "key";
/// The header that says where the next piece of a log begins, in bytes.
pub const LOG_END: &str = "menagerie-log-end";
/// The header that says how many bytes the log has now.
pub const LOG_SIZE: &str = "menagerie-log-size";
/// The header that says whether the build still runs, so that there may be more.
pub const RUNNING: &str = "menagerie-build-running";
/// Most bytes of a piece.
pub const CHUNK_BYTES_MAX: u64 = 1 << 20;

/// Longest wait for an answer of an executor.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// Executors that are asked at the same time.
const ASKED_AT_ONCE: usize = 16;

/// The id of a build: 32 hexadecimal digits. It becomes part of an address and the name of a file, so nothing else is one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BuildId(Id);

impl FromStr for BuildId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let id = Name::new(text).ok().filter(|_| text.len() == 32 && text.bytes().all(is_digit));
        id.map(Self).ok_or("a build has 32 hexadecimal digits")
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl BuildId {
    /// As requests and the history have it.
    pub fn id(&self) -> &Id {
        &self.0
    }
}

/// A registered executor that serves logs.
#[derive(Clone)]
pub struct LogServer {
    /// Its name under `/components/executor`.
    pub name: String,
    /// Where it serves logs.
    pub address: String,
    key: String,
}

/// A piece of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Where the next piece begins.
    pub end: u64,
    /// How many bytes the log has now.
    pub size: u64,
    /// Whether the build still runs, so that there may be more.
    pub is_running: bool,
}

/// What became of asking all executors for a log.
pub enum Search {
    /// This one has it; the piece is what was asked for.
    Found(LogServer, Chunk),
    /// No executor has it; these did not answer, each with the reason.
    Nowhere(Vec<String>),
}

/// Asks all executors at once for a piece of a log.
pub async fn find(term: &Term, build: &BuildId, offset: u64) -> Result<Search, CallError> {
    let servers = servers(term).await?;
    let asking = servers.into_iter().map(async |server| {
        let answer = server.read(build, offset).await;
        (server, answer)
    });
    let mut answers = stream::iter(asking).buffer_unordered(ASKED_AT_ONCE);
    let mut silent = Vec::new();
    while let Some((server, answer)) = answers.next().await {
        match answer {
            Ok(Some(chunk)) => return Ok(Search::Found(server, chunk)),
            Ok(None) => {}
            Err(error) => silent.push(format!("{} at {} ({error})", server.name, server.address)),
        }
    }
    // In the order of their answers, a page would change each time.
    silent.sort_unstable();
    Ok(Search::Nowhere(silent))
}

async fn servers(term: &Term) -> Result<Vec<LogServer>, CallError> {
    let term = term.patient();
    let folder = components::kind(&Name::new(EXECUTOR).expect("it is a name"));
    let names = match term.children(folder.path()).await {
        Err(CallError::NoZnode { .. }) => Vec::new(),
        names => names?,
    };
    let members: Vec<_> = names.iter().map(|name| folder.child::<Component>(name, Kind::Ephemeral)).collect();
    let found = names.iter().zip(term.read_many(&members).await?);
    let server = |(name, found): (&String, Option<Versioned<Component>>)| {
        let details = found?.value.details;
        let text = |key: &str| details.get(key)?.as_str().map(str::to_owned);
        Some(LogServer { name: name.clone(), address: text(ADDRESS)?, key: text(KEY)? })
    };
    Ok(found.filter_map(server).collect())
}

impl LogServer {
    /// A piece of a log from this byte on; `None` if the executor does not know the build.
    pub async fn read(&self, build: &BuildId, offset: u64) -> io::Result<Option<Chunk>> {
        let ask = async {
            let mut stream = TcpStream::connect(&self.address).await?;
            let request = format!(
                "GET /logs/{build}?offset={offset} HTTP/1.0\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
                self.address, self.key
            );
            stream.write_all(request.as_bytes()).await?;
            let mut answer = Vec::new();
            // A piece, and generous headers.
            stream.take(2 * CHUNK_BYTES_MAX).read_to_end(&mut answer).await?;
            parse(&answer, offset)
        };
        timeout(ANSWER_PATIENCE, ask).await?
    }
}

fn parse(answer: &[u8], offset: u64) -> io::Result<Option<Chunk>> {
    let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    let end =
        answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").ok_or_else(|| wrong("it breaks off"))?;
    let head = std::str::from_utf8(&answer[..end]).map_err(|_| wrong("it is not HTTP"))?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
    match status {
        "200" => {}
        "404" => return Ok(None),
        _ => return Err(wrong(&format!("it answers {status}"))),
    }
    let headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(": ")).collect();
    let header = |name: &str| {
        headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    };
    let bytes = answer[end + 4..].to_vec();
    let length = header("content-length").and_then(|length| length.parse::<usize>().ok());
    if length.is_some_and(|length| length != bytes.len()) {
        return Err(wrong("it breaks off"));
    }
    let number = |name: &str| header(name).and_then(|number| number.parse::<u64>().ok());
    let end = number(LOG_END).unwrap_or(offset.saturating_add(bytes.len() as u64));
    // An executor of an earlier version does not say it.
    let size = number(LOG_SIZE).unwrap_or(end);
    Ok(Some(Chunk { bytes, end, size, is_running: header(RUNNING) == Some("true") }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_whole_or_not_at_all() {
        let answer = b"HTTP/1.0 200 OK\r\nMenagerie-Log-End: 12\r\nmenagerie-log-size: 20\r\n\
            menagerie-build-running: true\r\ncontent-length: 2\r\n\r\nhi";
        let chunk = parse(answer, 10).unwrap().unwrap();
        assert_eq!(chunk, Chunk { bytes: b"hi".to_vec(), end: 12, size: 20, is_running: true });
        let older = parse(b"HTTP/1.0 200 OK\r\n\r\nhi", 10).unwrap().unwrap();
        assert_eq!(older, Chunk { bytes: b"hi".to_vec(), end: 12, size: 12, is_running: false });
        assert!(parse(&answer[..answer.len() - 1], 10).is_err());
        assert!(parse(b"HTTP/1.0 404 Not Found\r\n\r\n", 0).unwrap().is_none());
        for answer in [&b""[..], b"HTTP/1.0 200 OK\r\n", b"HTTP/1.0 403 Forbidden\r\n\r\n", b"\xff\r\n\r\n"] {
            assert!(parse(answer, 0).is_err());
        }
    }

    #[test]
    fn only_32_digits_name_a_build() {
        let build = "0123456789abcdef0123456789abcdef";
        assert_eq!(build.parse::<BuildId>().unwrap().to_string(), build);
        for wrong in ["", "..", &build[1..], &build.to_uppercase(), "0123456789abcdef0123456789abcde/"] {
            assert!(wrong.parse::<BuildId>().is_err(), "{wrong}");
        }
    }
}
