//! Answers requests on the administration socket: `backup` gets the line `ok`, followed by a whole snapshot.

use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use menagerie_datadir::admin;
use tracing::{debug, info, warn};

use super::capture::capture;
use super::server::Shared;

/// Answers until the server stops and one more connection comes. Each request has its own thread, so that none waits
/// for a slow backup.
pub fn run(shared: &Arc<Shared>, listener: &UnixListener) {
    admin::accept(listener, |stream| {
        if shared.lock().stopping {
            return ControlFlow::Break(());
        }
        let shared = shared.clone();
        let serve = move || match answer(&shared, &stream) {
            Ok(()) => {}
            Err(error) => debug!(%error, "administration connection failed"),
        };
        if let Err(error) = thread::Builder::new().name("keeper-admin".to_owned()).spawn(serve) {
            warn!(%error, "cannot start a thread for an administration connection");
        }
        ControlFlow::Continue(())
    });
}

fn answer(shared: &Shared, stream: &UnixStream) -> io::Result<()> {
    admin::answer(stream, |question, out| match question {
        "backup" => {
            writeln!(out, "ok")?;
            let (_, position, bytes) = capture(shared, out)?;
            info!(zxid = format_args!("{:#x}", position.zxid), bytes, "backup taken");
            Ok(())
        }
        other => admin::refuse_unknown(out, other),
    })
}

/// Asks the running keeper for a backup, and returns the stream after the `ok`.
pub fn request_backup(folder: &Path) -> io::Result<impl io::Read> {
    let (_, stream) = admin::ask(folder, "backup", admin::PATIENCE)?;
    Ok(stream)
}
