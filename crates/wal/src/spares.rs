//! Files of zeroes, made ready in the background so that a roll need not wait for one.
//!
//! A spare is used only after its zeroes are durable. A segment that is no longer needed becomes a spare again: it
//! loses its name first, durably, and is overwritten only then; else a power cut could leave a segment of zeroes.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use tracing::{debug, warn};

use crate::dir::{Dir, ZEROES};
use crate::disk::Background;
use crate::error::Error;
use crate::names::{self, Name};
use crate::segment::Spare;

/// Ready or in the making; one in use soon and one more when segments come back faster than they are needed.
const SPARES_MAX: usize = 2;
/// How often a waiting roll checks whether the thread is alive; only a panic ends it.
const THREAD_CHECK: Duration = Duration::from_secs(1);

enum Job {
    /// Zero a spare, creating it if need be.
    Fill { number: u64 },
    /// Turn a covered segment into a spare.
    Recycle { base: u64, number: u64 },
    /// Remove a covered segment.
    Remove { base: u64 },
}

/// The outcome of a job.
struct Outcome {
    /// Whether the job produces a spare.
    fills: bool,
    result: Result<Option<Spare>, Error>,
}

/// The spares of one log.
pub(crate) struct Spares {
    dir: Dir,
    length: u64,
    ready: VecDeque<Spare>,
    /// Files left over from an earlier run; their contents are unknown, so they are zeroed like new ones.
    leftover: Vec<u64>,
    next_number: u64,
    /// Jobs in progress that will produce a spare.
    pending: usize,
    /// Room is short: no spare is kept or prepared.
    thrifty: bool,
    worker: Worker,
}

impl Spares {
    pub(crate) fn new(dir: Dir, length: u64, mut found: Vec<u64>) -> Result<Self, Error> {
        let next_number = found.iter().max().map_or(0, |number| number + 1);
        for surplus in found.split_off(found.len().min(SPARES_MAX)) {
            dir.remove(&names::spare(surplus))?;
        }
        let worker = Worker::new(dir.clone(), length);
        let (ready, leftover, pending, thrifty) = (VecDeque::new(), found, 0, false);
        Ok(Self { dir, length, ready, leftover, next_number, pending, thrifty, worker })
    }

    pub(crate) fn is_thrifty(&self) -> bool {
        self.thrifty
    }

    /// While thrifty, no spares are kept. One in the making is removed when it is collected.
    pub(crate) fn set_thrifty(&mut self, thrifty: bool) -> Result<(), Error> {
        self.thrifty = thrifty;
        self.collect()?;
        if thrifty {
            let kept: Vec<u64> =
                self.leftover.drain(..).chain(self.ready.drain(..).map(|spare| spare.number)).collect();
            for number in kept {
                self.remove(number)?;
            }
        }
        Ok(())
    }

    fn remove(&mut self, number: u64) -> Result<(), Error> {
        match self.dir.remove(&names::spare(number)).map_err(Error::or_full) {
            // Some file systems need room to remove something.
            Err(error) if error.is_full() => self.leftover.push(number),
            other => other?,
        }
        Ok(())
    }

    /// Makes sure that one spare is ready or being made.
    pub(crate) fn want(&mut self) -> Result<(), Error> {
        if self.ready.is_empty() && self.pending == 0 && !self.thrifty {
            let number = self.number();
            self.submit(Job::Fill { number })?;
        }
        Ok(())
    }

    /// Removes a covered segment from the log, keeping its file if another spare is useful.
    pub(crate) fn take_back(&mut self, base: u64) -> Result<(), Error> {
        let kept = self.ready.len() + self.pending + self.leftover.len();
        if kept < SPARES_MAX && !self.thrifty {
            let number = self.fresh_number();
            self.submit(Job::Recycle { base, number })
        } else {
            self.submit(Job::Remove { base })
        }
    }

    /// A spare of `length` bytes: a ready one, or the one being made, or one made now.
    pub(crate) fn take(&mut self, length: u64) -> Result<Spare, Error> {
        self.collect()?;
        if length == self.length {
            while self.ready.is_empty() && self.pending > 0 {
                let Some(outcome) = self.worker.wait() else { break };
                self.note(outcome)?;
            }
            if let Some(spare) = self.ready.pop_front() {
                return Ok(spare);
            }
        }
        let number = self.number();
        debug!(number, length, "no spare segment is ready, making one now");
        let filled = fill_or_remove(&self.dir, number, length, &AtomicBool::new(false))?;
        Ok(filled.expect("nobody else has the flag that would stop it"))
    }

    /// Records that the file of a taken spare still exists, and may be used again after zeroing.
    pub(crate) fn give_up(&mut self, number: u64) {
        self.leftover.push(number);
    }

    /// Collects the outcomes of background jobs. An error there is an error of the log's device, and the kernel reports
    /// it to only one caller of sync, so it counts like our own.
    pub(crate) fn collect(&mut self) -> Result<(), Error> {
        while let Some(outcome) = self.worker.poll() {
            self.note(outcome)?;
        }
        Ok(())
    }

    /// Ends the background work, in the middle of a spare if need be.
    pub(crate) fn stop(&mut self) -> Result<(), Error> {
        self.worker.stop();
        self.collect()
    }

    fn submit(&mut self, job: Job) -> Result<(), Error> {
        self.pending += usize::from(job.fills());
        self.worker.submit(job);
        self.collect()
    }

    fn note(&mut self, outcome: Outcome) -> Result<(), Error> {
        self.pending -= usize::from(outcome.fills);
        match outcome.result {
            Ok(Some(spare)) if self.thrifty => self.remove(spare.number)?,
            Ok(spare) => self.ready.extend(spare),
            // A spare is not needed yet; when it is, the roll will try again and report. A segment is removed with the
            // next one.
            Err(error) if error.is_full() => {
                let reason = std::error::Error::source(&error).map(ToString::to_string);
                warn!(%error, reason, "cannot prepare a spare, or remove a segment that is not needed");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn number(&mut self) -> u64 {
        self.leftover.pop().unwrap_or_else(|| self.fresh_number())
    }

    fn fresh_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }
}

impl Job {
    fn fills(&self) -> bool {
        match self {
            Self::Fill { .. } | Self::Recycle { .. } => true,
            Self::Remove { .. } => false,
        }
    }

    fn perform(self, dir: &Dir, length: u64, stop: &AtomicBool) -> Outcome {
        let fills = self.fills();
        let result = match self {
            Self::Fill { number } => fill_or_remove(dir, number, length, stop),
            Self::Recycle { base, number } => {
                lose_name(dir, base, number).and_then(|()| fill_or_remove(dir, number, length, stop))
            }
            Self::Remove { base } => remove_until(dir, base + 1).map(|()| None),
        };
        Outcome { fills, result }
    }
}

/// Removes the segments before `base`, durably one by one, oldest first: so those on disk are a run without gaps at any
/// time. Some of them may be left from an attempt that had no room to remove them.
fn remove_until(dir: &Dir, base: u64) -> Result<(), Error> {
    let mut segments: Vec<u64> = dir
        .list()
        .map_err(Error::or_full)?
        .iter()
        .filter_map(|name| match names::parse(name) {
            Name::Segment(found) if found < base => Some(found),
            Name::Segment(_) | Name::Spare(_) | Name::Mark | Name::Other => None,
        })
        .collect();
    segments.sort_unstable();
    for covered in segments {
        dir.remove(&names::segment(covered)).map_err(Error::or_full)?;
        dir.sync()?;
    }
    Ok(())
}

/// Takes a segment out of the log, durably.
fn lose_name(dir: &Dir, base: u64, number: u64) -> Result<(), Error> {
    remove_until(dir, base)?;
    dir.rename(&names::segment(base), &names::spare(number)).map_err(Error::or_full)?;
    dir.sync()
}

/// A spare of zeroes; `None` if it was stopped on the way. On a full disk, removes the useless partial one.
fn fill_or_remove(dir: &Dir, number: u64, length: u64, stop: &AtomicBool) -> Result<Option<Spare>, Error> {
    fill(dir, number, length, stop).inspect_err(|error| {
        if error.is_full() {
            // Report the first error.
            let _ = dir.remove(&names::spare(number));
        }
    })
}

fn fill(dir: &Dir, number: u64, length: u64, stop: &AtomicBool) -> Result<Option<Spare>, Error> {
    let file = dir.create(&names::spare(number)).map_err(Error::or_full)?;
    let mut at = 0;
    while at < length {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let to = length.min(at + ZEROES.len() as u64);
        file.write_zeroes(at, to).map_err(Error::or_full)?;
        at = to;
    }
    file.set_len(length).map_err(Error::or_full)?;
    file.sync_all().map_err(Error::or_full)?;
    Ok(Some(Spare { number, file, length }))
}

/// The thread, if the disk wants one, begun with the first job.
struct Worker {
    dir: Dir,
    length: u64,
    stop: Arc<AtomicBool>,
    /// Not bounded: a job is a few words, and there are no more of them than segments.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    outcomes: (Sender<Outcome>, Receiver<Outcome>),
}

impl Worker {
    fn new(dir: Dir, length: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        Self { dir, length, stop, jobs: None, thread: None, outcomes: mpsc::channel() }
    }

    fn submit(&mut self, job: Job) {
        if self.dir.background() == Background::Thread && self.jobs.is_none() {
            // Without a thread the caller waits; that is no reason to fail.
            self.spawn()
                .unwrap_or_else(|error| warn!(%error, "cannot start the thread that prepares spares"));
        }
        // Sending fails only when the thread has panicked; then the job comes back, and waits for nobody.
        let undone = match &self.jobs {
            Some(jobs) => jobs.send(job).err().map(|unsent| unsent.0),
            None => Some(job),
        };
        if let Some(job) = undone {
            let _ = self.outcomes.0.send(job.perform(&self.dir, self.length, &self.stop));
        }
    }

    fn spawn(&mut self) -> io::Result<()> {
        let (sender, jobs) = mpsc::channel::<Job>();
        let (dir, length) = (self.dir.clone(), self.length);
        let (stop, outcomes) = (Arc::clone(&self.stop), self.outcomes.0.clone());
        let work = move || {
            for job in jobs {
                if stop.load(Ordering::Relaxed) || outcomes.send(job.perform(&dir, length, &stop)).is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("wal-spares".into()).spawn(work)?;
        (self.jobs, self.thread) = (Some(sender), Some(thread));
        Ok(())
    }

    fn poll(&self) -> Option<Outcome> {
        self.outcomes.1.try_recv().ok()
    }

    /// The next outcome; `None` if no more can come.
    fn wait(&mut self) -> Option<Outcome> {
        loop {
            // Checked before receiving, so that nothing is missed that a thread sends before it ends.
            let over = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
            match self.outcomes.1.recv_timeout(THREAD_CHECK) {
                Ok(outcome) => return Some(outcome),
                Err(_) if over => return None,
                Err(_) => {}
            }
        }
    }

    fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed already and has not touched the log.
            let _ = thread.join();
        }
    }
}

impl Drop for Worker {
    /// Waits for the thread, for at most one write and one sync: it must be gone before the directory is opened again.
    fn drop(&mut self) {
        self.stop();
    }
}
