//! The stored format of a value: a marker that describes it, and shards if it does not fit into the marker. Pure.
//!
//! The marker is one line of JSON; what follows that line is the content, unless there are shards. Every write has a
//! unique name, so that shards of two writes are never mixed up.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Serialize};

/// Bytes in one shard: a request of 1 MiB has room for the path and for a fence.
pub const SHARD_BYTES: usize = 1_000_000;

/// Shards of one value: more than that belongs into a file system, and no transaction could delete them.
pub const SHARDS_MAX: usize = 1_000;

/// Uncompressed bytes of a value. The limit keeps a forged marker from making its reader allocate all memory.
pub const CONTENT_BYTES_MAX: usize = 1_000_000_000;

/// Bytes that the marker itself carries. A fraction of a shard, so that several markers fit into one transaction.
const INLINE_BYTES_MAX: usize = SHARD_BYTES / 8;

/// Shorter values are stored uncompressed: people can read them with any ZooKeeper shell, and little would be gained.
const COMPRESS_BYTES_MIN: usize = 1_024;

/// The shape of the marker that we write, and the newest that we can read.
const FORMAT: u32 = 1;

/// The suffix of a writer's claim.
const CLAIM: &str = "writing";

/// How content is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    Plain,
    Zlib,
}

/// Describes a value, in one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// The version of this line's format.
    blob: u32,
    /// The name of the write that made it.
    pub write: String,
    /// Uncompressed length.
    bytes: usize,
    /// Checksum of the uncompressed content.
    crc32c: u32,
    encoding: Encoding,
    /// Number of shards; if 0, the content follows this line.
    pub shards: usize,
}

/// A value that is ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// The data of the marker znode.
    pub marker: Vec<u8>,
    sharded: Vec<u8>,
}

impl Draft {
    /// Prepares a value for a write with this unique name. `None`: it is too long.
    pub fn new(content: &[u8], write: &str) -> Option<Self> {
        if content.len() > CONTENT_BYTES_MAX {
            return None;
        }
        let (encoding, stored) = match compress(content) {
            Some(smaller) => (Encoding::Zlib, smaller),
            None => (Encoding::Plain, content.to_vec()),
        };
        let inline = stored.len() <= INLINE_BYTES_MAX;
        let shards = if inline { 0 } else { stored.len().div_ceil(SHARD_BYTES) };
        if shards > SHARDS_MAX {
            return None;
        }
        let crc32c = crc32c::crc32c(content);
        let marker =
            Marker { blob: FORMAT, write: write.to_owned(), bytes: content.len(), crc32c, encoding, shards };
        let mut line = serde_json::to_vec(&marker).expect("a marker has nothing that can fail");
        line.push(b'\n');
        if inline {
            line.extend_from_slice(&stored);
            return Some(Self { marker: line, sharded: Vec::new() });
        }
        Some(Self { marker: line, sharded: stored })
    }

    /// The shards, in order; none if the marker carries the content.
    pub fn shards(&self) -> impl Iterator<Item = &[u8]> {
        self.sharded.chunks(SHARD_BYTES)
    }

    /// Whether there are shards.
    pub fn is_sharded(&self) -> bool {
        !self.sharded.is_empty()
    }
}

impl Marker {
    /// Parses the data of a marker znode into the marker and the content that it carries. `None`: there is no value
    /// yet.
    pub fn parse(data: &[u8]) -> Result<Option<(Self, &[u8])>, String> {
        if data.is_empty() {
            return Ok(None);
        }
        let end = data.iter().position(|byte| *byte == b'\n').ok_or("it does not begin with a line")?;
        let (line, rest) = data.split_at(end);
        let marker: Self = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        if marker.blob > FORMAT {
            return Err(format!("it is of format {}, newer than {FORMAT}", marker.blob));
        }
        if marker.shards > SHARDS_MAX || marker.bytes > CONTENT_BYTES_MAX {
            return Err("it is longer than any value".to_owned());
        }
        Ok(Some((marker, &rest[1..])))
    }

    /// The names of its shards, in order.
    pub fn shard_names(&self) -> impl Iterator<Item = String> {
        (0..self.shards).map(|index| shard_name(&self.write, index))
    }

    /// Decodes the content from its stored bytes.
    pub fn decode(&self, stored: Vec<u8>) -> Result<Vec<u8>, String> {
        let content = match self.encoding {
            Encoding::Plain => stored,
            Encoding::Zlib => decompress(&stored, self.bytes)?,
        };
        if content.len() != self.bytes {
            return Err(format!("it should have {} bytes, and has {}", self.bytes, content.len()));
        }
        match crc32c::crc32c(&content) {
            sum if sum == self.crc32c => Ok(content),
            sum => Err(format!("its checksum should be {:08x}, and is {sum:08x}", self.crc32c)),
        }
    }
}

fn compress(content: &[u8]) -> Option<Vec<u8>> {
    if content.len() < COMPRESS_BYTES_MIN {
        return None;
    }
    // Fast: values in ZooKeeper are mostly text, and the first level achieves most of the compression.
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).expect("memory takes all");
    let smaller = encoder.finish().expect("memory takes all");
    (smaller.len() < content.len()).then_some(smaller)
}

fn decompress(stored: &[u8], bytes: usize) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    // One byte more than expected is enough to detect damage.
    let limit = bytes as u64 + 1;
    ZlibDecoder::new(stored).take(limit).read_to_end(&mut content).map_err(|error| error.to_string())?;
    Ok(content)
}

/// The name of a shard.
pub fn shard_name(write: &str, index: usize) -> String {
    format!("{write}-{index:06}")
}

/// The name of the ephemeral znode that claims a write in progress.
pub fn claim_name(write: &str) -> String {
    format!("{write}-{CLAIM}")
}

/// The shards that belong neither to the value of `current` nor to a write in progress. `names` must be read before
/// `current`: a write gives up its claim in the same transaction that makes it current.
pub fn garbage<'a>(names: &'a [String], current: Option<&Marker>) -> Vec<&'a str> {
    let parts = |name: &'a String| name.rsplit_once('-');
    let claimed: BTreeSet<&str> =
        names.iter().filter_map(parts).filter(|(_, end)| *end == CLAIM).map(|(write, _)| write).collect();
    names
        .iter()
        .filter(|name| {
            parts(name).is_some_and(|(write, end)| {
                // Other names are not ours.
                end.len() == 6
                    && end.bytes().all(|byte| byte.is_ascii_digit())
                    && !claimed.contains(write)
                    && current.is_none_or(|current| current.write != write)
            })
        })
        .map(String::as_str)
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(draft: &Draft) -> Result<Vec<u8>, String> {
        let (marker, inline) = Marker::parse(&draft.marker)?.ok_or("no value")?;
        let stored =
            if marker.shards == 0 { inline.to_vec() } else { draft.shards().collect::<Vec<_>>().concat() };
        marker.decode(stored)
    }

    /// Incompressible bytes.
    fn noise(len: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let step = |_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u8
        };
        (0..len).map(step).collect()
    }

    #[test]
    fn short_text_stays_readable_and_long_text_shrinks() {
        let draft = Draft::new(b"{\"a\":1}", "w").unwrap();
        assert!(draft.marker.ends_with(b"\n{\"a\":1}"));
        let long = Draft::new(&b"menagerie ".repeat(1_000_000), "w").unwrap();
        assert!(!long.is_sharded() && long.marker.len() < INLINE_BYTES_MAX);
        assert_eq!(read(&long).unwrap().len(), 10_000_000);
    }

    #[test]
    fn shards_have_a_million_bytes_each() {
        let content = noise(2_500_000);
        let draft = Draft::new(&content, "w").unwrap();
        let lengths: Vec<usize> = draft.shards().map(<[u8]>::len).collect();
        assert_eq!(lengths, [1_000_000, 1_000_000, 500_000]);
        assert_eq!(read(&draft), Ok(content));
    }

    #[test]
    fn damage_is_noticed_and_never_returned() {
        let draft = Draft::new(b"a plain value", "w").unwrap();
        let mut flipped = draft.clone();
        *flipped.marker.last_mut().unwrap() ^= 1;
        let mut cut = draft.clone();
        cut.marker.pop();
        for bad in [flipped, cut] {
            assert!(read(&bad).is_err());
        }
        let bomb = Draft::new(&vec![0; 1_000_000], "w").unwrap();
        let (mut marker, inline) = Marker::parse(&bomb.marker).unwrap().unwrap();
        marker.bytes = 10;
        assert!(marker.decode(inline.to_vec()).unwrap_err().contains("has 11"));
        let newer = String::from_utf8(draft.marker).unwrap().replace("\"blob\":1", "\"blob\":2");
        assert!(Marker::parse(newer.as_bytes()).unwrap_err().contains("newer"));
    }

    #[test]
    fn garbage_is_what_neither_a_value_nor_a_writer_has() {
        let draft = Draft::new(b"", "now").unwrap();
        let (marker, _) = Marker::parse(&draft.marker).unwrap().unwrap();
        let names =
            ["now-000000", "old-000000", "old-000001", "busy-000000", "busy-writing", "x", "lock-0000000001"]
                .map(str::to_owned);
        assert_eq!(garbage(&names, Some(&marker)), ["old-000000", "old-000001"]);
        assert_eq!(garbage(&names, None), ["now-000000", "old-000000", "old-000001"]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(content in proptest::collection::vec(any::<u8>(), 0..5_000)) {
            prop_assert_eq!(read(&Draft::new(&content, "w").unwrap()), Ok(content));
        }

        #[test]
        fn no_bytes_at_all_make_a_reader_panic(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(Some((marker, rest))) = Marker::parse(&data) {
                let _ = marker.decode(rest.to_vec());
            }
        }
    }
}
