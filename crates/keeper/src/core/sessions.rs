//! Sessions: their connections, their last signs of life, and their expiry.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hashbrown::HashMap;

use super::state::ConnId;

/// The number of a session; never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub i64);

/// Milliseconds of a clock that only goes forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Millis(pub u64);

/// The password that a client must present to resume its session.
pub type Password = [u8; 16];

/// One session.
#[derive(Debug, Clone)]
pub struct Session {
    /// Needed to resume it.
    pub password: Password,
    /// How long it lives without a sign of life.
    pub timeout_ms: u32,
    /// The connection that serves it now.
    pub conn: Option<ConnId>,
    /// Its end is decided (but perhaps not durable yet): nothing more is accepted from it.
    pub closing: bool,
    heard: Millis,
    /// It got its full time again after a pause, and has given no sign of life since.
    forgiven: bool,
    /// Its one valid entry on the agenda, if it has one; others are stale.
    scheduled: Option<Millis>,
}

impl Session {
    /// The clock shows whole milliseconds, so the last sign of life may be almost one later than recorded: the begun
    /// one is not counted.
    fn deadline(&self) -> Millis {
        Millis(self.heard.0 + u64::from(self.timeout_ms) + 1)
    }
}

/// Whether the end of a session is decided before its beginning is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Decided,
}

/// All sessions that have not ended.
#[derive(Debug, Default)]
pub struct Sessions {
    table: HashMap<SessionId, Session>,
    /// When to check a session next. An entry may be early (there was a sign of life since); then it is put back.
    agenda: BinaryHeap<Reverse<(Millis, SessionId)>>,
    /// Sessions that are decided, but not durable yet, and whether their end is decided, too. Their clients may send
    /// requests along with the handshake.
    opening: HashMap<SessionId, End>,
}

impl Sessions {
    /// Adds a session; one that is known already gets the new time-out.
    pub fn open(&mut self, id: SessionId, password: Password, timeout_ms: u32, now: Millis) {
        let closing = self.opening.remove(&id) == Some(End::Decided);
        let session = self.table.entry(id).or_insert(Session {
            password,
            timeout_ms,
            conn: None,
            closing,
            heard: now,
            forgiven: false,
            scheduled: None,
        });
        session.timeout_ms = timeout_ms;
        self.reschedule(id, now);
    }

    /// Announces a decided session; it can be used before it is durable, but not resumed.
    pub(super) fn announce(&mut self, id: SessionId) {
        self.opening.insert(id, End::Open);
    }

    /// Records that the end of a session is decided: nothing more is accepted from it.
    pub(super) fn begin_close(&mut self, id: SessionId) {
        if let Some(end) = self.opening.get_mut(&id) {
            *end = End::Decided;
        }
        if let Some(session) = self.table.get_mut(&id) {
            session.closing = true;
        }
    }

    /// Restarts the session's time.
    pub fn reschedule(&mut self, id: SessionId, now: Millis) {
        if let Some(session) = self.table.get_mut(&id) {
            (session.heard, session.forgiven) = (now, false);
            let deadline = session.deadline();
            // An early entry is put back when it comes up, so the one on the agenda is enough. Adding another whenever a
            // session is resumed would let them pile up.
            if session.scheduled.is_none_or(|scheduled| scheduled > deadline) {
                session.scheduled = Some(deadline);
                self.agenda.push(Reverse((deadline, id)));
            }
        }
    }

    /// Restarts every session's time: the server has just started.
    pub fn reschedule_all(&mut self, now: Millis) {
        self.agenda.clear();
        self.table.values_mut().for_each(|session| session.scheduled = None);
        let ids: Vec<SessionId> = self.table.keys().copied().collect();
        for id in ids {
            self.reschedule(id, now);
        }
    }

    /// Removes a session.
    pub fn close(&mut self, id: SessionId) -> Option<Session> {
        self.table.remove(&id)
    }

    /// The session with this number.
    pub fn get(&self, id: SessionId) -> Option<&Session> {
        self.table.get(&id)
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.table.get_mut(&id)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// The same, including sessions whose creation is not durable yet.
    pub fn len_with_opening(&self) -> usize {
        self.table.len() + self.opening.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.table.iter().map(|(id, session)| (*id, session))
    }

    /// Whether writes of this session are still accepted.
    pub fn accepts(&self, id: SessionId) -> bool {
        self.table.get(&id).is_some_and(|session| !session.closing)
            || self.opening.get(&id) == Some(&End::Open)
    }

    /// Records a sign of life: the session's time starts again.
    pub fn touch(&mut self, id: SessionId, now: Millis) {
        if let Some(session) = self.table.get_mut(&id) {
            (session.heard, session.forgiven) = (session.heard.max(now), false);
        }
    }

    /// The server was paused for `pause_ms` until now: affected sessions get their full time again. Only once until
    /// there is a sign of life; otherwise a server that is paused again and again would never end the session of a dead
    /// client. A pause that is short against a time-out needs no grace: what the client sent meanwhile waits in the
    /// socket. Returns how many were affected.
    pub fn forgive(&mut self, pause_ms: u64, now: Millis) -> usize {
        let suffered = |session: &&mut Session| pause_ms >= u64::from(session.timeout_ms) / 8;
        let forgive = |session: &mut Session| {
            session.heard = if session.forgiven { Millis(session.heard.0 + pause_ms) } else { now };
            session.forgiven = true;
        };
        self.table.values_mut().filter(suffered).map(forgive).count()
    }

    /// The earliest time at which a session may expire.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.agenda.peek().map(|Reverse((at, _))| *at)
    }

    /// One expired session, if there is any. It is checked again only after [`Self::touch`] or after another time-out,
    /// so the caller must either end it or touch it.
    pub fn pop_expired(&mut self, now: Millis) -> Option<SessionId> {
        while let Some(Reverse((at, id))) = self.agenda.peek().copied() {
            if at > now {
                return None;
            }
            self.agenda.pop();
            let Some(session) = self.table.get_mut(&id) else { continue };
            if session.closing || session.scheduled != Some(at) {
                continue;
            }
            let deadline = session.deadline();
            let expired = deadline <= now;
            let again = if expired { Millis(now.0 + u64::from(session.timeout_ms)) } else { deadline };
            session.scheduled = Some(again);
            self.agenda.push(Reverse((again, id)));
            if expired {
                return Some(id);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: SessionId = SessionId(7);

    fn sessions() -> Sessions {
        let mut sessions = Sessions::default();
        sessions.open(ID, [0; 16], 100, Millis(0));
        sessions
    }

    #[test]
    fn session_expires_at_its_deadline_and_never_before() {
        let mut sessions = sessions();
        assert_eq!(sessions.pop_expired(Millis(100)), None);
        assert_eq!(sessions.pop_expired(Millis(101)), Some(ID));
    }

    #[test]
    fn sign_of_life_starts_the_time_again() {
        let mut sessions = sessions();
        sessions.touch(ID, Millis(60));
        assert_eq!(sessions.pop_expired(Millis(101)), None);
        assert_eq!(sessions.next_deadline(), Some(Millis(161)));
        assert_eq!(sessions.pop_expired(Millis(161)), Some(ID));
    }

    #[test]
    fn known_session_that_is_opened_again_has_the_new_time_out() {
        let mut sessions = sessions();
        sessions.open(ID, [0; 16], 500, Millis(10));
        assert_eq!(sessions.pop_expired(Millis(510)), None);
        assert_eq!(sessions.pop_expired(Millis(511)), Some(ID));
        assert_eq!(sessions.len(), 1);
    }

    #[test]
    fn pause_of_the_server_is_not_held_against_sessions() {
        let mut sessions = sessions();
        sessions.forgive(500, Millis(500));
        assert_eq!(sessions.pop_expired(Millis(600)), None);
        assert_eq!(sessions.pop_expired(Millis(601)), Some(ID));
    }

    #[test]
    fn pauses_one_after_the_other_keep_no_silent_session_for_ever() {
        let mut sessions = sessions();
        sessions.forgive(500, Millis(500));
        // From here on the server runs for a fifth of the time.
        for woken in [600, 700, 800, 900, 1000].map(Millis) {
            sessions.forgive(80, woken);
            assert_eq!(sessions.pop_expired(woken), None);
        }
        // A sign of life gives the full time again, also after the next pause.
        sessions.touch(ID, Millis(1010));
        sessions.forgive(80, Millis(1100));
        assert_eq!(sessions.pop_expired(Millis(1200)), None);
        sessions.forgive(80, Millis(1280));
        assert_eq!(sessions.pop_expired(Millis(1280)), None);
        assert_eq!(sessions.pop_expired(Millis(1281)), Some(ID), "it was there for its time-out");
    }
}
