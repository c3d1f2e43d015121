//! The protocol against bytes from anywhere: decoders that must never panic, values that must survive the wire, and
//! the exact bytes of facts measured on Apache ZooKeeper.

mod decoders;
mod exact;
mod round_trip;
mod source;
