//! Tests of the test tools, on real servers.
mod ask;
mod expiry;
mod guards;
#[cfg(feature = "in-process")]
mod in_process;
#[cfg(feature = "journal")]
mod journal;
#[cfg(feature = "apache")]
mod languages;
mod proxy;
mod servers;
mod shared;
mod suspend;
#[cfg(feature = "apache")]
mod three;
mod waiting;
#[cfg(feature = "world")]
mod world;
