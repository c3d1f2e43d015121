//! Hands a server's secret to programs of the same user on the same machine, over a socket on which the kernel vouches
//! to each side for the other. So nobody has to type the secret, wherever the server's data is, and no path from
//! ZooKeeper is trusted.

use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::geteuid;
use tracing::debug;

/// Time-out of one exchange: both sides are on this machine and send a few bytes.
const PATIENCE: Duration = Duration::from_millis(500);
/// A secret is shorter.
const SECRET_BYTES_MAX: u64 = 1024;

/// Connections that wait to be accepted; each takes microseconds.
const BACKLOG: i32 = 1024;

/// Whose secret it is. It names an abstract socket, so no file is left behind; [`is_ours`] finds out a stranger that
/// took the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner(String);

impl Owner {
    /// The keeper that listens on this address. The whole address, not the port alone: on another address of this
    /// machine the same port may belong to a stranger, who must not see the secret.
    pub fn keeper(address: SocketAddr) -> Self {
        Self(format!("menagerie/keeper/{address}"))
    }

    /// The journal that serves the folder with this id.
    pub fn journal(folder: &str) -> Self {
        Self(format!("menagerie/journal/{folder}"))
    }

    /// A non-blocking socket, and the address to bind or to connect to. Non-blocking, because a stranger that took the
    /// name and accepts nobody must not hold us up.
    fn socket(&self) -> io::Result<(OwnedFd, SocketAddrUnix)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok((socket, SocketAddrUnix::new_abstract_name(self.0.as_bytes())?))
    }

    fn listen(&self) -> io::Result<UnixListener> {
        let (socket, address) = self.socket()?;
        net::bind(&socket, &address)?;
        net::listen(&socket, BACKLOG)?;
        let listener = UnixListener::from(socket);
        listener.set_nonblocking(false)?;
        Ok(listener)
    }

    fn connect(&self) -> io::Result<UnixStream> {
        let (socket, address) = self.socket()?;
        net::connect(&socket, &address)?;
        let stream = UnixStream::from(socket);
        stream.set_nonblocking(false)?;
        Ok(stream)
    }
}

/// Whether the peer runs as the same user as we do.
fn is_ours(stream: &UnixStream) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid == geteuid())
}

/// Serves the secret to programs of the same user, until this process ends.
pub fn serve(owner: &Owner, secret: String) -> io::Result<()> {
    let listener = owner.listen()?;
    let answer = move |mut stream: UnixStream| -> io::Result<()> {
        stream.set_write_timeout(Some(PATIENCE))?;
        if is_ours(&stream) { stream.write_all(secret.as_bytes()) } else { Ok(()) }
    };
    let run = move || {
        for stream in listener.incoming() {
            if let Err(error) = stream.and_then(&answer) {
                debug!(%error, "cannot hand over the secret");
                // Mostly too many open files: an immediate retry would fail the same way.
                thread::sleep(Duration::from_millis(10));
            }
        }
    };
    thread::Builder::new().name("local-secret".to_owned()).spawn(run).map(drop)
}

/// Asks for the secret; `None` unless its owner runs on this machine as the same user as we do.
pub fn ask(owner: &Owner) -> Option<String> {
    let ask = || -> io::Result<Option<String>> {
        let stream = owner.connect()?;
        // Somebody else may have taken the name: we would believe their secret.
        if !is_ours(&stream) {
            return Ok(None);
        }
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut secret = String::new();
        stream.take(SECRET_BYTES_MAX).read_to_string(&mut secret)?;
        Ok(Some(secret))
    };
    ask().ok().flatten().filter(|secret| !secret.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_user_is_told_the_secret_of_the_one_that_it_asks_for() {
        let owner = Owner::journal(&crate::unique::hex());
        assert_eq!(ask(&owner), None);
        serve(&owner, "hush".to_owned()).unwrap();
        assert_eq!(ask(&owner).as_deref(), Some("hush"));
        assert_eq!(ask(&Owner::journal("another")), None);
        assert!(serve(&owner, "other".to_owned()).is_err(), "the name is taken");
    }

    /// The backlog is full, as a stranger that took the name first would leave it.
    #[test]
    fn nobody_is_held_up_by_an_owner_that_accepts_nobody() {
        let owner = Owner::journal(&crate::unique::hex());
        let (socket, address) = owner.socket().unwrap();
        net::bind(&socket, &address).unwrap();
        net::listen(&socket, 0).unwrap();
        let first = owner.connect().unwrap();
        assert_eq!(owner.connect().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(ask(&owner), None);
        drop(first);
    }
}
