//! `bench journal`: the journal over its socket and in process, beside `nats-server`.
//!
//! # Layout
//! - `ours.rs`: starts `menagerie journal` and drives each row. `nats.rs`: the same load for JetStream, spoken by hand.

mod nats;
mod ours;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::procfs;

/// Bytes of a message.
pub const BODY: usize = 256;
/// Messages of a batch.
pub const BATCH: usize = 500;
/// Batches in flight.
pub const BATCHES: usize = 8;
/// Single messages in flight on one connection.
pub const SINGLES: usize = BATCHES * BATCH;
/// Roughly the interval between appends in the delivery row.
const PACE: Duration = Duration::from_millis(4);

/// Measure the journal, beside nats-server where there is one.
#[derive(clap::Args)]
pub struct Journal {
    /// Measured seconds of each row
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Messages stored for memory and reopening; 0 leaves that out
    #[arg(long, default_value_t = 10_000_000)]
    stored: u64,
    /// The `menagerie` binary; beside this one unless given
    #[arg(long)]
    menagerie: Option<PathBuf>,
    /// The `nats-server` binary; left out unless given
    #[arg(long, env = "NATS_SERVER")]
    nats: Option<PathBuf>,
    /// A folder on the disk under test; not on a file system in memory
    #[arg(long, default_value = "/var/tmp")]
    folder: PathBuf,
}

impl Journal {
    pub fn run(self) -> Result<()> {
        println!("{}", procfs::machine());
        let beside = std::env::current_exe()?.with_file_name("menagerie");
        let menagerie = self.menagerie.unwrap_or(beside);
        let folder = tempfile::tempdir_in(&self.folder).context("cannot make a folder")?;
        println!(
            "fdatasync of 4 KiB, one after the other, p50: {:.2} ms",
            fdatasync_ms(folder.path(), Duration::ZERO)?
        );
        println!("fdatasync of 4 KiB, every 4 ms, p50: {:.2} ms", fdatasync_ms(folder.path(), PACE)?);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let ours = ours::Ours { menagerie: &menagerie, folder: folder.path(), seconds: self.seconds };
            ours.rows().await?;
            if let Some(nats) = &self.nats {
                for sync in ["always", "2m"] {
                    nats::rows(nats, folder.path(), sync, self.seconds).await?;
                }
            }
            if self.stored > 0 {
                ours.stored(self.stored).await?;
            }
            Ok(())
        })
    }
}

/// Median of some syncs of this disk. On a machine that idles in between each takes longer, and a lone append meets
/// exactly that.
fn fdatasync_ms(folder: &std::path::Path, pace: Duration) -> Result<f64> {
    use std::os::unix::fs::FileExt as _;
    let file = std::fs::File::create(folder.join("sync"))?;
    file.write_all_at(&vec![0; 1 << 20], 0)?;
    file.sync_all()?;
    let mut times: Vec<f64> = Vec::new();
    for n in 0..200 {
        std::thread::sleep(pace);
        file.write_all_at(&[1; 4096], n * 4096)?;
        let begun = Instant::now();
        file.sync_data()?;
        times.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
