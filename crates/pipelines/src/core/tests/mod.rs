//! Tests of the core: stories in `testdata/*.txt` that a person can read, and random ones.

mod random;
mod script;
mod sharing;
mod telling;
mod transcripts;
mod world;
