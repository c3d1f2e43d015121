//! The administration socket: a Unix socket in the data folder, for its owner alone. `backup` on a line is answered with
//! `ok BYTES` on a line and a backup of that length behind it, or with `error REASON`.

use std::fs::{self, File, Permissions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tracing::{debug, info, warn};

use crate::store::Store;

const SOCKET: &str = "admin.sock";
/// A client that neither asks nor reads for so long is dropped.
const PATIENCE: Duration = Duration::from_secs(30);
/// So long a backup may take to begin.
const PATIENCE_FOR_CHECKPOINT: Duration = Duration::from_secs(300);
const QUESTION_BYTES_MAX: u64 = 256;

/// The path by which the kernel takes a socket in `folder`: their length is limited, that of folders is not.
fn short_path(folder: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(SOCKET)
}

/// Answers on a thread of its own, as long as the process runs.
pub fn serve(store: Store) -> io::Result<()> {
    let path = store.data().join(SOCKET);
    // The folder is locked, so one that is there already is left over from a crash.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(short_path(&File::open(store.data())?))?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    let run = move || {
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => {
                    if let Err(error) = answer(&store, &stream) {
                        debug!(%error, "administration connection failed");
                    }
                }
                Err(error) => {
                    warn!(%error, "cannot accept an administration connection");
                    thread::sleep(Duration::from_millis(200));
                }
            }
        }
    };
    thread::Builder::new().name("journal-admin".to_owned()).spawn(run).map(drop)
}

fn answer(store: &Store, stream: &UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut question = String::new();
    BufReader::new(stream.take(QUESTION_BYTES_MAX)).read_line(&mut question)?;
    let mut out = BufWriter::with_capacity(256 << 10, stream);
    match question.trim_end() {
        "backup" => {
            // What can go wrong does so before the `ok`, but for what cuts the stream short.
            match store.backup() {
                Ok(backup) => {
                    let bytes = backup.bytes();
                    writeln!(out, "ok {bytes}")?;
                    backup.write(&mut out)?;
                    info!(bytes, "backup taken");
                }
                Err(error) => {
                    warn!(%error, "cannot take a backup");
                    writeln!(out, "error {}", told(&error))?;
                }
            }
        }
        other => writeln!(out, "error unknown question {other:?}")?,
    }
    out.flush()
}

/// An error and what caused it, on one line.
fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}")).replace('\n', " ")
}

/// Asks the running journal for a backup and gives the stream behind the `ok`, and how long it must be.
pub fn request_backup(folder: &Path) -> io::Result<(impl io::Read, u64)> {
    let stream = UnixStream::connect(short_path(&File::open(folder)?))?;
    // A checkpoint comes first, and perhaps somebody else's backup.
    stream.set_read_timeout(Some(PATIENCE_FOR_CHECKPOINT))?;
    (&stream).write_all(b"backup\n")?;
    let mut reader = BufReader::new(stream);
    let mut answer = String::new();
    reader.read_line(&mut answer)?;
    let answer = answer.trim_end();
    let Some(bytes) = answer.strip_prefix("ok ").and_then(|bytes| bytes.parse().ok()) else {
        let reason = if answer.is_empty() { "it went away" } else { answer.trim_start_matches("error ") };
        return Err(io::Error::other(reason.to_owned()));
    };
    reader.get_ref().set_read_timeout(Some(PATIENCE))?;
    Ok((reader.take(bytes), bytes))
}
