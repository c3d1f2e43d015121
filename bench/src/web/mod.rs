//! `bench web`: what pages and live viewers cost, with thousands of things to show.
//!
//! # Layout
//! - `site.rs`: servers with queues and messages, and a web server of its own, so that its CPU time can be told.
//!   `viewers.rs`: pages and streams, over plain sockets.
//! - this file: the verb and the output.

mod site;
mod viewers;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::time::sleep;

use self::site::Site;
use self::viewers::{Viewers, fetch};
use crate::procfs::{self, cpu_time};
use crate::stats::{Spread, percentile};

/// Measure the pages, many live viewers, how soon a change is shown, and what a web server costs that nobody looks at
#[derive(clap::Args)]
pub struct Web {
    /// Queues of four partitions
    #[arg(long, default_value_t = 1_000)]
    queues: usize,
    /// Messages that wait in the first of them
    #[arg(long, default_value_t = 10_000)]
    messages: usize,
    /// Live viewers
    #[arg(long, default_value_t = 500)]
    viewers: usize,
    /// Messages a second while they look
    #[arg(long, default_value_t = 1_000)]
    rate: usize,
    /// Changes whose way to a page is timed
    #[arg(long, default_value_t = 100)]
    changes: usize,
    /// Measured seconds of viewers, and of nobody
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// The `menagerie` binary; beside this one unless given
    #[arg(long)]
    menagerie: Option<PathBuf>,
    /// A folder on the disk under test; not on a file system in memory
    #[arg(long, default_value = "/var/tmp")]
    scratch: PathBuf,
}

/// Pages, each read this often.
const PAGES: [&str; 9] = [
    "/",
    "/slots",
    "/queues",
    "/queues/q0000",
    "/queues/q0000/failed",
    "/flows",
    "/znodes",
    "/znodes?path=/queues",
    "/keeper",
];
const READS: usize = 20;

impl Web {
    pub fn run(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.measure())
    }

    async fn measure(self) -> Result<()> {
        let beside = || -> Result<PathBuf> {
            Ok(std::env::current_exe().context("who am I?")?.with_file_name("menagerie"))
        };
        let menagerie = self.menagerie.clone().map_or_else(beside, Ok)?;
        let folder = tempfile::tempdir_in(&self.scratch)?;
        let site = Site::start(&menagerie, folder.path())?;
        println!("{}", procfs::machine());
        let seconds = Duration::from_secs(self.seconds);
        let idle = share(site.web_pid(), seconds).await?;
        println!("nobody looks: {:.2} % of a core", idle * 100.0);
        site.fill(self.queues, self.messages)?;
        println!("{} queues of 4 partitions, {} messages that wait", self.queues, self.messages);
        println!("{:<24} {:>12} {:>10} {:>10}", "page", "median ms", "max ms", "bytes");
        for page in PAGES {
            let (mut times, mut bytes) = (Vec::new(), 0);
            for _ in 0..READS {
                let read = fetch(site.address, page).await?;
                times.push(read.took.as_secs_f64() * 1000.0);
                bytes = read.bytes;
            }
            let spread = Spread::of(times).context("a page was read")?;
            println!("{page:<24} {:>12.1} {:>10.1} {bytes:>10}", spread.median, spread.max);
        }
        self.live(&site, seconds).await
    }

    async fn live(&self, site: &Site, seconds: Duration) -> Result<()> {
        let viewers = Viewers::open(site.address, self.viewers).await?;
        let putting = site.put_steadily("q0001", self.rate)?;
        // Streams that have just been opened are sent everything once.
        sleep(Duration::from_secs(3)).await;
        let before = viewers.events();
        let used = share(site.web_pid(), seconds).await?;
        let events = (viewers.events() - before) as f64 / seconds.as_secs_f64();
        println!(
            "{} live viewers, {} messages/s: {:.1} % of a core, {events:.0} pages sent/s",
            self.viewers,
            self.rate,
            used * 100.0
        );
        drop((viewers, putting));
        let mut delays = Vec::new();
        for number in 0..self.changes {
            delays.push(u32::try_from(site.time_change(number).await?.as_micros()).unwrap_or(u32::MAX));
        }
        delays.sort_unstable();
        let ms = |fraction| f64::from(percentile(&delays, fraction)) / 1000.0;
        println!("a change is shown after {:.0} ms (median), {:.0} ms (p95)", ms(0.5), ms(0.95));
        Ok(())
    }
}

/// The share of a core that a process uses.
async fn share(pid: u32, time: Duration) -> Result<f64> {
    let before = cpu_time(pid)?;
    sleep(time).await;
    Ok((cpu_time(pid)? - before).as_secs_f64() / time.as_secs_f64())
}
