//! Addresses: which are safe to open, and which process holds one that is taken.

use std::fs;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};

use crate::exit::CliError;

/// Parses `HOST:PORT`, where HOST is an address or a name such as `localhost`.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let mut found = text
        .to_socket_addrs()
        .map_err(|error| format!("expected HOST:PORT, e.g. 127.0.0.1:2181: {error}"))?;
    found.next().ok_or_else(|| format!("{text} has no address"))
}

/// Binds an address, before anything else starts.
pub fn bind(address: SocketAddr, flag: &'static str) -> Result<TcpListener, CliError> {
    TcpListener::bind(address).map_err(|source| match source.kind() {
        std::io::ErrorKind::AddrInUse => CliError::Taken { address, owner: owner(address), flag },
        _ => CliError::Io { doing: format!("listen on {address}"), source },
    })
}

/// Refuses to open an unencrypted port to other machines unless --insecure allows it. `instead` says how to let them
/// in encrypted, if there is a way.
pub fn require_loopback(
    address: SocketAddr,
    insecure: bool,
    flag: &str,
    instead: Option<&str>,
) -> Result<(), CliError> {
    if address.ip().is_loopback() || insecure {
        return Ok(());
    }
    Err(CliError::Usage {
        what: format!("{flag} {address} would let anyone on the network in, unencrypted"),
        help: format!(
            "listen on 127.0.0.1{}, or say --insecure if the network is safe",
            instead.map_or(String::new(), |instead| format!(", {instead}"))
        ),
    })
}

/// The process that listens on this port, as far as this user may know.
pub fn owner(address: SocketAddr) -> String {
    find_owner(address.port()).unwrap_or_else(|| "another process".to_owned())
}

fn find_owner(port: u16) -> Option<String> {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| table.lines().skip(1).filter_map(|line| listening(line, port)).collect::<Vec<_>>())
        .collect();
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(files) = fs::read_dir(process.path().join("fd")) else { continue };
        let holds = files
            .flatten()
            .filter_map(|file| fs::read_link(file.path()).ok())
            .any(|target| inodes.iter().any(|inode| target.to_str() == Some(&format!("socket:[{inode}]"))));
        if holds {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some(format!("{} (process {pid})", name.trim()));
        }
    }
    None
}

/// The socket's inode if this line of /proc/net/tcp listens on `port`.
fn listening(line: &str, port: u16) -> Option<String> {
    const LISTEN: &str = "0A";
    let mut fields = line.split_whitespace();
    let local = fields.nth(1)?;
    let state = fields.nth(1)?;
    let inode = fields.nth(5)?;
    let local_port = u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()?;
    (local_port == port && state == LISTEN).then(|| inode.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_listener_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let owner = owner(listener.local_addr().unwrap());
        assert!(owner.contains(&format!("(process {})", std::process::id())), "{owner}");
    }
}
