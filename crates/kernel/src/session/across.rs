//! Work that goes on in the next ZooKeeper session when one is over.

use std::future::Future;

use tokio::sync::watch as level;
use tracing::debug;

use super::Session;
use super::term::Term;
use crate::error::CallError;

/// What work within a term fails with: whoever does it again in the next one must know whether the term was over.
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
    /// Does `work` in the term that we have now; and when that is over before the work is done, does it again in the next
    /// one, from its beginning. Ends with what the work returns, or with [`CallError::Closed`] when there is no session any
    /// more.
    ///
    /// - The term is over when the work says so: it fails with a call that [ended the term](CallError::ends_term). Any other
    ///   error is the caller's. Nothing interrupts work that waits for something else than the term.
    /// - The work may have been done in part, or altogether with its reply lost, so it must be safe to repeat. Work that
    ///   keeps something from one term to the next is done [term by term](Self::term_by_term).
    /// - It is given the term as [`term`](Self::term) gives it. Work that waits through lost connections makes it
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

    /// The same for work that changes something which it keeps from one term to the next; a closure could not lend that to its
    /// future.
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

/// Terms in which work is done until it is finished; see [`Session::term_by_term`].
#[derive(Debug)]
pub struct TermByTerm {
    terms: level::Receiver<Term>,
    term: Term,
}

impl TermByTerm {
    /// The term in which the work is to be done now.
    pub fn term(&self) -> Term {
        self.term.clone()
    }

    /// What came of the work; or `None`, once there is a new term in which to do it again. If there will be none, the outcome
    /// is the error, with [`CallError::Closed`] as its reason.
    pub async fn finished<T, E: TermError>(&mut self, outcome: Result<T, E>) -> Option<Result<T, E>> {
        let mut error = match outcome {
            Ok(done) => return Some(Ok(done)),
            Err(error) => error,
        };
        let Some(call) = error.call().filter(|call| call.ends_term()) else { return Some(Err(error)) };
        let number = self.term.number();
        debug!(term = number, "the session ended before the work was done; going on in the next one");
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
