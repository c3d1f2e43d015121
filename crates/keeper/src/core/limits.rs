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
}

impl Default for Limits {
    fn default() -> Self {
        Self { transaction_bytes: 4 << 20, ephemeral_bytes: 96 << 20 }
    }
}
