//! What can be done about an error. Every error enum of ours answers `remedy()` with one of these.

/// What the caller may do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Try again: nothing has happened, or trying twice does no harm.
    Retry,
    /// Begin again from acquiring or opening: what was held is lost, or somebody else has it.
    Reacquire,
    /// Read again and decide again: somebody else was faster, and something is there or not there, against expectation.
    Conflict,
    /// A person must look at it.
    TellUser,
    /// It should not happen.
    Bug,
}
