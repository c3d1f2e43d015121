//! Four-letter words: a single server's status, over its client port in plain text.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use serde::Serialize;

/// Longer answers cannot be answers to our commands.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// The answer to `srvr`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Version without the build.
    pub version: String,
    /// `standalone`, `leader`, `follower` or `observer`.
    pub mode: String,
}

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Its status.
    Report(Report),
    /// Its operator does not allow this word.
    NotAllowed,
    /// It runs, and has no quorum.
    NotServing,
    /// Not an answer of ZooKeeper.
    Strange,
}

/// Sends a word to one server, given as `host:port`, and returns all that it answers before it closes the connection.
pub async fn ask(server: &str, word: &'static str, patience: Duration) -> io::Result<String> {
    let server = server.to_owned();
    tokio::task::spawn_blocking(move || {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in server.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, patience) {
                Ok(stream) => return talk(stream, word, patience),
                Err(error) => last = error,
            }
        }
        Err(last)
    })
    .await
    .unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn talk(mut stream: TcpStream, word: &str, patience: Duration) -> io::Result<String> {
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Parses the answer to `srvr`.
pub fn read_srvr(answer: &str) -> Answer {
    if answer.contains("not in the whitelist") {
        return Answer::NotAllowed;
    }
    if answer.contains("not currently serving requests") {
        return Answer::NotServing;
    }
    let after = |start: &str| answer.lines().find_map(|line| line.strip_prefix(start));
    match (after("Zookeeper version: "), after("Mode: ")) {
        (Some(version), Some(mode)) => {
            let version = version.split([',', ' ']).next().unwrap_or_default();
            // Apache appends the hash of a commit; the keeper appends its own name and version, which we keep.
            let version = match version.split_once('-') {
                Some((number, build)) if !build.starts_with("menagerie") => number,
                _ => version,
            };
            Answer::Report(Report { version: version.to_owned(), mode: mode.trim().to_owned() })
        }
        _ => Answer::Strange,
    }
}

/// The leader's number of synced followers, from the answer to `mntr`; `None` if it is missing.
pub fn read_synced_followers(answer: &str) -> Option<usize> {
    answer.lines().find_map(|line| line.strip_prefix("zk_synced_followers")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let apache = "Zookeeper version: 3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f, built on 2022-02-25\n\
                      Latency min/avg/max: 0/0.0/0\nMode: leader\nNode count: 5\n";
        let report = |version: &str, mode: &str| {
            Answer::Report(Report { version: version.to_owned(), mode: mode.to_owned() })
        };
        assert_eq!(read_srvr(apache), report("3.8.0", "leader"));
        let keeper = "Zookeeper version: 3.9.0-menagerie-0.1.0\nMode: standalone\n";
        assert_eq!(read_srvr(keeper), report("3.9.0-menagerie-0.1.0", "standalone"));
        let refused = "srvr is not executed because it is not in the whitelist.\n";
        assert_eq!(read_srvr(refused), Answer::NotAllowed);
        let alone = "This ZooKeeper instance is not currently serving requests\n";
        assert_eq!(read_srvr(alone), Answer::NotServing);
        assert_eq!(read_srvr("HTTP/1.1 400 Bad Request"), Answer::Strange);
        assert_eq!(read_synced_followers("zk_followers\t3\nzk_synced_followers\t2\n"), Some(2));
        assert_eq!(read_synced_followers("mntr is not executed because it is not in the whitelist.\n"), None);
    }
}
