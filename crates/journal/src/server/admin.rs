//! Answers requests on the administration socket: `backup` gets the line `ok BYTES`, followed by a backup of that
//! length.

use std::io::{self, Read as _, Write as _};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use menagerie_datadir::admin;
use tracing::{debug, info, warn};

use crate::store::Store;

/// How long a backup may take to begin: a checkpoint comes first, and perhaps another backup.
const PATIENCE_FOR_CHECKPOINT: Duration = Duration::from_secs(300);

/// Answers on a separate thread, one request after the other, as long as the process runs.
pub fn serve(store: Store) -> io::Result<()> {
    let listener = admin::listen(store.data())?;
    let run = move || {
        admin::accept(&listener, |stream| {
            if let Err(error) = answer(&store, &stream) {
                debug!(%error, "administration connection failed");
            }
            ControlFlow::Continue(())
        });
    };
    thread::Builder::new().name("journal-admin".to_owned()).spawn(run).map(drop)
}

fn answer(store: &Store, stream: &UnixStream) -> io::Result<()> {
    admin::answer(stream, |question, out| match question {
        // All errors come before the `ok`, except those that cut the stream short.
        "backup" => match store.backup() {
            Ok(backup) => {
                let bytes = backup.bytes();
                writeln!(out, "ok {bytes}")?;
                backup.write(out)?;
                info!(bytes, "backup taken");
                Ok(())
            }
            Err(error) => {
                warn!(%error, "cannot take a backup");
                admin::refuse(out, &error_chain(&error))
            }
        },
        other => admin::refuse_unknown(out, other),
    })
}

/// An error and what caused it, on one line.
fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}")).replace('\n', " ")
}

/// Asks the running journal for a backup. Returns the stream after the `ok`, and its expected length.
pub fn request_backup(folder: &Path) -> io::Result<(impl io::Read, u64)> {
    let (announced, stream) = admin::ask(folder, "backup", PATIENCE_FOR_CHECKPOINT)?;
    let bytes = announced.parse().map_err(|_| io::Error::other(format!("ok {announced}")))?;
    Ok((stream.take(bytes), bytes))
}
