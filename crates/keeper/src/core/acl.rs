//! Who may do what: access lists, identities, and the schemes that join them.

use std::net::Ipv4Addr;
use std::sync::Arc;

use base64::Engine as _;
use hashbrown::HashSet;
use menagerie_wire::{Acl, DecodeError, ErrorCode, Id, Perms, Reader};
use sha1::{Digest as _, Sha1};

/// A shared access list: few distinct ones exist, many znodes use them.
pub type AclRef = Arc<Vec<Acl>>;

/// Keeps one copy of each distinct access list.
#[derive(Debug, Default)]
pub struct AclTable {
    lists: HashSet<AclRef>,
    /// Bytes of the names in them.
    bytes: usize,
    /// Above this size, lists that no znode uses any more are dropped.
    sweep_at_bytes: usize,
    /// The last decoded list, and its bytes: neighbours mostly have the same, and comparing bytes is many times cheaper
    /// than decoding when a million znodes are loaded.
    last: Option<(Box<[u8]>, AclRef)>,
}

impl AclTable {
    /// Above this many lists, or bytes of them, those that no znode uses any more are dropped.
    const SWEEP_AT: usize = 1024;
    const SWEEP_AT_BYTES: usize = 1 << 20;

    /// The shared copy of `list`.
    pub fn share(&mut self, list: Vec<Acl>) -> AclRef {
        if let Some(known) = self.lists.get(&list) {
            return known.clone();
        }
        let many = self.lists.len() >= Self::SWEEP_AT && self.lists.len() == self.lists.capacity();
        if many || self.bytes >= self.sweep_at_bytes.max(Self::SWEEP_AT_BYTES) {
            self.lists.retain(|list| Arc::strong_count(list) > 1);
            self.bytes = self.lists.iter().map(|list| bytes(list)).sum();
            // The next sweep pays off once the size has doubled.
            self.sweep_at_bytes = self.bytes * 2;
        }
        self.bytes += bytes(&list);
        let shared = Arc::new(list);
        self.lists.insert(shared.clone());
        shared
    }
}

impl AclTable {
    /// Decodes a list, and returns the shared copy of it.
    pub fn decode(&mut self, r: &mut Reader<'_>) -> Result<AclRef, DecodeError> {
        let bytes = r.rest();
        if let Some((known, list)) = &self.last
            && bytes.starts_with(known)
        {
            r.skip(known.len())?;
            return Ok(list.clone());
        }
        let list = self.share(r.vector()?);
        let length = bytes.len() - r.rest().len();
        self.last = Some((bytes[..length].into(), list.clone()));
        Ok(list)
    }
}

/// Entries of one access list; real ones have a handful.
const ENTRIES_MAX: usize = 1000;
/// Bytes of the names in one access list.
const LIST_BYTES_MAX: usize = 128 << 10;
/// Up to this many entries, comparing with each one is faster than hashing.
const ENTRIES_FEW: usize = 16;

/// The identity that may do everything.
pub fn superuser() -> Id {
    Id::new("super", "")
}

/// Approximate length of a list.
pub fn bytes(list: &[Acl]) -> usize {
    list.iter().map(|entry| entry.id.scheme.len() + entry.id.id.len()).sum()
}

/// Checks that one of `ids` has one of `perms`.
pub fn check(acl: &[Acl], ids: &[Id], perms: Perms) -> Result<(), ErrorCode> {
    if permits(acl, ids, perms) { Ok(()) } else { Err(ErrorCode::NoAuth) }
}

/// Whether one of `ids` has one of `perms`.
pub fn permits(acl: &[Acl], ids: &[Id], perms: Perms) -> bool {
    acl.is_empty()
        || acl.iter().any(|entry| entry.perms.intersects(perms) && entry.id.scheme == "world")
        || ids.iter().any(|id| id.scheme == "super")
        || acl
            .iter()
            .any(|entry| entry.perms.intersects(perms) && ids.iter().any(|id| matches(id, &entry.id)))
}

fn matches(caller: &Id, granted: &Id) -> bool {
    caller.scheme == granted.scheme
        && match granted.scheme.as_str() {
            "ip" => match (caller.id.parse(), parse_network(&granted.id)) {
                (Ok(address), Some(network)) => network.contains(address),
                _ => false,
            },
            _ => caller.id == granted.id,
        }
}

/// An address and how many of its leading bits matter. IPv4 only, as in the reference.
struct Network {
    address: Ipv4Addr,
    bits: u32,
}

impl Network {
    fn contains(&self, other: Ipv4Addr) -> bool {
        let mask = u32::MAX.checked_shl(32 - self.bits).unwrap_or(0);
        self.address.to_bits() & mask == other.to_bits() & mask
    }
}

fn parse_network(text: &str) -> Option<Network> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, bits.parse().ok().filter(|bits| *bits <= 32)?),
        None => (text, 32),
    };
    Some(Network { address: address.parse().ok()?, bits })
}

/// The access list to store for the one that a client sent: expands `auth` to the caller's identities, drops
/// duplicates, and refuses what no scheme accepts (`x509` only if clients must present certificates).
pub fn resolve(sent: &[Acl], ids: &[Id], x509: bool) -> Result<Vec<Acl>, ErrorCode> {
    if sent.len() > ENTRIES_MAX {
        return Err(ErrorCode::InvalidAcl);
    }
    let mut list = AclBuilder { entries: Vec::with_capacity(sent.len()), ..AclBuilder::default() };
    for Acl { perms, id } in sent {
        match id.scheme.as_str() {
            "world" if id.id == "anyone" => list.add(*perms, id)?,
            "auth" => {
                let own = ids.iter().filter(|id| matches!(id.scheme.as_str(), "digest" | "x509"));
                let mut found = false;
                for id in own {
                    found = true;
                    list.add(*perms, id)?;
                }
                if !found {
                    return Err(ErrorCode::InvalidAcl);
                }
            }
            "digest" if is_digest(&id.id) => list.add(*perms, id)?,
            "ip" if parse_network(&id.id).is_some() => list.add(*perms, id)?,
            "x509" if x509 && !id.id.is_empty() => list.add(*perms, id)?,
            _ => return Err(ErrorCode::InvalidAcl),
        }
    }
    if list.entries.is_empty() { Err(ErrorCode::InvalidAcl) } else { Ok(list.entries) }
}

/// Collects the entries of an access list.
#[derive(Default)]
struct AclBuilder<'a> {
    entries: Vec<Acl>,
    bytes: usize,
    /// The entries after the first few.
    known: HashSet<(Perms, &'a Id)>,
}

impl<'a> AclBuilder<'a> {
    /// Adds an entry, unless the list has it already. Each `auth` entry expands to all identities of the caller, so a short
    /// request can make a long list: the limits are checked while it grows.
    fn add(&mut self, perms: Perms, id: &'a Id) -> Result<(), ErrorCode> {
        let first = &self.entries[..self.entries.len().min(ENTRIES_FEW)];
        if first.iter().any(|entry| entry.perms == perms && entry.id == *id) {
            return Ok(());
        }
        if self.entries.len() >= ENTRIES_FEW && !self.known.insert((perms, id)) {
            return Ok(());
        }
        self.bytes += id.scheme.len() + id.id.len();
        if self.entries.len() >= ENTRIES_MAX || self.bytes > LIST_BYTES_MAX {
            return Err(ErrorCode::InvalidAcl);
        }
        self.entries.push(Acl { perms, id: id.clone() });
        Ok(())
    }
}

/// `user:digest`, where only the user may be empty.
fn is_digest(id: &str) -> bool {
    id.split_once(':').is_some_and(|(_, digest)| !digest.is_empty() && !digest.contains(':'))
}

/// The identities that credentials prove; `None` if they are refused. `superuser_digest` is `super:BASE64`, as
/// configured.
pub fn authenticate(
    scheme: &str,
    credentials: &[u8],
    peer: &Id,
    superuser_digest: Option<&str>,
) -> Option<Vec<Id>> {
    match scheme {
        "digest" => {
            let text = String::from_utf8_lossy(credentials);
            let digest = digest(&text);
            let mut ids = Vec::new();
            if superuser_digest == Some(&digest) {
                ids.push(superuser());
            }
            ids.push(Id { scheme: "digest".to_owned(), id: digest });
            Some(ids)
        }
        "ip" => Some(vec![peer.clone()]),
        _ => None,
    }
}

/// `user:base64(sha1(user:password))`: what the digest scheme stores instead of the password.
pub fn digest(credentials: &str) -> String {
    let user = credentials.split(':').next().unwrap_or_default();
    let hash = Sha1::digest(credentials.as_bytes());
    format!("{user}:{}", base64::engine::general_purpose::STANDARD.encode(hash))
}

/// The list without the digests' secrets, for callers that may read the znode but not administer it.
pub fn masked(acl: &[Acl]) -> Vec<Acl> {
    acl.iter()
        .cloned()
        .map(|mut entry| {
            if entry.id.scheme == "digest" {
                let user = entry.id.id.split(':').next().unwrap_or_default().to_owned();
                entry.id.id = format!("{user}:x");
            }
            entry
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_the_one_that_other_servers_compute() {
        assert_eq!(digest("super:admin"), "super:xQJmxLMiHGwaqBvst5y6rkB6HQs=");
    }

    #[test]
    fn networks_match_by_their_leading_bits() {
        let granted = |id: &str| Id::new("ip", id);
        let caller = Id::new("ip", "10.1.2.3");
        assert!(matches(&caller, &granted("10.1.2.3")));
        assert!(matches(&caller, &granted("10.1.0.0/16")));
        assert!(matches(&caller, &granted("0.0.0.0/0")));
        assert!(!matches(&caller, &granted("10.2.0.0/16")));
        assert!(parse_network("::1").is_none());
        assert!(parse_network("10.0.0.0/33").is_none());
    }

    #[test]
    fn short_request_cannot_make_a_long_list() {
        let ids: Vec<Id> =
            (0..50).map(|n| Id::new("digest", &format!("{n}{}:x", "u".repeat(1000)))).collect();
        let sent: Vec<Acl> =
            (0..30).map(|perms| Acl { perms: Perms(perms), id: Id::new("auth", "") }).collect();
        assert_eq!(resolve(&sent, &ids, false), Err(ErrorCode::InvalidAcl));
        assert!(resolve(&sent[..1], &ids, false).is_ok());
        let many = vec![Acl::open(); ENTRIES_MAX + 1];
        assert_eq!(resolve(&many, &[], false), Err(ErrorCode::InvalidAcl));
    }

    #[test]
    fn duplicates_go_however_long_the_list_is() {
        let entry =
            |at: usize| Acl { perms: Perms(at as i32 % 7), id: Id::new("digest", &format!("{at}:x")) };
        for length in [1, ENTRIES_FEW - 1, ENTRIES_FEW, ENTRIES_FEW + 1, 100] {
            let once: Vec<Acl> = (0..length).map(entry).collect();
            let twice: Vec<Acl> = once.iter().chain(once.iter().rev()).cloned().collect();
            assert_eq!(resolve(&twice, &[], false), Ok(once));
        }
    }

    #[test]
    fn lists_that_nobody_uses_are_not_kept() {
        let mut table = AclTable::default();
        let list = |at: usize| {
            let id = format!("{at}{}:x", "u".repeat(100_000));
            vec![Acl { perms: Perms::ALL, id: Id::new("digest", &id) }]
        };
        let used: Vec<AclRef> = (0..20).map(|at| table.share(list(at))).collect();
        for at in 20..200 {
            table.share(list(at));
        }
        assert!(table.lists.len() < 3 * used.len(), "{} lists are kept", table.lists.len());
        assert!(used.iter().enumerate().all(|(at, used)| Arc::ptr_eq(used, &table.share(list(at)))));
    }

    #[test]
    fn auth_stands_for_the_callers_identities() {
        let sent = [Acl { perms: Perms::ALL, id: Id::new("auth", "") }];
        assert_eq!(resolve(&sent, &[Id::new("ip", "127.0.0.1")], false), Err(ErrorCode::InvalidAcl));
        let user = Id::new("digest", "u:x");
        assert_eq!(
            resolve(&sent, std::slice::from_ref(&user), false),
            Ok(vec![Acl { perms: Perms::ALL, id: user }])
        );
    }
}
