//! Prints the measurements as a table or as JSON.

use std::fmt::Write;

use serde::Serialize;

use super::load::Sample;
use super::memory::Memory;
use super::reload::Reload;
use super::rounds::RowResult;
use super::startup::Startup;
use super::targets::{self, Verdict};
use crate::servers::Kind;
use crate::stats::Spread;

#[derive(Debug, Serialize)]
pub struct Report {
    pub machine: String,
    pub rounds: usize,
    pub seconds: f64,
    pub rows: Vec<RowResult>,
    pub startup: Vec<Startup>,
    pub memory: Vec<Memory>,
    pub reload: Vec<Reload>,
    pub verdicts: Vec<Verdict>,
}

impl Report {
    /// Compares the measurements with the targets.
    pub fn judge(&mut self) {
        self.verdicts = self.rows.iter().flat_map(targets::of_row).collect();
        self.verdicts.extend(targets::of_startup(&self.startup));
        self.verdicts.extend(targets::of_memory(&self.memory));
        self.verdicts.extend(targets::of_reload(&self.reload));
    }

    /// For a person.
    pub fn table(&self) -> String {
        let mut out = format!(
            "{}; {} rounds of {} s, medians; others: cores busy with other work\n",
            self.machine, self.rounds, self.seconds
        );
        // Writing to a string cannot fail.
        let _ = self.write_rows(&mut out).and_then(|()| self.write_sections(&mut out));
        let _ = self.write_verdicts(&mut out);
        out
    }

    fn write_rows(&self, out: &mut String) -> std::fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        writeln!(
            out,
            "\n{:<12} {:<7} {:>8} {:>17} {:>9} {:>9} {:>11} {:>11} {:>7}",
            "row", "server", "ops/s", "(min-max)", "p50 ms", "p99 ms", "cpu us/op", "client cpu", "others"
        )?;
        for result in &self.rows {
            for samples in &result.servers {
                write_samples(out, result, samples.server, &samples.rounds)?;
            }
            for other in [Kind::Apache, Kind::Null] {
                write_ratios(out, result, other)?;
            }
        }
        Ok(())
    }

    fn write_sections(&self, out: &mut String) -> std::fmt::Result {
        for Startup { server, ready_ms } in &self.startup {
            let Spread { median, min, max } = ready_ms;
            writeln!(out, "\nstartup, empty folder: {} {median:.1} ms ({min:.1}-{max:.1})", server.name())?;
        }
        for Memory { server, empty_mib, filled_mib } in &self.memory {
            writeln!(
                out,
                "\nresident memory: {} {empty_mib:.1} MiB empty, {filled_mib:.1} MiB with 100,000 znodes",
                server.name()
            )?;
        }
        for Reload { server, fill_s, killed_s, stopped_s } in &self.reload {
            writeln!(
                out,
                "\nreload of 1,000,000 znodes: {} {killed_s:.2} s after SIGKILL, {stopped_s:.2} s after SIGTERM \
                 (filled in {fill_s:.1} s)",
                server.name()
            )?;
        }
        Ok(())
    }

    fn write_verdicts(&self, out: &mut String) -> std::fmt::Result {
        if self.verdicts.is_empty() {
            return writeln!(out, "\nno verdicts: they need the keeper and what it is compared with");
        }
        writeln!(out, "\n{:<6} {:<17} {:<45} measured", "", "what", "target")?;
        for Verdict { what, target, measured, reached } in &self.verdicts {
            let word = if *reached { "PASS" } else { "MISS" };
            writeln!(out, "{word:<6} {what:<17} {target:<45} {measured}")?;
        }
        let missed = self.verdicts.iter().filter(|verdict| !verdict.reached).count();
        writeln!(out, "\n{} of {} targets reached", self.verdicts.len() - missed, self.verdicts.len())
    }
}

fn write_samples(out: &mut String, result: &RowResult, server: Kind, rounds: &[Sample]) -> std::fmt::Result {
    let spread = |field: fn(&Sample) -> f64| Spread::of(rounds.iter().map(field));
    let median = |field| spread(field).map_or(f64::NAN, |spread| spread.median);
    let Some(ops) = spread(|sample| sample.ops_per_s) else { return Ok(()) };
    writeln!(
        out,
        "{:<12} {:<7} {:>8.0} {:>17} {:>9.3} {:>9.3} {:>11.1} {:>11.1} {:>7.2}",
        result.row,
        server.name(),
        ops.median,
        format!("({:.0}-{:.0})", ops.min, ops.max),
        median(|sample| sample.p50_us / 1e3),
        median(|sample| sample.p99_us / 1e3),
        median(|sample| sample.server_cpu_us),
        median(|sample| sample.client_cpu_us),
        median(|sample| sample.other_cores),
    )
}

fn write_ratios(out: &mut String, result: &RowResult, other: Kind) -> std::fmt::Result {
    let ratio = |field| targets::ratio(result, other, field);
    let (Some(ops), Some(p50), Some(cpu)) = (
        ratio(|sample| sample.ops_per_s),
        ratio(|sample| sample.p50_us),
        ratio(|sample| sample.server_cpu_us),
    ) else {
        return Ok(());
    };
    writeln!(
        out,
        "    keeper/{:<6} ops {:.2}x ({:.2}-{:.2})   p50 {:.2}x ({:.2}-{:.2})   cpu {:.2}x",
        other.name(),
        ops.median,
        ops.min,
        ops.max,
        p50.median,
        p50.min,
        p50.max,
        cpu.median
    )
}
