//! Whose process is at the other end of a loopback connection.
//!
//! Linux lists all TCP sockets with their users. The client's end of a connection is the one whose local address is the
//! address that we see, and whose remote port is ours.

use std::fs;
use std::net::{IpAddr, SocketAddr};

/// Whether the client is a process of our own user, or of root, on this machine. `false` if that cannot be told: in
/// another network namespace, for instance.
pub fn is_own_user(client: SocketAddr, our_port: u16) -> bool {
    // The socket exists while its request is answered, so nobody else can have its address.
    let own = fs::metadata("/proc/self").map(|about| std::os::unix::fs::MetadataExt::uid(&about));
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let found = tables.iter().filter_map(|table| fs::read_to_string(table).ok());
    let user = found.into_iter().find_map(|table| user_of(&table, client, our_port));
    match (user, own) {
        (Some(user), Ok(own)) => user == own || user == 0,
        (Some(_) | None, _) => false,
    }
}

/// The user of the socket at `client` that is connected to `port`, in a table as Linux writes it.
fn user_of(table: &str, client: SocketAddr, port: u16) -> Option<u32> {
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, remote) = (address(fields.next()?)?, address(fields.next()?)?);
        // State, queues, timers and retransmissions come before the user.
        let user = fields.nth(4)?;
        let same = local.ip().to_canonical() == client.ip().to_canonical() && local.port() == client.port();
        (same && remote.port() == port).then(|| user.parse().ok())?
    })
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
            let port = listener.local_addr().unwrap().port();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let address = client.local_addr().unwrap();
            assert!(is_own_user(address, port), "{any}");
            assert!(!is_own_user(address, port.wrapping_add(1)), "another server's connection");
        }
    }

    #[test]
    fn users_are_read_from_the_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1F9A 0100007F:8AE2 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0\n\
            1: 0100007F:8AE2 0100007F:1F9A 01 00000000:00000000 00:00000000 00000000  1000        0 2 1 0\n";
        let client = "127.0.0.1:35554".parse().unwrap();
        assert_eq!(user_of(table, client, 8090), Some(1000));
        assert_eq!(user_of(table, client, 8091), None);
        assert_eq!(user_of(table, "127.0.0.2:35554".parse().unwrap(), 8090), None);
    }
}
