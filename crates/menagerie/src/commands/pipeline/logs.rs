//! `menagerie pipeline logs BUILD`: asks the executors for it.

use std::io;
use std::time::Duration;

use clap::Args;
use menagerie_kernel::session::Rights::Observer;
use menagerie_kernel::{CallError, Term};
use menagerie_types::exit_code;
use menagerie_znodes::components::{self, Component};
use menagerie_znodes::pipelines::{JobQueue, RequestState};
use menagerie_znodes::{Kind, Name};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{self, ClientArgs};
use crate::commands::executor::logs::{CHUNK_BYTES_MAX, LOG_END, RUNNING, is_build};
use crate::commands::executor::{ADDRESS, KEY, KIND};
use crate::exit::{CliError, cannot};
use crate::output::{reader_gone, write_bytes};

/// Longest wait for one answer of an executor.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// Interval of `-f`.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(300);

/// Print the log of a build: all that its program has written.
#[derive(Debug, Args)]
pub struct Logs {
    /// Build, as `pipeline history -o json` and `pipeline status -o json` call it: 32 hexadecimal digits.
    #[arg(value_parser = build)]
    build: Name,
    /// Keep printing until the build has ended.
    #[arg(short, long)]
    follow: bool,
}

fn build(text: &str) -> Result<Name, String> {
    match is_build(text) {
        true => Name::new(text).map_err(|error| error.to_string()),
        false => Err("a build has 32 hexadecimal digits".to_owned()),
    }
}

/// An executor, and by what it knows us.
struct Executor {
    name: String,
    address: String,
    key: String,
}

/// A piece of a log.
struct Chunk {
    bytes: Vec<u8>,
    /// Where the next one begins.
    end: u64,
    is_running: bool,
}

/// What became of a look at all executors.
enum Look {
    Found(Executor, Chunk),
    /// These did not answer.
    Nowhere(Vec<String>),
}

impl Logs {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        client::run_within(client, Observer, async |client| {
            let term = client.term();
            tokio::select! {
                printed = self.print(&term) => printed,
                gone = reader_gone() => Err(gone),
            }
        })
    }

    async fn print(&self, term: &Term) -> Result<(), CliError> {
        let (executor, mut chunk) = loop {
            match self.look(term).await? {
                Look::Found(executor, chunk) => break (executor, chunk),
                Look::Nowhere(silent) => self.require_expected(term, &silent).await?,
            }
            tokio::time::sleep(FOLLOW_INTERVAL).await;
        };
        loop {
            write_bytes(&chunk.bytes)?;
            if chunk.bytes.is_empty() {
                if !(self.follow && chunk.is_running) {
                    return Ok(());
                }
                tokio::time::sleep(FOLLOW_INTERVAL).await;
            }
            let asked = fetch(&executor, &self.build, chunk.end).await;
            let lost = |source| CliError::Diagnosed {
                what: format!("executor {} does not answer any more", executor.name),
                because: Some(Box::new(source)),
                help: "try again: if it was restarted, it still has its logs".to_owned(),
                code: exit_code::UNAVAILABLE,
            };
            match asked.map_err(lost)? {
                Some(next) => chunk = next,
                None => return Ok(()),
            }
        }
    }

    /// Asks one executor after the other.
    async fn look(&self, term: &Term) -> Result<Look, CliError> {
        let mut silent = Vec::new();
        for executor in executors(term).await.map_err(cannot("look for executors"))? {
            match fetch(&executor, &self.build, 0).await {
                Ok(Some(chunk)) => return Ok(Look::Found(executor, chunk)),
                Ok(None) => {}
                Err(error) => silent.push(format!("{} at {} ({error})", executor.name, executor.address)),
            }
        }
        Ok(Look::Nowhere(silent))
    }

    /// Fails unless an executor is about to have the log, and we are to wait for that.
    async fn require_expected(&self, term: &Term, silent: &[String]) -> Result<(), CliError> {
        let build = &self.build;
        let request = term.read(&JobQueue::Executor.request(build).maybe_damaged()).await;
        let request = request.map_err(cannot(format!("look for build {build}")))?;
        let state = request.and_then(|found| found.value.sound()).map(|request| request.state);
        let is_waiting = matches!(state, Some(RequestState::Requested | RequestState::Running));
        if is_waiting && self.follow {
            return Ok(());
        }
        let (what, help) = match (is_waiting, silent.is_empty()) {
            (true, _) => (
                format!("build {build} has not begun: it waits for an executor"),
                "say -f to wait for it, or see with `menagerie status` whether an executor runs".to_owned(),
            ),
            (false, true) => (
                format!("no executor has a log of build {build}"),
                "see the builds with `menagerie pipeline history -o json`; logs stay on the machine of their executor, \
                 which must run"
                    .to_owned(),
            ),
            (false, false) => (
                format!("no executor that answers has a log of build {build}"),
                format!("these do not answer: {}", silent.join(", ")),
            ),
        };
        Err(CliError::Diagnosed { what, because: None, help, code: exit_code::FAILED })
    }
}

async fn executors(term: &Term) -> Result<Vec<Executor>, CallError> {
    let term = term.patient();
    let folder = components::kind(&Name::new(KIND).expect("it is a name"));
    let names = match term.children(folder.path()).await {
        Err(CallError::NoZnode { .. }) => Vec::new(),
        names => names?,
    };
    let members: Vec<_> = names.iter().map(|name| folder.child::<Component>(name, Kind::Ephemeral)).collect();
    let found = names.iter().zip(term.read_many(&members).await?);
    let executor = |(name, found): (&String, Option<menagerie_kernel::Versioned<Component>>)| {
        let details = found?.value.details;
        let text = |key: &str| details.get(key)?.as_str().map(str::to_owned);
        Some(Executor { name: name.clone(), address: text(ADDRESS)?, key: text(KEY)? })
    };
    Ok(found.filter_map(executor).collect())
}

/// A piece of a log; `None` if the executor does not know the build.
async fn fetch(executor: &Executor, build: &Name, offset: u64) -> io::Result<Option<Chunk>> {
    let ask = async {
        let mut stream = TcpStream::connect(&executor.address).await?;
        let request = format!(
            "GET /logs/{build}?offset={offset} HTTP/1.0\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
            executor.address, executor.key
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        // A piece, and generous headers.
        stream.take(2 * CHUNK_BYTES_MAX).read_to_end(&mut answer).await?;
        parse(&answer, offset)
    };
    tokio::time::timeout(ANSWER_PATIENCE, ask).await?
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
    let next = header(LOG_END).and_then(|end| end.parse().ok()).unwrap_or(offset + bytes.len() as u64);
    Ok(Some(Chunk { bytes, end: next, is_running: header(RUNNING) == Some("true") }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_whole_or_not_at_all() {
        let answer = b"HTTP/1.0 200 OK\r\nMenagerie-Log-End: 12\r\nmenagerie-build-running: true\r\ncontent-length: 2\r\n\r\nhi";
        let chunk = parse(answer, 10).unwrap().unwrap();
        assert_eq!((chunk.bytes.as_slice(), chunk.end, chunk.is_running), (&b"hi"[..], 12, true));
        assert!(parse(&answer[..answer.len() - 1], 10).is_err());
        assert!(parse(b"HTTP/1.0 404 Not Found\r\n\r\n", 0).unwrap().is_none());
        for answer in [&b""[..], b"HTTP/1.0 200 OK\r\n", b"HTTP/1.0 403 Forbidden\r\n\r\n", b"\xff\r\n\r\n"] {
            assert!(parse(answer, 0).is_err());
        }
    }
}
