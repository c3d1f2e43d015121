//! The administration socket: a Unix socket in the data folder, for its owner alone.
//!
//! One line asks, and the answer begins with `ok`, perhaps with more on that line, or with `error REASON`. Behind it comes
//! whatever the question is about.

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
/// A client that neither asks nor reads for so long is dropped.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// When the system lacks something to accept with, it is asked again after so long.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);
/// No question is longer.
const QUESTION_BYTES_MAX: u64 = 256;
/// Answers are large: backups.
const BUFFER_BYTES: usize = 256 << 10;

/// The path by which the kernel takes a socket in `folder`: their length is limited, that of folders is not.
fn short_path(folder: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(SOCKET)
}

/// Makes the socket. The caller has the folder locked, so one that is there already is left over from a crash.
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
    // The next server removes what is left, too.
    let _ = fs::remove_file(folder.join(SOCKET));
}

/// Gives every connection to `serve`, until that breaks off: to stop, somebody must connect once more.
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

/// Reads the question of one connection and has it answered. What is unknown is for `answer` to [`refuse`].
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

/// Answers that it cannot be done, and why.
pub fn refuse(out: &mut impl Write, reason: &str) -> io::Result<()> {
    writeln!(out, "error {reason}")
}

/// Answers that nobody knows what is meant.
pub fn refuse_unknown(out: &mut impl Write, question: &str) -> io::Result<()> {
    writeln!(out, "error unknown question {question:?}")
}

/// Connects to the server that has the data folder.
pub fn connect(folder: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(short_path(&File::open(folder)?))
}

/// Asks the server that has the data folder, and waits `patience` for the answer: what else is on the line behind `ok`,
/// and the stream behind that line. A refusal is an error of the kind `Other`, with the reason.
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
