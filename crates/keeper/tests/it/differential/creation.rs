//! The ways to create: an operation, the flags and the time to live that go with it, mostly as they should be.

use menagerie_wire::OpCode;

use super::dice::Dice;

/// An hour: no znode with a TTL expires while a script runs.
const TTL_MS: i64 = 3_600_000;

/// The largest TTL there is.
const TTL_MS_MAX: i64 = 0xff_ffff_ffff;

/// Flags that mean nothing.
const FLAGS_NEVER: i32 = 8;

/// Any way to create.
pub fn any(dice: &mut Dice) -> (OpCode, i32, Option<i64>) {
    let op = dice.weighted(&[
        (6, OpCode::Create),
        (6, OpCode::Create2),
        (2, OpCode::CreateContainer),
        (2, OpCode::CreateTtl),
    ]);
    let odd = dice.chance(8);
    if op == OpCode::CreateTtl {
        let ttl =
            if odd { dice.pick(&[TTL_MS_MAX, TTL_MS_MAX + 1, i64::MAX, i64::MIN, 0, -1]) } else { TTL_MS };
        // Another flag with a negative TTL is the request that Apache does not survive: see `known`.
        let flags = if ttl >= 0 && dice.chance(8) { dice.pick(&[0, 1, 4, 7]) } else { dice.pick(&[5, 5, 6]) };
        return (op, flags, Some(ttl));
    }
    let flags = match op {
        _ if odd => dice.pick(&[-1, 0, 1, 2, 3, 4, 5, 6, 7, FLAGS_NEVER]),
        OpCode::CreateContainer => 4,
        _ => dice.weighted(&[(10, 0), (6, 1), (4, 2), (3, 3)]),
    };
    (op, flags, None)
}

/// One whose flags belong to its operation, or to none: see `known`.
pub fn in_multi(dice: &mut Dice) -> (OpCode, i32, Option<i64>) {
    let (op, flags, ttl) = any(dice);
    let fit = match flags {
        0..=3 => matches!(op, OpCode::Create | OpCode::Create2),
        4 => op == OpCode::CreateContainer,
        5 | 6 => op == OpCode::CreateTtl,
        _ => true,
    };
    (op, if fit { flags } else { FLAGS_NEVER }, ttl)
}
