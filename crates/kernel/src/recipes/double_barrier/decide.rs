//! Decides who enters and who leaves. Pure.

use std::fmt;
use std::ops::RangeInclusive;

use crate::Fence;

/// What a participant sees. Numbers are the czxids of the znodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The participants, ourselves included.
    pub present: Vec<i64>,
    /// The `ready` znode: all participants are there, or were.
    pub ready: Option<i64>,
    /// The last opening.
    pub opened: Option<Opening>,
}

/// The last opening, as recorded in the directory: it let in the participants with these czxids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// Participants up to this czxid had been let in before.
    pub after: i64,
    /// Participants up to this czxid were let in by it.
    pub up_to: Fence,
}

impl fmt::Display for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.up_to, self.after)
    }
}

impl Opening {
    /// Parses the data of the directory; `None` for anything else.
    pub fn parse(data: &[u8]) -> Option<Self> {
        let (up_to, after) = std::str::from_utf8(data).ok()?.split_once(' ')?;
        Some(Self { after: after.parse().ok()?, up_to: up_to.parse().ok()? })
    }

    /// The czxids of this participant's round, if one of our programs let it in. If another round has begun since, only
    /// its end is known.
    fn round_of(self, me: Fence) -> Option<RangeInclusive<i64>> {
        if self.up_to.generation != me.generation || me.zxid > self.up_to.zxid {
            return None;
        }
        Some(if me.zxid > self.after { self.after + 1..=self.up_to.zxid } else { 0..=self.after })
    }
}

/// Whether a participant that is gone was let in. If it never learnt its own czxid, any opening since before it came
/// counts as one with it.
pub fn let_in(me: Option<Fence>, before: Option<Opening>, now: Option<Opening>) -> bool {
    match me {
        Some(me) => now.is_some_and(|now| now.round_of(me).is_some()),
        None => now.is_some() && now != before,
    }
}

/// The next step of a participant that enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entering {
    /// All are there: it is in.
    In,
    /// It is the last to arrive: it opens the barrier.
    Open,
    /// Remove the `ready` znode that a crash left behind.
    TidyUp,
    /// Wait until the barrier is opened.
    Wait,
    /// Participants of the previous round are still in: wait until they have left.
    WaitForElders,
}

/// Decides for a participant with this fence. An opening before it came was not for it, and those that it let in do not
/// count again: they are leaving.
pub fn entering(me: Fence, snapshot: &Snapshot, participants: usize) -> Entering {
    if let_in(Some(me), None, snapshot.opened) {
        return Entering::In;
    }
    let opened = let_in_before(me, snapshot.opened);
    match snapshot.ready {
        Some(ready) if ready > me.zxid => Entering::In,
        Some(ready) if snapshot.present.iter().any(|other| *other < ready) => Entering::WaitForElders,
        Some(_) => Entering::TidyUp,
        None if snapshot.present.iter().filter(|other| **other > opened).count() >= participants => {
            Entering::Open
        }
        None => Entering::Wait,
    }
}

/// The last czxid that was let in before this participant came.
pub fn let_in_before(me: Fence, opened: Option<Opening>) -> i64 {
    let opened = opened.map(|opened| opened.up_to).filter(|up_to| up_to.generation == me.generation);
    opened.map_or(0, |up_to| up_to.zxid)
}

/// The participants of this one's round, of those that are there (by name, with their czxids). All of them, if the
/// barrier was opened by a program that does not record rounds.
pub fn round(me: Fence, opened: Option<Opening>, there: Vec<(String, i64)>) -> Vec<String> {
    let round = opened.and_then(|opened| opened.round_of(me)).unwrap_or(0..=i64::MAX);
    there.into_iter().filter(|(_, czxid)| round.contains(czxid)).map(|(name, _)| name).collect()
}

/// Whether the `ready` znode belongs to this participant's round. `opened_at` is the transaction that recorded the last
/// opening, and `ready` the czxid of that znode.
pub fn is_of_my_round(me: Fence, opened: Option<Opening>, opened_at: i64, ready: i64) -> bool {
    match opened.filter(|opened| opened.round_of(me).is_some()) {
        Some(opened) => me.zxid > opened.after && ready == opened_at,
        // Kazoo records nothing, and removes any `ready` znode.
        None => true,
    }
}

/// The next step of a participant that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving<'a> {
    /// All others have left: it is out.
    Out,
    /// It deletes its own znode, and decides again.
    TakeBack,
    /// It waits until this one is gone.
    WaitFor(&'a str),
}

/// Decides for the participant of this name, among those of its round that are still there. Kazoo's rule: the first by
/// name stays until it is alone, and waits for the last; all others delete their znodes and wait for the first. So each
/// departure wakes few.
pub fn leaving<'a>(me: &str, still_there: &'a [String]) -> Leaving<'a> {
    let first = still_there.iter().min();
    match (first, still_there.iter().max()) {
        (Some(first), Some(last)) if first == me && last != me => Leaving::WaitFor(last),
        (Some(first), _) if !still_there.iter().any(|name| name == me) => Leaving::WaitFor(first),
        (Some(_), _) => Leaving::TakeBack,
        (None, _) => Leaving::Out,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ME: Fence = Fence { generation: 7, zxid: 50 };

    fn snapshot(present: &[i64], ready: Option<i64>, opened: Option<i64>) -> Snapshot {
        Snapshot { present: present.to_vec(), ready, opened: opened.map(|zxid| opening(0, zxid)) }
    }

    fn opening(after: i64, up_to: i64) -> Opening {
        Opening { after, up_to: Fence { zxid: up_to, ..ME } }
    }

    #[test]
    fn last_to_come_opens_and_all_go_in() {
        assert_eq!(entering(ME, &snapshot(&[40, 50], None, None), 3), Entering::Wait);
        assert_eq!(entering(ME, &snapshot(&[40, 45, 50], None, None), 3), Entering::Open);
        assert_eq!(entering(ME, &snapshot(&[50], Some(60), None), 3), Entering::In);
    }

    #[test]
    fn who_was_away_when_it_was_opened_goes_in_although_others_have_left() {
        assert_eq!(entering(ME, &snapshot(&[50], None, Some(50)), 3), Entering::In);
        assert_eq!(entering(ME, &snapshot(&[50], None, Some(49)), 3), Entering::Wait);
        let elsewhere = Some(Opening { after: 0, up_to: Fence { generation: 6, zxid: 99 } });
        let snapshot = Snapshot { opened: elsewhere, ..snapshot(&[50], None, None) };
        assert_eq!(entering(ME, &snapshot, 3), Entering::Wait);
    }

    #[test]
    fn those_of_the_round_before_do_not_count() {
        assert_eq!(entering(ME, &snapshot(&[20, 21, 50], None, Some(21)), 2), Entering::Wait);
        assert_eq!(entering(ME, &snapshot(&[21, 48, 50], None, Some(21)), 2), Entering::Open);
    }

    #[test]
    fn what_a_crash_left_behind_lets_nobody_in() {
        assert_eq!(entering(ME, &snapshot(&[30, 45, 50], Some(40), None), 3), Entering::WaitForElders);
        assert_eq!(entering(ME, &snapshot(&[44, 45, 50], Some(40), None), 3), Entering::TidyUp);
    }

    #[test]
    fn opening_survives_both_ways() {
        assert_eq!(Opening::parse(opening(3, 50).to_string().as_bytes()), Some(opening(3, 50)));
        for other in ["", "7-50", "7-50 x", "x 3", "7-50 3 4"] {
            assert_eq!(Opening::parse(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn who_never_learnt_its_number_takes_every_opening_since_for_its_own() {
        let (before, after) = (Some(opening(0, 40)), Some(opening(40, 60)));
        for (me, before, now, was_let_in) in [
            (Some(ME), None, after, true),
            (Some(ME), None, before, false),
            (None, before, before, false),
            (None, before, after, true),
            (None, None, before, true),
            (None, before, None, false),
        ] {
            assert_eq!(let_in(me, before, now), was_let_in, "{me:?} {before:?} {now:?}");
        }
    }

    #[test]
    fn round_is_who_was_let_in_together() {
        let there = || [30, 50, 55, 61].map(|czxid| (czxid.to_string(), czxid)).to_vec();
        for (opened, of_my_round) in [
            (Some(opening(20, 55)), vec!["30", "50", "55"]),
            (Some(opening(30, 55)), vec!["50", "55"]),
            (Some(opening(55, 70)), vec!["30", "50", "55"]),
            (Some(opening(20, 40)), vec!["30", "50", "55", "61"]),
            (None, vec!["30", "50", "55", "61"]),
        ] {
            assert_eq!(round(ME, opened, there()), of_my_round, "{opened:?}");
        }
    }

    #[test]
    fn only_that_all_of_my_round_are_there_is_mine_to_take_down() {
        for (opened, ready, mine, why) in [
            (Some(opening(20, 55)), 56, true, "written down together with my own opening"),
            (Some(opening(20, 55)), 58, false, "Python has opened the next round"),
            (Some(opening(55, 70)), 56, false, "one of ours has"),
            (Some(opening(20, 40)), 52, true, "Python has let me in"),
            (None, 52, true, "Python has let me in, the first time"),
        ] {
            assert_eq!(is_of_my_round(ME, opened, 56, ready), mine, "{why}");
        }
    }

    proptest! {
        /// In any order and with any crashes, all get out in the end, and nobody is out before all others leave.
        #[test]
        fn everybody_comes_out(
            count in 1_usize..7,
            order in prop::collection::vec((0_usize..7, any::<bool>()), 0..40),
        ) {
            let names: Vec<String> = (0..count).map(|n| format!("{:x}", (n * 7 + 3) % 16)).collect();
            let mut there = names.clone();
            let mut leaves = vec![false; count];
            let mut out = vec![false; count];
            let rest = (0..count * count * 3).map(|n| (n % count, false));
            for (who, crashes) in order.into_iter().map(|(who, crashes)| (who % count, crashes)).chain(rest) {
                if crashes {
                    there.retain(|name| *name != names[who]);
                    leaves[who] = true;
                    continue;
                }
                leaves[who] = true;
                match leaving(&names[who], &there) {
                    Leaving::Out => {
                        prop_assert!(leaves.iter().all(|leaves| *leaves), "out while another works");
                        out[who] = true;
                    }
                    Leaving::TakeBack => there.retain(|name| *name != names[who]),
                    Leaving::WaitFor(other) => prop_assert_ne!(other, names[who].as_str()),
                }
            }
            prop_assert_eq!(out, vec![true; count]);
        }
    }
}
