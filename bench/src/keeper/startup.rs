//! How long a server takes from the start of its process until it is ready, on an empty folder.

use anyhow::Result;
use serde::Serialize;

use crate::servers::{Kind, Launcher};
use crate::stats::Spread;

/// Starts per server; the first may have to read the binary from the disk.
const STARTS: usize = 5;

#[derive(Debug, Serialize)]
pub struct Startup {
    pub server: Kind,
    pub ready_ms: Spread,
}

/// Starts the server several times.
pub fn measure(launcher: &Launcher, kind: Kind) -> Result<Startup> {
    let mut ready_ms = Vec::new();
    for _ in 0..STARTS {
        ready_ms.push(launcher.start(kind)?.ready_after.as_secs_f64() * 1e3);
    }
    let ready_ms = Spread::of(ready_ms).expect("it was started at least once");
    eprintln!("startup      {:<7} {:.1} ms", kind.name(), ready_ms.median);
    Ok(Startup { server: kind, ready_ms })
}
