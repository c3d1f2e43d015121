//! Whose process is at the other end of a loopback connection.
//!
//! Linux lists all TCP sockets with their users. The client's end of a connection is the one whose local address is the
//! address that we see, and whose remote one is ours. Rows of connections that have ended have no user of their own
//! (they say root), and the same addresses can be in both tables: so only established connections count, and all rows that
//! fit must be of a user who may.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;

/// A connection that both ends have, in the tables of Linux.
const ESTABLISHED: &str = "01";

/// Whether the client is a process of our own user, or of root, on this machine. `false` if that cannot be told: in
/// another network namespace, for instance. Reads all sockets of the machine.
pub fn is_own_user(client: SocketAddr, ours: SocketAddr) -> bool {
    let Ok(own) = fs::metadata("/proc/self").map(|about| about.uid()) else { return false };
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let tables: Vec<String> = tables.iter().filter_map(|table| fs::read_to_string(table).ok()).collect();
    let users: Vec<u32> = tables.iter().flat_map(|table| users_of(table, client, ours)).collect();
    !users.is_empty() && users.iter().all(|user| *user == own || *user == 0)
}

/// The users of established connections from `client` to us, in a table as Linux writes it.
fn users_of(table: &str, client: SocketAddr, ours: SocketAddr) -> Vec<u32> {
    let user = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (local, remote) = (address(fields.get(1)?)?, address(fields.get(2)?)?);
        let is_open = *fields.get(3)? == ESTABLISHED && *fields.get(9)? != "0";
        // Who listens on all addresses is reached by any of them.
        let is_ours = remote.port() == ours.port()
            && (ours.ip().is_unspecified() || remote.ip().to_canonical() == ours.ip().to_canonical());
        let is_client =
            local.ip().to_canonical() == client.ip().to_canonical() && local.port() == client.port();
        (is_open && is_ours && is_client).then(|| fields.get(7)?.parse().ok())?
    };
    table.lines().skip(1).filter_map(user).collect()
}

/// Parses `0100007F:1F90`: words of an address in the byte order of this machine.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip: IpAddr = match ip.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let mut bytes = [0; 16];
            for (at, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(at * 8)?);
            }
            IpAddr::from(bytes)
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn our_own_connections_are_ours() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(any) else { continue };
            let ours = listener.local_addr().unwrap();
            let client = TcpStream::connect(ours).unwrap();
            let address = client.local_addr().unwrap();
            assert!(is_own_user(address, ours), "{any}");
            let other = SocketAddr::new(ours.ip(), ours.port().wrapping_add(1));
            assert!(!is_own_user(address, other), "another server's connection");
        }
    }

    #[test]
    fn users_are_those_of_established_connections_to_us_alone() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1F9A 0100007F:8AE2 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0\n\
            1: 0100007F:8AE2 0200007F:1F9A 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0\n\
            2: 0100007F:8AE2 0100007F:1F9A 01 00000000:00000000 00:00000000 00000000  1000        0 2 1 0\n\
            3: 0100007F:8AE3 0100007F:1F9A 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0\n";
        let (client, ours) = ("127.0.0.1:35554".parse().unwrap(), "127.0.0.1:8090".parse().unwrap());
        assert_eq!(
            users_of(table, client, ours),
            [1000],
            "not root, whose row is of a connection that has ended"
        );
        assert_eq!(users_of(table, client, "0.0.0.0:8090".parse().unwrap()), [1000]);
        assert_eq!(users_of(table, "127.0.0.1:35555".parse().unwrap(), ours), [0; 0]);
        assert_eq!(users_of(table, client, "127.0.0.1:8091".parse().unwrap()), [0; 0]);
        assert_eq!(users_of(table, "127.0.0.2:35554".parse().unwrap(), ours), [0; 0]);
    }
}
