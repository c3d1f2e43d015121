//! The server list.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// ZooKeeper's default port.
const PORT: u16 = 2181;

/// `host:port,host:port[/chroot]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Servers {
    hosts: Vec<String>,
    chroot: String,
}

impl Servers {
    /// The keeper on this machine, at its default port.
    pub fn local() -> Self {
        Self { hosts: vec![format!("{}:{PORT}", Ipv4Addr::LOCALHOST)], chroot: String::new() }
    }

    pub fn parse(text: &str) -> Result<Self, String> {
        let (hosts, chroot) = match text.find('/') {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        let hosts = hosts.split(',').map(host).collect::<Result<Vec<_>, _>>()?;
        let chroot = chroot.trim_end_matches('/');
        if !chroot.is_empty() {
            path(chroot)?;
        }
        Ok(Self { hosts, chroot: chroot.to_owned() })
    }

    /// Each as `host:port`.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Empty for the ensemble's own root.
    pub fn chroot(&self) -> &str {
        &self.chroot
    }

    /// This server alone, with the same chroot.
    pub fn only(&self, host: &str) -> Self {
        Self { hosts: vec![host.to_owned()], chroot: self.chroot.clone() }
    }

    /// The addresses of the one server, if it is on this machine.
    pub fn addresses_here(&self) -> Vec<SocketAddr> {
        let [host] = self.hosts.as_slice() else { return Vec::new() };
        let Some((name, port)) = host.rsplit_once(':') else { return Vec::new() };
        let Ok(port) = port.parse() else { return Vec::new() };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let ips = match name.parse::<IpAddr>() {
            Ok(ip) if ip.is_loopback() => vec![ip],
            Err(_) if name == "localhost" => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
            _ => Vec::new(),
        };
        ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect()
    }

    /// The server at this address alone, with the same chroot.
    pub fn at(&self, address: SocketAddr) -> Self {
        self.only(&address.to_string())
    }

    /// Whether all servers are on loopback.
    pub fn is_loopback(&self) -> bool {
        self.hosts.iter().all(|host| {
            let name = host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name);
            let name = name.trim_start_matches('[').trim_end_matches(']');
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        })
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.hosts.join(","), self.chroot)
    }
}

fn host(text: &str) -> Result<String, String> {
    let text = text.trim();
    let bad = || format!("{text:?} is not HOST:PORT");
    // A colon within brackets belongs to the IPv6 address.
    let behind = text.rfind(']').map_or(0, |at| at + 1);
    let (name, port) = match text[behind..].find(':') {
        Some(at) => (&text[..behind + at], text[behind + at + 1..].parse::<u16>().map_err(|_| bad())?),
        None => (text, PORT),
    };
    let odd = |c: char| c.is_whitespace() || c.is_control() || c == '@';
    if name.is_empty() || port == 0 || name.contains(odd) {
        return Err(bad());
    }
    Ok(format!("{name}:{port}"))
}

/// Checks that a text is a valid ZooKeeper path.
pub fn path(text: &str) -> Result<(), String> {
    let component = |part: &str| match part {
        "" => Err("has an empty part".to_owned()),
        "." | ".." => Err("has a part `.` or `..`".to_owned()),
        part if part.chars().any(char::is_control) => Err("has control characters".to_owned()),
        _ => Ok(()),
    };
    let checked = match text.strip_prefix('/') {
        None => Err("does not begin with /".to_owned()),
        Some("") => Ok(()),
        Some(rest) => rest.split('/').try_for_each(component),
    };
    checked.map_err(|why| format!("{text:?} is not a path: it {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_with_default_ports_and_a_root() {
        for (text, shown, loopback) in [
            ("a:1,b:2", "a:1,b:2", false),
            ("a, b:2/prod/", "a:2181,b:2/prod", false),
            ("[::1]:5,localhost", "[::1]:5,localhost:2181", true),
            ("127.0.0.1:2181", "127.0.0.1:2181", true),
        ] {
            let servers = Servers::parse(text).unwrap();
            assert_eq!(servers.to_string(), shown);
            assert_eq!(servers.is_loopback(), loopback, "{text}");
        }
        for text in ["", "a,", ":1", "a:x", "a:0", "a:1//b", "a:1/../b", "user:pw@a:1"] {
            assert!(Servers::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn one_server_on_this_machine_has_addresses() {
        let addresses = |text| -> Vec<String> {
            Servers::parse(text).unwrap().addresses_here().iter().map(ToString::to_string).collect()
        };
        assert_eq!(addresses("127.0.0.2:5/x"), ["127.0.0.2:5"]);
        assert_eq!(addresses("[::1]:5"), ["[::1]:5"]);
        assert_eq!(addresses("localhost"), ["127.0.0.1:2181", "[::1]:2181"]);
        for text in ["a:1", "10.0.0.1:1", "127.0.0.1:1,127.0.0.1:2"] {
            assert!(addresses(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn what_is_no_path_is_told_why() {
        assert_eq!(path("/"), Ok(()));
        assert_eq!(path("/a/b"), Ok(()));
        for (text, why) in [("a", "begin with /"), ("/a/", "empty"), ("/a//b", "empty"), ("/..", "`..`")] {
            assert!(path(text).unwrap_err().contains(why), "{text}");
        }
    }
}
