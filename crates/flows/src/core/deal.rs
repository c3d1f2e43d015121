//! Who works on which partitions of a task. Even, and few move.

use std::collections::BTreeSet;

/// Deals partitions 1 to `partitions` to owners that have these now. Nobody has two more than another, everybody keeps
/// what they have unless somebody else is short of it, and what nobody has goes to those who have least.
pub fn deal(partitions: u32, owned: &[BTreeSet<u32>]) -> Vec<BTreeSet<u32>> {
    let Some(owners) = u32::try_from(owned.len()).ok().filter(|owners| *owners > 0) else {
        return Vec::new();
    };
    let (few, more) = (partitions / owners, partitions % owners);
    let mut taken = BTreeSet::new();
    let mut dealt: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); owned.len()];
    // Those who have most keep the odd ones.
    let mut order: Vec<usize> = (0..owned.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(owned[*index].len()));
    let mut quota = vec![few; owned.len()];
    order.iter().take(more as usize).for_each(|index| quota[*index] += 1);
    for index in &order {
        for partition in owned[*index].iter().filter(|partition| **partition <= partitions) {
            if (dealt[*index].len() as u32) < quota[*index] && taken.insert(*partition) {
                dealt[*index].insert(*partition);
            }
        }
    }
    let mut rest = (1..=partitions).filter(|partition| !taken.contains(partition));
    for index in order {
        let short = quota[index] as usize - dealt[index].len();
        dealt[index].extend(rest.by_ref().take(short));
    }
    dealt
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sets(owned: &[&[u32]]) -> Vec<BTreeSet<u32>> {
        owned.iter().map(|set| set.iter().copied().collect()).collect()
    }

    #[test]
    fn a_joiner_gets_its_part_and_the_others_keep_theirs() {
        assert_eq!(deal(4, &sets(&[&[]])), sets(&[&[1, 2, 3, 4]]));
        assert_eq!(deal(4, &sets(&[&[1, 2, 3, 4], &[]])), sets(&[&[1, 2], &[3, 4]]));
        assert_eq!(deal(5, &sets(&[&[3, 4], &[1]])), sets(&[&[2, 3, 4], &[1, 5]]));
        assert_eq!(deal(1, &sets(&[&[], &[1]])), sets(&[&[], &[1]]));
        assert_eq!(deal(3, &[]), sets(&[]));
    }

    proptest! {
        #[test]
        fn every_partition_has_one_owner_and_only_what_must_move_moves(
            partitions in 1..40_u32,
            owners in prop::collection::vec(0..8_usize, 1..40),
            count in 1..8_usize,
        ) {
            let mut owned = vec![BTreeSet::new(); count];
            for (index, owner) in owners.iter().enumerate().take(partitions as usize) {
                if let Some(owned) = owned.get_mut(*owner) {
                    owned.insert(index as u32 + 1);
                }
            }
            let dealt = deal(partitions, &owned);
            let all: Vec<u32> = dealt.iter().flatten().copied().collect();
            prop_assert_eq!(all.len() as u32, partitions);
            prop_assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len() as u32, partitions);
            let sizes: Vec<usize> = dealt.iter().map(BTreeSet::len).collect();
            prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
            // An owner loses only what it has beyond its quota.
            for (before, after) in owned.iter().zip(&dealt) {
                let lost = before.difference(after).count();
                prop_assert_eq!(lost, before.len().saturating_sub(after.len()));
            }
            prop_assert_eq!(deal(partitions, &dealt), dealt);
        }
    }
}
