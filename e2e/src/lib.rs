//! End-to-end tests of the `menagerie` binary: real processes on real sockets and disks, which are killed, paused,
//! starved and lied to. Everything is in `tests/it`, one file per kind of trouble.
