//! The administration socket: a Unix socket in the data folder, for its owner alone.
//!
//! A request is one line. The answer begins with `ok`, perhaps with more on that line, or with `error REASON`; after an
//! `ok` line, data may follow.

use std::fs::{self, File, Permissions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write};
use std::ops::ControlFlow;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tracing::warn;

/// The name of the socket in the data folder.
const SOCKET: &str = "admin.sock";
/// A client that neither sends nor reads for this long is dropped.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Pause after a failed accept: the system is short of something.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);
/// Longest request.
const QUESTION_BYTES_MAX: u64 = 256;
/// Answers can be large: backups.
const BUFFER_BYTES: usize = 256 << 10;

/// The socket's path through the open folder: the length of socket addresses is limited, that of folders is not.
fn short_path(folder: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(SOCKET)
}

/// Creates the socket. The caller has locked the folder, so an existing socket is left over from a crash.
pub fn listen(folder: &Path) -> io::Result<UnixListener> {
    let path = folder.join(SOCKET);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let folder = File::open(folder)?;
    let listener = UnixListener::bind(short_path(&folder))?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Removes the socket of a server that has ended.
pub fn remove(folder: &Path) {
    // If this fails, the next server removes it.
    let _ = fs::remove_file(folder.join(SOCKET));
}

/// Passes every connection to `serve`, until that returns `Break`; so stopping takes one more connection.
pub fn accept(listener: &UnixListener, mut serve: impl FnMut(UnixStream) -> ControlFlow<()>) {
    for stream in listener.incoming() {
        match stream {
            Ok(stream) => {
                if serve(stream).is_break() {
                    return;
                }
            }
            Err(error) => {
                warn!(%error, "cannot accept an administration connection");
                thread::sleep(ACCEPT_AGAIN);
            }
        }
    }
}

/// Reads the request of one connection and calls `answer`, which must [`refuse`] unknown requests.
pub fn answer<'a>(
    stream: &'a UnixStream,
    answer: impl FnOnce(&str, &mut BufWriter<&'a UnixStream>) -> io::Result<()>,
) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut question = String::new();
    BufReader::new(stream.take(QUESTION_BYTES_MAX)).read_line(&mut question)?;
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, stream);
    answer(question.trim_end(), &mut out)?;
    out.flush()
}

/// Answers `error` with a reason.
pub fn refuse(out: &mut impl Write, reason: &str) -> io::Result<()> {
    writeln!(out, "error {reason}")
}

/// Answers that the request is unknown.
pub fn refuse_unknown(out: &mut impl Write, question: &str) -> io::Result<()> {
    writeln!(out, "error unknown question {question:?}")
}

/// Connects to the server that has locked the data folder.
pub fn connect(folder: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(short_path(&File::open(folder)?))
}

/// Sends a request to the server that has locked the data folder, and waits `patience` for the answer. Returns the rest
/// of the `ok` line, and the stream after that line. A refusal is an error of kind `Other`, with the reason.
pub fn ask(folder: &Path, question: &str, patience: Duration) -> io::Result<(String, BufReader<UnixStream>)> {
    let stream = connect(folder)?;
    stream.set_read_timeout(Some(patience))?;
    (&stream).write_all(format!("{question}\n").as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut answer = String::new();
    reader.read_line(&mut answer)?;
    let answer = answer.trim_end();
    if let Some(rest) = answer.strip_prefix("ok").filter(|rest| rest.is_empty() || rest.starts_with(' ')) {
        reader.get_ref().set_read_timeout(Some(PATIENCE))?;
        return Ok((rest.trim_start().to_owned(), reader));
    }
    let reason = if answer.is_empty() { "it went away" } else { answer.trim_start_matches("error ") };
    Err(io::Error::other(reason.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_answered_or_refused_with_the_reason() {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let listener = listen(folder.path()).expect("nobody listens");
        let serve = thread::spawn(move || {
            let mut left = 3;
            accept(&listener, |stream| {
                let answered = answer(&stream, |question, out| match question {
                    "backup" => write!(out, "ok 4\ndata"),
                    "hush" => Ok(()),
                    other => refuse_unknown(out, other),
                });
                answered.expect("the client is there");
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
        });
        let (rest, mut stream) = ask(folder.path(), "backup", PATIENCE).expect("it is known");
        let mut data = String::new();
        stream.read_to_string(&mut data).expect("it is text");
        assert_eq!((rest.as_str(), data.as_str()), ("4", "data"));
        let refused = |question| ask(folder.path(), question, PATIENCE).expect_err("refused").to_string();
        assert_eq!(refused("tea"), r#"unknown question "tea""#);
        assert_eq!(refused("hush"), "it went away");
        serve.join().expect("all were answered");
        remove(folder.path());
        assert!(!folder.path().join(SOCKET).exists());
    }
}
