//! The secret by which `menagerie up` keeps its namespace to its own user, for the other commands of that user: asked for
//! over a socket where the kernel tells each side who the other is. So nobody has to type it, wherever the data is.

use std::io::{self, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use tracing::debug;

use crate::config::Secret;

/// Both sides are on this machine and have a few bytes to say.
const PATIENCE: Duration = Duration::from_secs(2);
/// A secret is shorter.
const SECRET_BYTES_MAX: u64 = 1024;

/// The name of the socket. It is no file, so none is left behind; whoever else takes the name is found out by `is_ours`.
fn name(keeper_port: u16) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("menagerie/keeper/{keeper_port}"))
}

/// Whether the other side runs as the same user as we.
fn is_ours(stream: &UnixStream) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid == geteuid())
}

/// Tells the secret of the keeper at this port to whoever runs as the same user, until this process ends.
pub fn serve(keeper_port: u16, Secret(secret): Secret) -> io::Result<()> {
    let listener = UnixListener::bind_addr(&name(keeper_port)?)?;
    let tell = move |mut stream: UnixStream| -> io::Result<()> {
        stream.set_write_timeout(Some(PATIENCE))?;
        if is_ours(&stream) { stream.write_all(secret.as_bytes()) } else { Ok(()) }
    };
    let run = move || {
        for stream in listener.incoming() {
            if let Err(error) = stream.and_then(&tell) {
                debug!(%error, "somebody was not told the keeper's secret");
                // Too many open files, mostly: it would be the same at once.
                thread::sleep(Duration::from_millis(10));
            }
        }
    };
    thread::Builder::new().name("local-auth".to_owned()).spawn(run).map(drop)
}

/// The secret of the keeper at this port of this machine, if `menagerie up` of the same user runs it.
pub fn ask(keeper_port: u16) -> Option<Secret> {
    let ask = || -> io::Result<Option<String>> {
        let stream = UnixStream::connect_addr(&name(keeper_port)?)?;
        // Somebody else may have taken the name: what they say would make us write what they can read.
        if !is_ours(&stream) {
            return Ok(None);
        }
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut secret = String::new();
        stream.take(SECRET_BYTES_MAX).read_to_string(&mut secret)?;
        Ok(Some(secret))
    };
    ask().ok().flatten().filter(|secret| !secret.is_empty()).map(Secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_user_is_told_the_secret_of_the_keeper_that_it_asks_for() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        assert_eq!(ask(port), None);
        serve(port, Secret("menagerie:hush".to_owned())).unwrap();
        assert_eq!(ask(port), Some(Secret("menagerie:hush".to_owned())));
        assert!(serve(port, Secret("menagerie:other".to_owned())).is_err(), "the name is taken");
    }
}
