//! End-to-end tests of the `menagerie` binary: real processes on real sockets and disks, which are killed, paused,
//! starved and lied to. There is nothing here but the tests, in `tests/it`, one file for each kind of trouble.
