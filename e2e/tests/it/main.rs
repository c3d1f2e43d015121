//! The suites. Each starts its own keepers, so they can run concurrently.

mod access;
mod ask;
mod authority;
mod backup;
#[cfg(feature = "browser")]
mod browser;
mod children;
mod cli;
mod crash;
mod damage;
mod dice;
mod files;
mod flows;
mod full;
mod guide;
mod holding;
mod hostile;
mod journal;
mod large;
mod metrics;
#[cfg(feature = "strace")]
mod mid_write;
mod pipelines;
mod process;
mod queue_http;
mod queues;
mod resume;
mod slots;
mod slow;
mod snapshots;
mod start;
mod stop;
#[cfg(feature = "strace")]
mod strace;
mod stranger;
mod systemd;
mod time;
mod tls;
mod up;
mod web;
