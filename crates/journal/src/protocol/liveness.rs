//! Noticing that the other side is gone without a word: its host lost power, or a firewall forgot the connection. Who only
//! waits sends nothing, and would wait for ever.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;

/// After so long without a byte the system asks whether anybody is there.
const SILENCE: Duration = Duration::from_secs(10);
/// It asks again after so long,
const AGAIN: Duration = Duration::from_secs(5);
/// and gives up when so many questions had no answer.
const QUESTIONS: u32 = 4;
/// What was sent must be taken within this time. Long: a journal that makes room may not read for a while.
const TAKEN: Duration = Duration::from_secs(60);

/// Lets the system end this connection when nobody is at its other end any more.
pub(crate) fn watch_over(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, SILENCE)?;
    sockopt::set_tcp_keepintvl(socket, AGAIN)?;
    sockopt::set_tcp_keepcnt(socket, QUESTIONS)?;
    sockopt::set_tcp_user_timeout(socket, u32::try_from(TAKEN.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_system_is_asked_to_look() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        watch_over(&stream).unwrap();
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), SILENCE);
        assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), 60_000);
    }
}
