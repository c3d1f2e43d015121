//! A pass as one fenced transaction: events acknowledged, state changed, requests created.
//!
//! If it does not fit into one, `dirty` is created first. Requests come before the state that names them, and what a list
//! names before the list; deletions come after both, and the pipeline itself last. So after a crash in the middle, the next pass finds
//! requests and znodes that nobody refers to, and removes them; and perhaps queues that are named and gone, which it passes over.

use menagerie_kernel::recipes::grant::Grant;
use menagerie_kernel::recipes::sequence_queue::{EntryId, SequenceQueue};
use menagerie_kernel::{CallError, Term, Transaction, TransactionError, retry};
use menagerie_znodes::pipelines::{PipelineRef, PipelineZnodes, Request, RequestState};
use menagerie_znodes::{Kind, Raw, Znode};

use super::tree::Written;
use crate::PipelineError;
use crate::core::Effect;

/// What a pass writes.
pub struct PassWrite<'a> {
    /// The pipeline.
    pub at: &'a PipelineZnodes,
    /// What stands in the tree.
    pub old: &'a Written,
    /// What is to stand there.
    pub new: &'a Written,
    /// Its number, which the new tree has.
    pub number: u64,
    /// Requests to create.
    pub effects: &'a [Effect],
    /// Events that it has taken in.
    pub acked: &'a [(SequenceQueue, Vec<EntryId>)],
    /// Whether `dirty` exists.
    pub is_dirty: bool,
}

impl PassWrite<'_> {
    /// Writes all of it. After an error nothing is known, and the tree must be read again.
    pub async fn commit(&self, grant: &Grant) -> Result<(), PipelineError> {
        let term = grant.term().patient();
        let mut pieces = self.requests(&term);
        pieces.extend(self.changes(&term));
        let end = self.end(&term);
        let fits = |transaction: &Transaction, piece: &Transaction| {
            transaction.bytes() + piece.bytes() <= Transaction::BYTES_MAX
        };
        let (mut next, mut is_dirty) = (grant.transaction(), self.is_dirty);
        for piece in pieces {
            // Room for the end must be left in any case, and it is short: acknowledgements and one number.
            if !fits(&next, &piece) {
                if !is_dirty {
                    let dirty = grant.transaction().create(&self.at.dirty(), &());
                    commit_part(dirty).await?;
                    is_dirty = true;
                }
                commit_part(std::mem::replace(&mut next, grant.transaction())).await?;
            }
            next = next.and(piece);
        }
        if !fits(&next, &end) {
            commit_part(std::mem::replace(&mut next, grant.transaction())).await?;
        }
        next = next.and(end);
        if is_dirty {
            next = next.delete(&self.at.dirty(), None);
        }
        let root = self.at.root();
        let proof = || async {
            Ok(term.read(&root).await?.filter(|found| found.value.passes == self.number).map(|_| Vec::new()))
        };
        retry::commit(next, proof).await?;
        for (queue, entries) in self.acked {
            queue.forget_sides(entries).await;
        }
        Ok(())
    }

    fn requests(&self, term: &Term) -> Vec<Transaction> {
        let requested = self.effects.iter().filter_map(|effect| match effect {
            Effect::Submit { queue, id, precedence, params } => {
                let request = Request {
                    state: RequestState::Requested,
                    precedence: *precedence,
                    pipeline: Some(PipelineRef {
                        tenant: self.at.tenant.clone(),
                        pipeline: self.at.pipeline.clone(),
                    }),
                    worker: None,
                };
                let transaction = Transaction::new(term).create(&queue.param(id), params);
                Some(transaction.create(&queue.request(id), &request))
            }
            Effect::Answer { .. } => None,
        });
        requested.collect()
    }

    /// What differs between the trees, but for the pipeline itself. Parents are created before their children, and deleted
    /// after them.
    fn changes(&self, term: &Term) -> Vec<Transaction> {
        let root = self.at.root();
        let is_root = |path: &str| path == root.path();
        let mut pieces = Vec::new();
        let differs = |path: &String, data: &Vec<u8>| self.old.get(path) != Some(data) && !is_root(path);
        let changed: Vec<_> = self.new.iter().filter(|(path, data)| differs(path, data)).collect();
        for (path, data) in changed.iter().filter(|(path, _)| !self.old.contains_key(*path)) {
            pieces.push(Transaction::new(term).create(&raw(path), &Raw((*data).clone())));
        }
        for (path, data) in changed.iter().filter(|(path, _)| self.old.contains_key(*path)) {
            pieces.push(Transaction::new(term).set(&raw(path), &Raw((*data).clone()), None));
        }
        for path in self.old.keys().rev().filter(|path| !self.new.contains_key(*path)) {
            pieces.push(Transaction::new(term).delete(&raw(path), None));
        }
        pieces
    }

    /// What makes the pass happen: events acknowledged, and its number.
    fn end(&self, term: &Term) -> Transaction {
        let mut end = Transaction::new(term);
        for (queue, entries) in self.acked {
            for entry in entries {
                end = queue.ack_with(end, entry);
            }
        }
        let root = self.at.root();
        let data = self.new.get(root.path()).cloned().unwrap_or_default();
        end.set(&raw(root.path()), &Raw(data), None)
    }
}

/// A znode of a tree that was rendered.
fn raw(path: &str) -> Znode<Raw> {
    Znode::foreign(path, Kind::Persistent)
}

async fn commit_part(transaction: Transaction) -> Result<(), PipelineError> {
    match transaction.commit().await {
        Ok(_) => Ok(()),
        Err(TransactionError::Part { source: CallError::Exists { path }, .. })
            if path.ends_with("/dirty") =>
        {
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
