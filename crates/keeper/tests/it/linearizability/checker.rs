//! Checks linearizability: whether a history could have come from a sequential server (Wing and Gong's search, with
//! Lowe's memory of visited states).

use std::collections::HashSet;

use super::history::{Answer, Op, Znode, serve};

/// A state of the search: which operations have happened, and the znode after them.
type SearchState = (Vec<u64>, Znode);

/// Whether there is an order of the operations that respects time and explains every answer. The znode is missing at
/// first.
pub fn is_linearizable(history: &[Op]) -> bool {
    let mut ops: Vec<&Op> = history.iter().filter(|op| !is_idle_talk(op)).collect();
    ops.sort_by_key(|op| op.from);
    let mut seen = HashSet::new();
    let mut open: Vec<SearchState> = vec![(vec![0; ops.len().div_ceil(64)], None)];
    while let Some((done, znode)) = open.pop() {
        let left = (0..ops.len()).filter(|at| !has(&done, *at));
        // An operation that was answered before another began must come before it.
        let horizon = left.clone().map(|at| deadline(ops[at])).min().unwrap_or(u64::MAX);
        if left.clone().all(|at| ops[at].answer == Answer::Nothing) {
            return true;
        }
        for at in left.take_while(|at| ops[*at].from <= horizon) {
            let (expected, after) = serve(znode, &ops[at].ask);
            // An operation without an answer matters only if it changed something.
            let unseen = ops[at].answer == Answer::Nothing && after != znode;
            if ops[at].answer == expected || unseen {
                let mut done = done.clone();
                done[at / 64] |= 1 << (at % 64);
                let state = (done, after);
                if seen.insert(state.clone()) {
                    open.push(state);
                }
            }
        }
    }
    false
}

fn has(done: &[u64], at: usize) -> bool {
    done[at / 64] & 1 << (at % 64) != 0
}

/// An operation without an answer may happen at any later time.
fn deadline(op: &Op) -> u64 {
    if op.answer == Answer::Nothing { u64::MAX } else { op.until }
}

/// A read without an answer says nothing.
fn is_idle_talk(op: &Op) -> bool {
    op.answer == Answer::Nothing && op.ask == super::history::Ask::Read
}

#[cfg(test)]
mod tests {
    use super::super::history::Answer::{Done, Exists, Found, Missing, Nothing, OtherVersion, Version};
    use super::super::history::Ask::{Create, Delete, Read, Set};
    use super::super::history::{Answer, Ask};
    use super::*;

    fn op(from: u64, until: u64, ask: Ask, answer: Answer) -> Op {
        Op { ask, answer, from, until }
    }

    #[test]
    fn one_after_the_other_is_linearizable() {
        assert!(is_linearizable(&[
            op(0, 1, Read, Missing),
            op(2, 3, Create(7), Done),
            op(4, 5, Create(8), Exists),
            op(6, 7, Set(9, Some(0)), Version(1)),
            op(8, 9, Set(10, Some(0)), OtherVersion),
            op(10, 11, Read, Found(9, 1)),
            op(12, 13, Delete(None), Done),
            op(14, 15, Delete(None), Missing),
        ]));
    }

    #[test]
    fn stale_read_is_not_linearizable() {
        let create = op(0, 1, Create(7), Done);
        let set = op(2, 3, Set(8, None), Version(1));
        assert!(is_linearizable(&[create.clone(), set.clone(), op(2, 9, Read, Found(7, 0))]));
        assert!(!is_linearizable(&[create, set, op(4, 9, Read, Found(7, 0))]));
    }

    #[test]
    fn lost_write_is_not_linearizable() {
        let history = [op(0, 1, Create(7), Done), op(2, 3, Read, Missing)];
        assert!(!is_linearizable(&history));
    }

    #[test]
    fn two_writers_cannot_both_win_the_same_version() {
        let create = op(0, 1, Create(7), Done);
        let sets = [op(2, 9, Set(8, Some(0)), Version(1)), op(2, 9, Set(9, Some(0)), Version(1))];
        assert!(is_linearizable(&[create.clone(), sets[0].clone()]));
        assert!(!is_linearizable(&[create, sets[0].clone(), sets[1].clone()]));
    }

    #[test]
    fn unanswered_write_may_happen_late_or_never_but_not_before_it_was_sent() {
        let create = op(0, 1, Create(7), Done);
        let unknown = op(2, 3, Set(8, None), Nothing);
        assert!(is_linearizable(&[create.clone(), unknown.clone(), op(4, 5, Read, Found(7, 0))]));
        assert!(is_linearizable(&[create.clone(), unknown.clone(), op(4, 5, Read, Found(8, 1))]));
        let late = [op(4, 5, Read, Found(7, 0)), op(6, 7, Read, Found(8, 1))];
        assert!(is_linearizable(&[&[create.clone(), unknown.clone()], &late[..]].concat()));
        let back = [op(4, 5, Read, Found(8, 1)), op(6, 7, Read, Found(7, 0))];
        assert!(!is_linearizable(&[&[create.clone(), unknown.clone()], &back[..]].concat()));
        let sent_later = op(6, 7, Set(8, None), Nothing);
        assert!(!is_linearizable(&[create, op(4, 5, Read, Found(8, 1)), sent_later]));
    }
}
