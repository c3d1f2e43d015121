//! Typed reads, from the server and from a cache.

use menagerie_kernel::recipes::tree_cache::TreeCache;
use menagerie_kernel::session::{Change, Read, ReadResult};
use menagerie_kernel::{CallError, Term, Transaction, retry};
use menagerie_znodes::{Kind, MaybeDamaged, Raw, Znode};

use crate::world::World;

fn number() -> Znode<u64> {
    Znode::foreign("/number", Kind::Persistent)
}

fn missing() -> Znode<u64> {
    Znode::foreign("/missing", Kind::Persistent)
}

fn damaged() -> Znode<u64> {
    Znode::foreign("/damaged", Kind::Persistent)
}

fn payload_error(of: &Znode<u64>) -> CallError {
    CallError::Payload { path: of.path().to_owned(), why: "invalid digit found in string".to_owned() }
}

/// Seven at one place, and what is no number at another.
async fn write(term: &Term) {
    let text: Znode<Raw> = Znode::foreign(damaged().path(), Kind::Persistent);
    let writes = Transaction::new(term).create(&number(), &7).create(&text, &Raw(b"seven".to_vec()));
    writes.commit().await.unwrap();
}

#[tokio::test]
async fn znode_is_read_as_what_it_means_and_its_version_binds_a_write() {
    let session = World::new("typed-read").session().await;
    let term = session.term();
    write(&term).await;
    let found = term.read(&number()).await.unwrap().unwrap();
    assert_eq!((found.value, found.version()), (7, 0));
    assert_eq!(term.read(&missing()).await, Ok(None));
    let set = Transaction::new(&term).set(&number(), &8, Some(found.version()));
    set.clone().commit().await.unwrap();
    set.commit().await.expect_err("somebody else was faster");
    assert_eq!(term.read(&number()).await.unwrap().map(|found| found.value), Some(8));
}

#[tokio::test]
async fn payload_that_cannot_be_decoded_is_an_error_that_names_its_path() {
    let session = World::new("typed-damaged").session().await;
    let term = session.term();
    write(&term).await;
    let error = payload_error(&damaged());
    assert!(error.to_string().starts_with("/damaged "), "{error}");
    assert_eq!(term.read(&damaged()).await, Err(error.clone()));
    assert_eq!(term.read_many(&[number(), damaged()]).await, Err(error.clone()));
    assert_eq!(term.read_watched(&damaged()).await.unwrap_err(), error);
    let together = term.read_together(&[Read::Data("/damaged".to_owned())]).await.unwrap();
    assert_eq!(together[0].read(&damaged()), Err(error));
    assert_eq!(ReadResult::Nothing.read(&damaged()), Ok(None));
}

#[tokio::test]
async fn whoever_goes_on_without_a_damaged_znode_still_has_the_others() {
    let session = World::new("typed-tolerant").session().await;
    let term = session.term();
    write(&term).await;
    let znodes = [number(), missing(), damaged()].map(|znode| znode.maybe_damaged());
    let found = term.read_many(&znodes).await.unwrap();
    let [Some(number), None, Some(damaged)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(number.value, MaybeDamaged::Sound(7));
    let why = "invalid digit found in string".to_owned();
    assert_eq!(damaged.value, MaybeDamaged::Damaged { data: b"seven".to_vec(), why });
    assert_eq!(damaged.version(), 0, "what is damaged can be overwritten");
}

#[tokio::test]
async fn watched_read_tells_of_the_next_change_and_watches_nothing_that_is_missing() {
    let session = World::new("typed-watched").session().await;
    let term = session.term();
    write(&term).await;
    assert!(term.read_watched(&missing()).await.unwrap().is_none());
    let (found, watch) = term.read_watched(&number()).await.unwrap().unwrap();
    assert_eq!(found.value, 7);
    retry::touch(&term, number().path(), b"8").await.unwrap();
    assert_eq!(watch.changed().await, Change::Data);
    assert_eq!(term.read(&number()).await.unwrap().unwrap().value, 8);
}

#[tokio::test]
async fn cache_is_read_like_the_server() {
    let session = World::new("typed-cache").session().await;
    let term = session.term();
    write(&term).await;
    let root: Znode<Raw> = Znode::foreign("/", Kind::Persistent);
    let cache = TreeCache::start(&session, &root);
    cache.ready().await.unwrap();
    assert_eq!(cache.read(&number()).unwrap().map(|found| found.value), Some(7));
    assert_eq!(cache.read(&missing()), Ok(None));
    assert_eq!(cache.read(&damaged()), Err(payload_error(&damaged())));
    assert!(cache.contains(&damaged()) && !cache.contains(&missing()));
    let tolerant = cache.read(&damaged().maybe_damaged()).unwrap().unwrap();
    assert_eq!((tolerant.value.sound(), tolerant.stat.version), (None, 0));
}
