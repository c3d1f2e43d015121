//! Ports for servers that must keep theirs across a restart, or cannot choose and report one.

use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the range for outgoing connections on Linux: one of those could take the port while a server restarts.
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;
/// About the golden section of all ports: processes with adjacent pids start far apart.
const STRIDE: u64 = 12_361;

/// A port on loopback that was free a moment ago, and that no other call in this process returns.
///
/// # Panics
/// If there is none.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (u64::from(process::id()) * STRIDE % u64::from(COUNT)) as u16;
    (0..COUNT)
        .map(|_| FIRST + (start + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT) % COUNT)
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("there are free ports")
}
