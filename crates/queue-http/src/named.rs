//! Messages that are named by their ids: picked, replaced, deleted.

use std::collections::{BTreeMap, HashSet};

use menagerie_journal::{Commit, Edit, Edited, Message, NewMessage};
use menagerie_queues::failed::Meta;
use menagerie_znodes::queues::{QueueName, Settings};

use crate::access::{Caller, Wish};
use crate::bodies::{self, Posted};
use crate::ids::{self, Place};
use crate::messages::{ANSWER_BYTES_MAX, Desk, answered_bytes};
use crate::reply::{self, Reply};
use crate::service::{Held, Request, Service, failed};

/// One body goes under all the ids of a request; so many bytes of it are written at most.
const WRITTEN_BYTES_MAX: usize = 32 << 20;

impl Service {
    /// `GET /v1/{application}/{queue}/{ids}`
    pub(crate) async fn pick(
        &self,
        caller: &Caller,
        place: (&str, &str),
        ids: &str,
        held: &mut Held,
    ) -> Result<Reply, Reply> {
        let (queue, settings) = self.queue(caller, Wish::View, place).await?;
        let places = ids::places(ids).ok_or_else(|| bad_ids(ids))?;
        let settings = self.spanning(&queue, settings, &places).await?;
        let desk = self.desk(queue, &settings)?;
        let (mut messages, mut room) = (Vec::new(), ANSWER_BYTES_MAX);
        for place in places.iter().filter(|place| is_there(place, &settings)) {
            if room == 0 {
                return Ok(Reply::messages(&messages, true));
            }
            if let Some(message) = desk.same(place).await? {
                let bytes = answered_bytes(&message);
                held.grow(bytes).map_err(|_| Reply::no_room())?;
                room = room.saturating_sub(bytes);
                messages.push((place.partition, message));
            }
        }
        Ok(Reply::messages(&messages, false))
    }

    /// `PUT /v1/{application}/{queue}/{ids}`
    pub(crate) async fn replace(
        &self,
        request: &Request,
        caller: &Caller,
        (place, ids): ((&str, &str), &str),
        held: &mut Held,
    ) -> Result<Reply, Reply> {
        let (queue, settings) = self.queue(caller, Wish::Post, place).await?;
        let places = once(ids::places(ids).ok_or_else(|| bad_ids(ids))?);
        let settings = self.spanning(&queue, settings, &places).await?;
        let message = bodies::replacement(request.body.clone(), request.headers.ttl.as_deref())
            .map_err(|reasons| Reply::refused(400, &reasons))?;
        let written = message.body.len().saturating_mul(places.len());
        if places.len() > 1 && written > WRITTEN_BYTES_MAX {
            let why = format!("this body for {} ids: more than {WRITTEN_BYTES_MAX} bytes", places.len());
            return Err(Reply::too_large(&why));
        }
        held.grow(written).map_err(|_| Reply::no_room())?;
        let desk = self.desk(queue, &settings)?;
        // All are looked at before any is written.
        for commit in commits(&desk, places, &settings, &message).await? {
            let done = desk.store.commit(commit).await.map_err(failed)?;
            if done.edits.contains(&Edited::Missing) {
                let why = "Messages of that time were dropped, and this one would be, too.";
                return Err(Reply::error(409, "InvalidMessageID", why));
            }
        }
        Ok(Reply::done())
    }

    /// `DELETE /v1/{application}/{queue}/{ids}`
    pub(crate) async fn delete(
        &self,
        caller: &Caller,
        place: (&str, &str),
        ids: &str,
    ) -> Result<Reply, Reply> {
        let (queue, settings) = self.queue(caller, Wish::Delete, place).await?;
        let places = once(ids::places(ids).ok_or_else(|| bad_ids(ids))?);
        let settings = self.spanning(&queue, settings, &places).await?;
        let desk = self.desk(queue, &settings)?;
        let mut commit = Commit::default();
        for place in places.iter().filter(|place| is_there(place, &settings)) {
            if let Some(message) = desk.same(place).await? {
                let partition = desk.partition(place.partition)?;
                commit.edits.push(Edit::Remove { partition, id: message.id });
            }
        }
        if !commit.is_empty() {
            desk.store.commit(commit).await.map_err(failed)?;
        }
        Ok(Reply::done())
    }

    /// What the queue is; a place in a partition that we have not heard of makes us look again.
    async fn spanning(
        &self,
        queue: &QueueName,
        settings: Settings,
        places: &[Place],
    ) -> Result<Settings, Reply> {
        match places.iter().all(|place| is_there(place, &settings)) {
            true => Ok(settings),
            false => self.refreshed(queue).await,
        }
    }
}

/// What is wrong with a list. Each id is looked for, and that takes its time: so there may be too many.
fn bad_ids(ids: &str) -> Reply {
    if ids.split(',').count() <= ids::PLACES_MAX {
        return Reply::bad_ids();
    }
    let why = format!("More than {} ids in one request.", ids::PLACES_MAX);
    Reply::error(400, "InvalidMessageID", &why)
}

fn is_there(place: &Place, settings: &Settings) -> bool {
    (1..=settings.partitions).contains(&place.partition)
}

/// Who names a message twice means it once.
fn once(mut places: Vec<Place>) -> Vec<Place> {
    let mut seen = HashSet::new();
    places.retain(|place| seen.insert((place.partition, place.uuid)));
    places
}

/// What puts a message under these ids. A commit takes one new id of each partition, so new ones go one after the other,
/// the oldest first; whoever is stopped in between may put all of them again.
async fn commits(
    desk: &Desk,
    mut places: Vec<Place>,
    settings: &Settings,
    message: &Posted,
) -> Result<Vec<Commit>, Reply> {
    places.sort_by_key(|place| (place.partition, place.id));
    let mut commits = vec![Commit::default()];
    let mut new: BTreeMap<u16, usize> = BTreeMap::new();
    let mut before = None;
    for place in places {
        let Some(id) = place.id.filter(|_| is_there(&place, settings)) else {
            return Err(Reply::bad_ids());
        };
        let there = desk.one(&place).await?;
        let named = format!("{:032x}", place.uuid);
        let same_time = before.replace((place.partition, id)) == Some((place.partition, id));
        if same_time || there.as_ref().is_some_and(|there| reply::name(there) != named) {
            let why = "Another message has the same time in this partition.";
            return Err(Reply::error(409, "InvalidMessageID", why));
        }
        let nth = match &there {
            Some(_) => 0,
            None => {
                let count = new.entry(place.partition).or_default();
                *count += 1;
                *count - 1
            }
        };
        if commits.len() <= nth {
            commits.resize_with(nth + 1, Commit::default);
        }
        let partition = desk.partition(place.partition)?;
        let message = under(&place, there.as_ref(), message);
        commits[nth].edits.push(Edit::Replace { partition, id, message });
    }
    Ok(commits)
}

/// A message as it is put under an id: with the id, if it is not like ours, and what was said about it before.
fn under(place: &Place, there: Option<&Message>, posted: &Posted) -> NewMessage {
    let mut meta = there.map(Meta::of).unwrap_or_default();
    meta.id = place.foreign();
    let meta = match meta == Meta::default() {
        true => Vec::new(),
        false => serde_json::to_vec(&meta).expect("texts and numbers can be written"),
    };
    NewMessage {
        meta: meta.into(),
        body: posted.body.clone(),
        ttl: Some(posted.ttl),
        ..NewMessage::default()
    }
}
