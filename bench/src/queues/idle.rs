//! Many idle queues.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use menagerie_queues::admin::{self, show};
use menagerie_znodes::queues::QueueName;

use super::ours::{Announced, Desk};
use super::{Bench, PATIENCE};
use crate::procfs;

const PARTITIONS: u16 = 10;
const WORKERS: usize = 2;
/// Taking this many partitions leaves work in the background: let it finish.
const REST: Duration = Duration::from_secs(5);
const MEASURED: Duration = Duration::from_secs(20);

pub fn measure(bench: &Bench<'_>, desk: &Desk, queues: usize) -> Result<()> {
    let names: Vec<QueueName> = (0..queues).map(|n| format!("idle-{n}").parse()).collect::<Result<_, _>>()?;
    for name in &names {
        desk.runtime.block_on(admin::create(&desk.session, &desk.journals, name, PARTITIONS, "main"))?;
    }
    let worker = || {
        let mut command = bench.command(&["worker"]);
        command.args(names.iter().map(ToString::to_string)).args(["--", "true"]);
        Announced::start(command).map(|(worker, _)| worker)
    };
    let workers = (0..WORKERS).map(|_| worker()).collect::<Result<Vec<_>>>()?;
    let all = queues * usize::from(PARTITIONS);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let listed = desk.runtime.block_on(show::workers(&desk.session))?;
        let taken: usize = listed.iter().map(|worker| worker.partitions.len()).sum();
        if taken >= all {
            break;
        }
        ensure!(Instant::now() < deadline, "only {taken} of {all} partitions are taken");
        std::thread::sleep(Duration::from_millis(100));
    }
    std::thread::sleep(REST);
    let cpu = |worker: &Announced| procfs::cpu_time(worker.pid()).map(|time| time.as_secs_f64());
    let before = workers.iter().map(cpu).collect::<Result<Vec<_>>>()?;
    std::thread::sleep(MEASURED);
    println!("\n{queues} queues of {PARTITIONS} partitions, {WORKERS} workers, nothing to do");
    for (worker, before) in workers.iter().zip(before) {
        let share = (cpu(worker)? - before) / MEASURED.as_secs_f64() * 100.0;
        println!(
            "worker {}: {share:.2} % of a core, {} MB",
            worker.pid(),
            procfs::resident_kib(worker.pid())? / 1024
        );
    }
    Ok(())
}
