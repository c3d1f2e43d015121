//! The targets, as functions of the samples. Targets compare medians of per-round ratios.

use serde::Serialize;

use super::load::Sample;
use super::memory::Memory;
use super::reload::Reload;
use super::rounds::RowResult;
use super::rows::{Op, Row};
use super::startup::Startup;
use crate::servers::Kind;
use crate::stats::Spread;

/// A target and whether it was reached.
#[derive(Debug, Serialize)]
pub struct Verdict {
    pub what: String,
    pub target: &'static str,
    pub measured: String,
    pub reached: bool,
}

/// The keeper against another server, round by round.
#[derive(Debug, Clone, Copy)]
struct Against {
    ops: f64,
    p50: f64,
    cpu: f64,
}

impl Against {
    fn of(result: &RowResult, other: Kind) -> Option<Self> {
        let ratio = |field| ratio(result, other, field).map(|spread| spread.median);
        Some(Self {
            ops: ratio(|s| s.ops_per_s)?,
            p50: ratio(|s| s.p50_us)?,
            cpu: ratio(|s| s.server_cpu_us)?,
        })
    }
}

/// The keeper's figure over another server's; `None` if either did not take part.
pub fn ratio(result: &RowResult, other: Kind, field: fn(&Sample) -> f64) -> Option<Spread> {
    let (keeper, other) = (result.of(Kind::Keeper)?, result.of(other)?);
    Spread::of_ratios(keeper.iter().map(field), other.iter().map(field))
}

/// The two targets of a row: speed and CPU time. None unless all three servers took part.
pub fn of_row(result: &RowResult) -> Vec<Verdict> {
    let (Some(apache), Some(null)) = (Against::of(result, Kind::Apache), Against::of(result, Kind::Null))
    else {
        return Vec::new();
    };
    vec![speed(result.row, apache, null), cpu(result.row, apache)]
}

fn speed(row: Row, apache: Against, null: Against) -> Verdict {
    let by_ops = format!("{:.2}x apache, {:.2}x null ops/s", apache.ops, null.ops);
    let by_p50 =
        format!("p50 {:.2}x null's, {:.2}x apache's; {:.2}x apache ops/s", null.p50, apache.p50, apache.ops);
    let (target, measured, reached) = match row {
        Row { op: Op::Get, .. } | Row { in_flight: 2.., .. } => {
            (">= 2x apache, or >= null / 1.2", by_ops, apache.ops >= 2.0 || null.ops >= 1.0 / 1.2)
        }
        Row { op: Op::Lock, .. } | Row { clients: 1, .. } => (
            "p50 <= 1.3x null's, never slower than apache",
            by_p50,
            null.p50 <= 1.3 && apache.p50 <= 1.0 && apache.ops >= 1.0,
        ),
        Row { op: Op::Set | Op::Create, .. } => (">= 1.5x apache", by_ops, apache.ops >= 1.5),
    };
    Verdict { what: row.to_string(), target, measured, reached }
}

fn cpu(row: Row, apache: Against) -> Verdict {
    Verdict {
        what: format!("{row} cpu"),
        target: "<= 1/4 of apache's per op",
        measured: format!("{:.2}x apache's", apache.cpu),
        reached: apache.cpu <= 0.25,
    }
}

/// Start-up on an empty folder.
pub fn of_startup(startups: &[Startup]) -> Option<Verdict> {
    let keeper = startups.iter().find(|startup| startup.server == Kind::Keeper)?;
    Some(Verdict {
        what: "startup".to_owned(),
        target: "<= 100 ms on an empty folder",
        measured: format!("{:.1} ms", keeper.ready_ms.median),
        reached: keeper.ready_ms.median <= 100.0,
    })
}

/// Memory for 100,000 znodes.
pub fn of_memory(memories: &[Memory]) -> Option<Verdict> {
    let of = |kind| memories.iter().find(|memory| memory.server == kind);
    let (keeper, apache) = (of(Kind::Keeper)?, of(Kind::Apache)?);
    let share = keeper.filled_mib / apache.filled_mib;
    Some(Verdict {
        what: "memory".to_owned(),
        target: "<= 1/5 of apache's for 100,000 znodes",
        measured: format!("{:.1} of {:.1} MiB: {share:.3}x", keeper.filled_mib, apache.filled_mib),
        reached: share <= 0.2,
    })
}

/// Reload of 1,000,000 znodes, however the server ended.
pub fn of_reload(reloads: &[Reload]) -> Option<Verdict> {
    let keeper = reloads.iter().find(|reload| reload.server == Kind::Keeper)?;
    Some(Verdict {
        what: "reload".to_owned(),
        target: "1,000,000 znodes <= 5 s",
        measured: format!("{:.2} s after SIGKILL, {:.2} s after SIGTERM", keeper.killed_s, keeper.stopped_s),
        reached: keeper.killed_s.max(keeper.stopped_s) <= 5.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn against(ops: f64, p50: f64) -> Against {
        Against { ops, p50, cpu: 0.2 }
    }

    fn row(op: Op, clients: usize, in_flight: usize) -> Row {
        Row { op, clients, in_flight }
    }

    #[test]
    fn reads_may_instead_be_near_the_null_server() {
        let get = row(Op::Get, 1, 1);
        assert!(speed(get, against(1.4, 0.7), against(0.9, 1.1)).reached);
        assert!(!speed(get, against(1.4, 0.7), against(0.8, 1.2)).reached);
        assert!(speed(get, against(2.0, 0.5), against(0.5, 2.0)).reached);
    }

    #[test]
    fn lone_writes_and_the_lock_are_judged_by_the_null_servers_p50() {
        for row in [row(Op::Set, 1, 1), row(Op::Lock, 8, 1)] {
            assert!(speed(row, against(1.1, 0.9), against(0.8, 1.3)).reached);
            assert!(!speed(row, against(1.1, 0.9), against(0.8, 1.4)).reached);
            assert!(!speed(row, against(0.9, 0.9), against(0.8, 1.2)).reached);
        }
    }

    #[test]
    fn concurrent_writes_are_judged_by_apaches_throughput() {
        assert!(speed(row(Op::Create, 8, 1), against(1.5, 1.0), against(0.2, 9.0)).reached);
        assert!(!speed(row(Op::Create, 8, 64), against(1.5, 1.0), against(0.2, 9.0)).reached);
    }
}
