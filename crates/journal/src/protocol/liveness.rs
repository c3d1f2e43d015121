//! Detects a dead peer: its host lost power, or a firewall dropped the connection. A side that only waits sends
//! nothing, and would wait for ever.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;

/// Idle time before the first TCP keep-alive probe.
const SILENCE: Duration = Duration::from_secs(10);
/// Time between probes.
const AGAIN: Duration = Duration::from_secs(5);
/// Unanswered probes after which the connection is dead.
const QUESTIONS: u32 = 4;
/// Time within which sent bytes must be acknowledged. Long: a journal that makes room may not read for a while.
const TAKEN: Duration = Duration::from_secs(60);

/// Makes the system end this connection when its peer is dead.
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
