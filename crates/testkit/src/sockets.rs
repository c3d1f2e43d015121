//! Bytes in the kernel between two processes.

use std::fs;

/// Bytes that the process at `local` has not read yet from its connection with `remote`; `None` if there is no such
/// connection.
pub(crate) fn unread_bytes(local: u16, remote: u16) -> Option<u64> {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .into_iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .find_map(|table| table.lines().find_map(|line| parse(line, local, remote)))
}

/// `sl: ADDRESS:PORT ADDRESS:PORT state unsent:unread …`, all hexadecimal.
fn parse(line: &str, local: u16, remote: u16) -> Option<u64> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    for port in [local, remote] {
        let (_, found) = fields.next()?.rsplit_once(':')?;
        if u16::from_str_radix(found, 16) != Ok(port) {
            return None;
        }
    }
    let (_, unread) = fields.nth(1)?.split_once(':')?;
    u64::from_str_radix(unread, 16).ok()
}

#[test]
fn unread_bytes_are_those_of_the_socket_between_the_two_ports() {
    let line =
        "   1: 0100007F:80C1 0100007F:A8A8 01 00000010:0000000A 03:00000332 00000000     0        0 0 3";
    assert_eq!(parse(line, 0x80c1, 0xa8a8), Some(10));
    assert_eq!(parse(line, 0xa8a8, 0x80c1), None);
    assert_eq!(parse("  sl  local_address rem_address   st tx_queue rx_queue", 1, 2), None);
}
