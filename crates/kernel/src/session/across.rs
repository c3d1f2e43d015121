//! Work that continues in the next ZooKeeper session when one is over.

use std::future::Future;

use tokio::sync::watch as level;
use tracing::debug;

use super::Session;
use super::term::Term;
use crate::error::CallError;

/// An error of work within a term. To repeat the work in the next term, [`Session::across_terms`] must know whether
/// this one was over.
pub trait TermError {
    /// The call that failed, if it was one.
    fn call(&mut self) -> Option<&mut CallError>;
}

impl TermError for CallError {
    fn call(&mut self) -> Option<&mut CallError> {
        Some(self)
    }
}

impl Session {
    /// Does `work` in the current term; if that ends before the work is done, repeats it in the next one, from its
    /// beginning. Returns what the work returns, or [`CallError::Closed`] when the session is closed.
    ///
    /// - The term is over when the work fails with a call that [ended the term](CallError::ends_term). Any other error
    ///   goes to the caller. Nothing interrupts work that waits for something else.
    /// - The work may have been done partly, or completely with its reply lost, so it must be safe to repeat. Work that
    ///   keeps state from one term to the next uses [`term_by_term`](Self::term_by_term).
    /// - It gets the term as [`term`](Self::term) returns it. Work that waits through lost connections makes it
    ///   [patient](Term::patient).
    ///
    /// Dropping the future drops the work where it stands.
    pub async fn across_terms<T, E: TermError, F>(&self, mut work: impl FnMut(Term) -> F) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
    {
        let mut terms = self.term_by_term();
        loop {
            let outcome = work(terms.term()).await;
            if let Some(outcome) = terms.finished(outcome).await {
                return outcome;
            }
        }
    }

    /// The same for work that changes state which it keeps from one term to the next; a closure could not lend that to
    /// its future.
    ///
    /// ```no_run
    /// # use menagerie_kernel::{CallError, Session, Term};
    /// # async fn look(term: &Term, looks: &mut u32) -> Result<(), CallError> { Ok(()) }
    /// # async fn example(session: &Session) -> Result<(), CallError> {
    /// let mut looks = 0;
    /// let mut terms = session.term_by_term();
    /// loop {
    ///     let outcome = look(&terms.term(), &mut looks).await;
    ///     if let Some(outcome) = terms.finished(outcome).await {
    ///         return outcome;
    ///     }
    /// }
    /// # }
    /// ```
    pub fn term_by_term(&self) -> TermByTerm {
        TermByTerm { terms: self.terms(), term: self.term() }
    }
}

/// Repeats work term by term; see [`Session::term_by_term`].
#[derive(Debug)]
pub struct TermByTerm {
    terms: level::Receiver<Term>,
    term: Term,
}

impl TermByTerm {
    /// The term in which to do the work now.
    pub fn term(&self) -> Term {
        self.term.clone()
    }

    /// The outcome of the work; or `None`, once there is a new term in which to repeat it. If there will be none, the
    /// outcome is the error with [`CallError::Closed`].
    pub async fn finished<T, E: TermError>(&mut self, outcome: Result<T, E>) -> Option<Result<T, E>> {
        let mut error = match outcome {
            Ok(done) => return Some(Ok(done)),
            Err(error) => error,
        };
        let Some(call) = error.call().filter(|call| call.ends_term()) else { return Some(Err(error)) };
        let number = self.term.number();
        debug!(term = number, "session ended before the work was done; continuing in the next one");
        match self.terms.wait_for(|term| term.number() > number).await {
            Ok(next) => {
                self.term = next.clone();
                None
            }
            Err(_) => {
                *call = CallError::Closed;
                Some(Err(error))
            }
        }
    }
}
