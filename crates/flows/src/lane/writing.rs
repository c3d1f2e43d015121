//! Batches for the links out of a task.

use std::time::{Duration, Instant};

use menagerie_journal::{Append, JournalError, MessageId, NewMessage, Topic};

use super::Lane;
use crate::links::{Unread, partition, partition_of};
use crate::segments::Packer;

/// Bytes of a batch, shared among the links out of the task: beyond, a new one begins.
const BATCH_BYTES: usize = 256 << 10;
/// Bytes written to a link between two looks at how full it is.
const CHECK_LAG_BYTES: usize = 8 << 20;
/// A link whose readers have not moved for this long has none at the moment: its writer does not wait.
const READERS_IDLE_AFTER: Duration = Duration::from_secs(2);
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// The links that a lane writes to.
pub struct Writing {
    links: Vec<Link>,
    batch_size: u32,
    batch_bytes: usize,
    /// Batches that are complete.
    ready: Vec<Append>,
    ready_bytes: usize,
}

struct Link {
    topic: Topic,
    packers: Vec<Packer>,
    /// The partition that has its turn, for segments without a key.
    turn: usize,
    /// Bytes since the last look at how full it is.
    written: usize,
    /// Where its readers were when there was none at work: until they move, nobody waits for them.
    idle_positions: Option<Vec<MessageId>>,
}

impl Writing {
    pub fn new(lane: &Lane) -> Self {
        let link = |(to, partitions): (&u32, &u32)| Link {
            topic: lane.task.topics.link(lane.task.number, *to),
            packers: (0..*partitions).map(|_| Packer::default()).collect(),
            turn: lane.partition as usize % *partitions as usize,
            written: 0,
            idle_positions: None,
        };
        let links: Vec<Link> = lane.task.after.iter().map(link).collect();
        let batch_bytes = BATCH_BYTES / links.len().max(1);
        let batch_size = lane.task.entry.batch_size;
        Self { links, batch_size, batch_bytes, ready: Vec::new(), ready_bytes: 0 }
    }

    /// Adds a segment to the partition that has its turn, in every link.
    pub fn push(&mut self, text: &[u8]) {
        for index in 0..self.links.len() {
            let turn = self.links[index].turn;
            if self.put(index, turn, b"", text) {
                let link = &mut self.links[index];
                link.turn = (turn + 1) % link.packers.len();
            }
        }
    }

    /// Adds a segment to its key's partition, in every link.
    pub fn push_keyed(&mut self, key: &[u8], text: &[u8]) {
        for index in 0..self.links.len() {
            let partitions = self.links[index].packers.len() as u32;
            self.put(index, partition_of(key, partitions) as usize - 1, key, text);
        }
    }

    /// Whether that completed a batch.
    fn put(&mut self, link: usize, place: usize, key: &[u8], text: &[u8]) -> bool {
        let packer = &mut self.links[link].packers[place];
        packer.push(key, text);
        let is_complete = packer.count() >= self.batch_size || packer.bytes() >= self.batch_bytes;
        if is_complete {
            self.complete(link, place);
        }
        is_complete
    }

    fn complete(&mut self, link: usize, place: usize) {
        let link = &mut self.links[link];
        if let Some(batch) = link.packers[place].take() {
            self.ready_bytes += batch.len();
            link.written += batch.len();
            let partition = partition(&link.topic, place as u32 + 1);
            self.ready.push(Append { partition, message: NewMessage::new(batch) });
        }
    }

    /// Bytes of complete batches.
    pub fn ready_bytes(&self) -> usize {
        self.ready_bytes
    }

    /// The complete batches.
    pub fn take_ready(&mut self) -> Vec<Append> {
        self.ready_bytes = 0;
        std::mem::take(&mut self.ready)
    }

    /// All batches, also those that are not full.
    pub fn take_all(&mut self) -> Vec<Append> {
        for link in 0..self.links.len() {
            for place in 0..self.links[link].packers.len() {
                self.complete(link, place);
            }
        }
        self.take_ready()
    }

    /// Waits while a link is full, and somebody reads it.
    pub async fn wait_for_readers(&mut self, lane: &Lane) -> Result<(), JournalError> {
        for link in &mut self.links {
            if link.written < CHECK_LAG_BYTES {
                continue;
            }
            link.written = 0;
            let (mut seen, mut moved_at) = (Vec::new(), Instant::now());
            loop {
                let (unread, positions) = unread(lane, &link.topic).await?;
                if !unread.is_full() || link.idle_positions.as_ref() == Some(&positions) {
                    break;
                }
                if positions != seen {
                    (seen, moved_at) = (positions, Instant::now());
                } else if moved_at.elapsed() > READERS_IDLE_AFTER {
                    link.idle_positions = Some(positions);
                    break;
                }
                tokio::time::sleep(LOOK_PAUSE).await;
            }
        }
        Ok(())
    }
}

/// What is unread in a link, and where its readers are.
async fn unread(lane: &Lane, topic: &Topic) -> Result<(Unread, Vec<MessageId>), JournalError> {
    let stats = lane.task.journal.stats(topic).await?;
    let positions = stats.iter().flat_map(|stats| stats.consumers.iter().map(|consumer| consumer.position));
    Ok((Unread::of(&stats), positions.collect()))
}
