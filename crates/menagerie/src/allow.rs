//! Allow-lists: which addresses and networks may connect.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network: an address, and how many of its leading bits are fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// Parses `10.2.0.0/16` or a single address.
pub fn parse(text: &str) -> Result<Network, String> {
    let wrong = || format!("{text:?} is neither an address nor a network such as 10.2.0.0/16");
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let all = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        None => all,
        Some(bits) => bits.parse().ok().filter(|bits| *bits <= all).ok_or_else(wrong)?,
    };
    let network = Network { address, bits };
    if masked(address, bits) != value(address) {
        return Err(format!("{text:?} names a host and a network: for the host alone leave out the /{bits}"));
    }
    Ok(network)
}

/// Loopback only.
pub fn this_machine() -> Vec<Network> {
    vec![
        Network { address: Ipv4Addr::new(127, 0, 0, 0).into(), bits: 8 },
        Network { address: Ipv6Addr::LOCALHOST.into(), bits: 128 },
    ]
}

/// Every address: for servers that authenticate their clients.
pub fn everybody() -> Vec<Network> {
    vec![
        Network { address: Ipv4Addr::UNSPECIFIED.into(), bits: 0 },
        Network { address: Ipv6Addr::UNSPECIFIED.into(), bits: 0 },
    ]
}

impl Network {
    /// Whether the network contains this address. An IPv4 client counts as IPv4 even on a dual-stack socket.
    pub fn contains(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.address.is_ipv4() == address.is_ipv4() && masked(address, self.bits) == value(self.address)
    }
}

fn value(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn masked(address: IpAddr, bits: u8) -> u128 {
    let all: u32 = if address.is_ipv4() { 32 } else { 128 };
    let free = all.saturating_sub(u32::from(bits));
    value(address).checked_shr(free).and_then(|kept| kept.checked_shl(free)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_what_begins_like_them() {
        for (network, inside, outside) in [
            ("10.2.0.0/16", "10.2.255.1", "10.3.0.1"),
            ("10.2.3.4", "10.2.3.4", "10.2.3.5"),
            ("fd00::/8", "fd12::1", "fe80::1"),
            ("0.0.0.0/0", "8.8.8.8", "::1"),
            ("10.2.0.0/16", "::ffff:10.2.0.1", "::ffff:10.3.0.1"),
        ] {
            let network = parse(network).unwrap();
            assert!(network.contains(inside.parse().unwrap()), "{inside}");
            assert!(!network.contains(outside.parse().unwrap()), "{outside}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "10.2", "10.2.0.0/33", "10.2.0.1/16", "host", "10.2.0.0/", "::/129"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
