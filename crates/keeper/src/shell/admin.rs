//! The administration socket: a Unix socket in the data folder, for its owner alone.
//!
//! One line asks, and the answer begins with `ok` or `error REASON` on a line of its own. `backup` is answered with a
//! whole snapshot behind that line.

use std::fs::{self, File, Permissions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tracing::{debug, info, warn};

use super::capture::capture;
use super::server::Shared;

/// The name of the socket in the data folder.
pub const SOCKET: &str = "admin.sock";
/// A client that neither asks nor reads for so long is dropped.
const PATIENCE: Duration = Duration::from_secs(30);
/// When the system lacks something to accept with, it is asked again after so long.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);
/// No question is longer.
const QUESTION_BYTES_MAX: u64 = 256;

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

/// Connects to the keeper that serves the data folder.
pub fn connect(folder: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(short_path(&File::open(folder)?))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Answers until the server stops; then somebody must connect once more. Each question has a thread of its own, so that
/// nobody waits for a slow backup.
pub fn run(shared: &Arc<Shared>, listener: &UnixListener) {
    for stream in listener.incoming() {
        if shared.lock().stopping {
            return;
        }
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) => {
                warn!(%error, "cannot accept an administration connection");
                thread::sleep(ACCEPT_AGAIN);
                continue;
            }
        };
        let shared = shared.clone();
        let serve = move || match answer(&shared, &stream) {
            Ok(()) => {}
            Err(error) => debug!(%error, "administration connection failed"),
        };
        if let Err(error) = thread::Builder::new().name("keeper-admin".to_owned()).spawn(serve) {
            warn!(%error, "cannot start a thread for an administration connection");
        }
    }
}

fn answer(shared: &Shared, stream: &UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut question = String::new();
    BufReader::new(stream.take(QUESTION_BYTES_MAX)).read_line(&mut question)?;
    let mut out = BufWriter::with_capacity(256 << 10, stream);
    match question.trim_end() {
        "backup" => {
            writeln!(out, "ok")?;
            let (_, position, bytes) = capture(shared, &mut out)?;
            info!(zxid = format_args!("{:#x}", position.zxid), bytes, "backup taken");
        }
        other => writeln!(out, "error unknown question {other:?}")?,
    }
    out.flush()
}

/// Asks the running keeper for a backup and gives the stream behind the `ok`.
pub fn request_backup(folder: &Path) -> io::Result<impl io::Read> {
    let stream = connect(folder)?;
    (&stream).write_all(b"backup\n")?;
    let mut reader = BufReader::new(stream);
    let mut answer = String::new();
    reader.read_line(&mut answer)?;
    match answer.trim_end() {
        "ok" => Ok(reader),
        other => Err(io::Error::other(other.trim_start_matches("error ").to_owned())),
    }
}
