//! Rendezvous hashing: which member does a job. Everybody decides alone, without lock, znode or waiting. Pure.
//!
//! Each member has a weight for each key, a hash of both; the heaviest is elected (highest random weight). Everybody
//! who sees the same members elects the same one. When a member leaves, only its keys move, and they spread over all
//! others; when one joins, it takes its share from all.
//!
//! **It is advice, not exclusion.** Two hosts that see different members, as happens whenever somebody joins or leaves,
//! elect different ones. Use it to spread work, or to decide who tries first; what must not happen twice needs a
//! [lock](super::lock) or an [election](super::election) and their fence as well.
//!
//! ```
//! use menagerie_kernel::recipes::rendezvous::rendezvous;
//!
//! let members = ["executor-1", "executor-2", "executor-3"];
//! let first = rendezvous(&members, "tenant-a").expect("there are members");
//! let others: Vec<&str> = members.into_iter().filter(|member| member != first).collect();
//! assert_ne!(rendezvous(&others, "tenant-a"), Some(first));
//! ```

/// The member elected for this key. The order of members and duplicates do not matter.
pub fn rendezvous<'a, M: AsRef<str>>(members: &'a [M], key: &str) -> Option<&'a M> {
    // Names break ties, so that everybody decides alike.
    let rank = |member: &'a M| (weight(member.as_ref(), key), member.as_ref());
    members.iter().max_by(|one, other| rank(one).cmp(&rank(other)))
}

/// A member's weight for a key. Programs of different versions must agree on it, so it never changes.
///
/// FNV-1a of 64 bits over the member's name, a zero byte, and the key; then the finalizer of SplitMix64, because FNV alone
/// spreads names that differ in their last character badly.
pub fn weight(member: &str, key: &str) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let bytes = member.bytes().chain([0]).chain(key.bytes());
    let mut hash = bytes.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const KEYS: usize = 3_000;

    fn members(count: usize) -> Vec<String> {
        (1..=count).map(|number| format!("executor-{number}")).collect()
    }

    fn elected(members: &[String]) -> Vec<&String> {
        (0..KEYS).filter_map(|key| rendezvous(members, &format!("key-{key}"))).collect()
    }

    #[test]
    fn nobody_is_elected_where_nobody_is() {
        assert_eq!(rendezvous::<&str>(&[], "key"), None);
        assert_eq!(rendezvous(&["alone"], "key"), Some(&"alone"));
    }

    #[test]
    fn weights_are_what_they_were_in_the_first_version() {
        assert_eq!(weight("", ""), 0x25fc_6dd3_6ce0_4b20);
        assert_eq!(weight("executor-1", "tenant-a"), 0x2df5_03b1_9db0_d15a);
    }

    #[test]
    fn keys_spread_evenly() {
        let members = members(10);
        let mut shares: BTreeMap<&String, usize> = BTreeMap::new();
        for member in elected(&members) {
            *shares.entry(member).or_default() += 1;
        }
        let fair = KEYS / members.len();
        assert_eq!(shares.len(), members.len());
        assert!(shares.values().all(|share| share.abs_diff(fair) < fair / 4), "{shares:?}");
    }

    #[test]
    fn only_the_keys_of_who_leaves_move_and_they_spread() {
        let all = members(10);
        let mut left = all.clone();
        let leaver = left.remove(3);
        let (before, after) = (elected(&all), elected(&left));
        let mut heirs: BTreeMap<&String, usize> = BTreeMap::new();
        for (before, after) in before.into_iter().zip(after) {
            if *before == leaver {
                *heirs.entry(after).or_default() += 1;
            } else {
                assert_eq!(before, after);
            }
        }
        assert_eq!(heirs.len(), left.len(), "everybody inherits: {heirs:?}");
    }

    proptest! {
        #[test]
        fn order_and_doubles_do_not_matter(mut members in prop::collection::vec("[a-c]{0,3}", 1..8), key in "[a-z]{0,4}") {
            let first = rendezvous(&members, &key).cloned();
            members.reverse();
            members.extend(members.clone());
            prop_assert_eq!(rendezvous(&members, &key).cloned(), first);
        }

        #[test]
        fn who_joins_takes_keys_only_for_itself(members in prop::collection::vec("[a-z]{1,4}", 1..8), joins in "[a-z]{1,4}", key in "[a-z]{0,4}") {
            let before = rendezvous(&members, &key).cloned();
            let mut more = members;
            more.push(joins.clone());
            let after = rendezvous(&more, &key).cloned();
            prop_assert!(after == before || after == Some(joins));
        }
    }
}
