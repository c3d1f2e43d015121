//! Decides who holds and who waits in a contest, for locks and elections. Pure.
//!
//! A contender is a sequence znode; its number is its ticket. Names follow kazoo or Curator, so that programs that use
//! those libraries contend with ours. A directory belongs to one [`Dialect`]: neither sees the names of the other.
//!
//! Tickets are signed numbers of 32 bits in today's servers, and turn negative after 2,147,483,648 creations in one
//! directory: then a newcomer would precede the holder, and the server may give one number twice. So a directory with a
//! negative ticket is [`Exhausted`](Standing::Exhausted): none of our contenders holds anything in it.

use std::cmp::Ordering;

/// Servers pad numbers to this many characters.
const DIGITS_MIN: usize = 10;

/// The naming scheme of contenders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// Python's kazoo: `<uuid>__lock__<number>`, and `__rlock__` for shared contenders.
    #[default]
    Kazoo,
    /// `InterProcessMutex` of Java's Curator: `_c_<uuid>-lock-<number>`. It has no shared mode.
    Curator,
}

/// What a contender asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Hold alone.
    Exclusive,
    /// Hold together with other shared contenders.
    Shared,
}

impl Mode {
    /// Whether two contenders with these modes cannot hold at the same time.
    pub fn excludes(self, other: Self) -> bool {
        self == Self::Exclusive || other == Self::Exclusive
    }
}

/// One contender. Ordered by ticket; names only decide between tickets that no server gives twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contender {
    /// The name of its znode within the directory.
    pub name: String,
    /// The number that the server gave it.
    pub ticket: i64,
    /// What it asks for.
    pub mode: Mode,
}

impl Contender {
    fn comes_before(&self, other: &Self) -> bool {
        order(self, other) == Ordering::Less
    }
}

fn order(one: &Contender, other: &Contender) -> Ordering {
    (one.ticket, &one.name).cmp(&(other.ticket, &other.name))
}

impl Dialect {
    /// How the name of a new contender begins; `unique` is a UUID in 32 digits, drawn anew for each.
    pub fn prefix(self, mode: Mode, unique: &str) -> String {
        match (self, mode) {
            (Self::Kazoo, Mode::Exclusive) => format!("{unique}__lock__"),
            (Self::Kazoo, Mode::Shared) => format!("{unique}__rlock__"),
            (Self::Curator, _) => format!("_c_{}-lock-", dashed(unique)),
        }
    }

    /// Parses a name in the directory. `None`: it is no contender.
    pub fn parse(self, name: &str) -> Option<Contender> {
        let (mode, number) = match self {
            Self::Kazoo => {
                let (before, number) = name.rsplit_once("__")?;
                let shared = before.ends_with("__rlock");
                let mode = if shared { Mode::Shared } else { Mode::Exclusive };
                (shared || before.ends_with("__lock")).then_some((mode, number))?
            }
            Self::Curator => (Mode::Exclusive, name.rsplit_once("lock-")?.1),
        };
        Some(Contender { name: name.to_owned(), ticket: ticket(number)?, mode })
    }

    /// All contenders among these names, in the order of their tickets.
    pub fn contenders<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Vec<Contender> {
        let mut contenders: Vec<Contender> = names.into_iter().filter_map(|name| self.parse(name)).collect();
        contenders.sort_unstable_by(order);
        contenders
    }
}

/// Parses at least ten characters, of which the first may be a minus.
fn ticket(number: &str) -> Option<i64> {
    let digits = number.strip_prefix('-').unwrap_or(number);
    let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    (number.len() >= DIGITS_MIN && all_digits).then(|| number.parse().ok()).flatten()
}

/// A UUID as Java writes it.
fn dashed(uuid: &str) -> String {
    [&uuid[..8], &uuid[8..12], &uuid[12..16], &uuid[16..20], &uuid[20..]].join("-")
}

/// Where a contender stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing<'a> {
    /// It holds.
    Holds,
    /// It must wait until this one is gone, and then list the directory again.
    WaitsFor(&'a Contender),
    /// It does not exist any more: somebody removed it, or its session is over.
    Gone,
    /// The directory has used up its ticket numbers: nobody can tell who holds.
    Exhausted,
}

/// Where the contender of this name stands. It waits only for the nearest contender that excludes it, never for the
/// whole directory; so one release does not wake everybody.
pub fn standing<'a>(me: &str, all: &'a [Contender]) -> Standing<'a> {
    if all.iter().any(|contender| contender.ticket < 0) {
        return Standing::Exhausted;
    }
    let Some(me) = all.iter().find(|contender| contender.name == me) else { return Standing::Gone };
    keeping_out(me, all).max_by(|one, other| order(one, other)).map_or(Standing::Holds, Standing::WaitsFor)
}

/// The first contender that excludes this one, to report as the holder.
pub fn first_in_the_way<'a>(me: &str, all: &'a [Contender]) -> Option<&'a Contender> {
    let me = all.iter().find(|contender| contender.name == me)?;
    keeping_out(me, all).min_by(|one, other| order(one, other))
}

fn keeping_out<'a>(me: &Contender, all: &'a [Contender]) -> impl Iterator<Item = &'a Contender> {
    all.iter().filter(|other| other.comes_before(me) && other.mode.excludes(me.mode))
}

/// How many of these hold. They must be in ticket order; the holders come first.
pub fn holders(ordered: &[Contender]) -> usize {
    match ordered.first().map(|first| first.mode) {
        None => 0,
        Some(Mode::Exclusive) => 1,
        Some(Mode::Shared) => ordered.iter().take_while(|contender| contender.mode == Mode::Shared).count(),
    }
}

#[cfg(test)]
mod tests;
