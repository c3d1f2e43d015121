//! Remedies. Every error enum of ours has a `remedy()`.

/// What the caller may do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Try again: nothing has happened, or it is idempotent.
    Retry,
    /// Begin again from acquiring or opening: what was held is lost, or somebody else has it.
    Reacquire,
    /// Read again and decide again: somebody else was faster, so something unexpectedly exists or is missing.
    Conflict,
    /// A person must look at it.
    TellUser,
    /// A bug of the caller or of ours.
    Bug,
}
