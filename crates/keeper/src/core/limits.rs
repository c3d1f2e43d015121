//! Limits on what clients make the server write and hold. Well-behaved clients stay far below them.

/// The limits. The server uses the defaults; tests lower them to reach them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the transaction that one request turns into. A request that fills a frame grows to less than three times
    /// its length, unless its access lists contain `auth`, which expands to all identities of the client.
    pub transaction_bytes: usize,
    /// Bytes of the transaction that ends a session: it names all ephemeral znodes of the session. Creations that are not
    /// durable yet do not count, so the limit can be exceeded by what is in flight.
    pub ephemeral_bytes: u64,
    /// Bytes of the watches of one connection: their paths, and [`WATCH_BYTES`](super::watches::WATCH_BYTES) for each.
    pub watch_bytes_per_connection: usize,
    /// Bytes of all watches.
    pub watch_bytes: usize,
    /// Sessions, including those whose client is gone and whose time-out has not passed yet.
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
