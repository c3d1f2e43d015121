//! One connection through a proxy: two directions, each with a reading and a forwarding thread.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Instant;

use super::faults::{Direction, Verdict};
use super::units::{Splitter, Unit};
use super::{Shared, State};

/// An open connection.
#[derive(Debug)]
pub(super) struct Link {
    client: TcpStream,
    server: TcpStream,
    requests: Queue,
    replies: Queue,
}

/// Units to forward, each not before its time. `None` once the end was forwarded.
type Queue = Option<VecDeque<(Instant, Unit)>>;

impl Link {
    /// Closes both sides at once. Its threads notice.
    pub(super) fn close(self) {
        for side in [self.client, self.server] {
            // Fails only if the peer was quicker.
            let _ = side.shutdown(Shutdown::Both);
        }
    }

    fn queue(&mut self, direction: Direction) -> &mut Queue {
        match direction {
            Direction::Requests => &mut self.requests,
            Direction::Replies => &mut self.replies,
        }
    }
}

/// Starts forwarding between the two, unless the proxy was cut meanwhile.
pub(super) fn open(shared: &Arc<Shared>, client: TcpStream, server: TcpStream) {
    for side in [&client, &server] {
        side.set_nodelay(true).expect("a socket has options");
    }
    let share = |stream: &TcpStream| stream.try_clone().expect("a socket can be shared");
    let ways = [
        (Direction::Requests, share(&client), share(&server)),
        (Direction::Replies, share(&server), share(&client)),
    ];
    let mut state = shared.lock();
    if state.faults.cut || state.stopped {
        return;
    }
    state.last_link += 1;
    let id = state.last_link;
    let link = Link { client, server, requests: Some(VecDeque::new()), replies: Some(VecDeque::new()) };
    state.links.insert(id, link);
    drop(state);
    for (direction, from, to) in ways {
        let (reading, forwarding) = (Arc::clone(shared), Arc::clone(shared));
        thread::spawn(move || read(&reading, id, direction, from));
        thread::spawn(move || forward(&forwarding, id, direction, to));
    }
}

fn read(shared: &Shared, id: u64, direction: Direction, mut from: TcpStream) {
    let mut splitter = Splitter::new(shared.reading);
    let mut buffer = [0; 16 * 1024];
    loop {
        let (units, ended) = match from.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // Behind a proxy, a reset is an end like any other.
            Ok(0) | Err(_) => (splitter.end(), true),
            Ok(n) => (splitter.push(&buffer[..n]), false),
        };
        shared.change(|state| {
            let due = Instant::now() + state.faults.delay;
            if let Some(Some(queue)) = state.links.get_mut(&id).map(|link| link.queue(direction)) {
                queue.extend(units.into_iter().map(|unit| (due, unit)));
            }
        });
        if ended {
            return;
        }
    }
}

fn forward(shared: &Shared, id: u64, direction: Direction, mut to: TcpStream) {
    while let Some(unit) = next(shared, id, direction) {
        match unit {
            Unit::Opening(bytes) | Unit::Frame(bytes) | Unit::Bytes(bytes) => {
                if to.write_all(&bytes).is_err() {
                    shared.change(|state| state.close(id));
                }
            }
            Unit::End => {
                // The other direction may go on: the answer to a four-letter word comes after the end of the
                // question.
                let _ = to.shutdown(Shutdown::Write);
                shared.change(|state| state.end(id, direction));
                return;
            }
        }
    }
}

/// Waits for the next unit to forward; `None` once the link is closed.
fn next(shared: &Shared, id: u64, direction: Direction) -> Option<Unit> {
    let mut state = shared.lock();
    loop {
        let State { faults, links, .. } = &mut *state;
        let queue = links.get_mut(&id)?.queue(direction).as_mut()?;
        let wait = match queue.front() {
            Some((due, unit)) if !faults.holds(direction) => {
                let wait = due.saturating_duration_since(Instant::now());
                (!wait.is_zero() || !faults.holds_back(direction, unit)).then_some(wait)
            }
            _ => None,
        };
        state = match wait {
            None => shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(wait) if !wait.is_zero() => {
                shared.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
            }
            Some(_) => {
                let (_, unit) = queue.pop_front()?;
                if state.faults.judge(id, direction, &unit) == Verdict::Forward {
                    return Some(unit);
                }
                state.close(id);
                drop(state);
                shared.changed.notify_all();
                return None;
            }
        };
    }
}

impl State {
    fn close(&mut self, id: u64) {
        if let Some(link) = self.links.remove(&id) {
            link.close();
        }
    }

    /// Records that one direction has ended; the second one ends the link.
    fn end(&mut self, id: u64, direction: Direction) {
        let Some(link) = self.links.get_mut(&id) else { return };
        *link.queue(direction) = None;
        if link.requests.is_none() && link.replies.is_none() {
            self.close(id);
        }
    }
}
