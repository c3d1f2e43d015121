//! How much clients may make us write and hold. Nothing here is met by a client that means well.

/// The bounds. The defaults are what the server runs with; tests choose lower ones, to meet them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the transaction that one request becomes. A request of a whole frame becomes less than three times as long,
    /// unless its access lists say `auth`, which stands for all identities of the client.
    pub transaction_bytes: usize,
    /// Bytes of the transaction that ends a session, which holds the paths of all its ephemeral znodes. What is on its way
    /// to disk does not count yet.
    pub ephemeral_bytes: u64,
    /// Bytes of the watches of one connection: their paths, and [`WATCH_BYTES`](super::watches::WATCH_BYTES) for each.
    pub watch_bytes_per_connection: usize,
    /// Bytes of all watches.
    pub watch_bytes: usize,
    /// Sessions. Each lives for its time-out at least, whether its client is still there or not.
    pub sessions: usize,
    /// Bytes of the names of children in one reply.
    pub names_bytes: usize,
    /// Bytes of data and names in the reply to one `multiRead`.
    pub multi_read_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            transaction_bytes: 4 << 20,
            ephemeral_bytes: 96 << 20,
            watch_bytes_per_connection: 256 << 20,
            watch_bytes: 1 << 30,
            sessions: 1_000_000,
            names_bytes: 256 << 20,
            multi_read_bytes: 64 << 20,
        }
    }
}
