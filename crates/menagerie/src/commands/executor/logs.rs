//! Serves logs of builds: `GET /logs/BUILD?offset=N`, for whoever knows the key.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use menagerie_pipelines::Folder;
use menagerie_pipelines::client::logs::{BuildId, CHUNK_BYTES_MAX, LOG_END, LOG_SIZE, RUNNING};

use crate::listener::{Limits, Listener};

/// People read logs, not fleets; and an answer is short.
pub const LIMITS: Limits =
    Limits { connections: 256, exchange: Duration::from_secs(20), reading_counts: false };

/// What all requests share.
#[derive(Clone)]
struct Service {
    folder: Folder,
    key: Arc<str>,
}

/// Serves until it is dropped.
pub async fn serve(listener: Listener, folder: Folder, key: &str) -> io::Result<()> {
    let router = Router::new().fallback(answer).with_state(Service { folder, key: key.into() });
    axum::serve(listener, router).await
}

async fn answer(State(service): State<Service>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    if !shown.is_some_and(|shown| is_same(shown.as_bytes(), service.key.as_bytes())) {
        return (StatusCode::UNAUTHORIZED, "the key is missing or wrong\n").into_response();
    }
    if method != Method::GET {
        return (StatusCode::METHOD_NOT_ALLOWED, "only GET is understood\n").into_response();
    }
    let Some(build) = uri.path().strip_prefix("/logs/").and_then(|build| build.parse().ok()) else {
        return (StatusCode::NOT_FOUND, "GET /logs/BUILD?offset=N\n").into_response();
    };
    let Some(offset) = offset(uri.query().unwrap_or_default()) else {
        return (StatusCode::BAD_REQUEST, "offset is a number of bytes\n").into_response();
    };
    let read = tokio::task::spawn_blocking(move || read(&service.folder, &build, offset)).await;
    match read.map_err(io::Error::other).flatten() {
        Ok(Some(Piece { bytes, size, is_running })) => {
            let end = offset.saturating_add(bytes.len() as u64).to_string();
            let headers = [
                (CONTENT_TYPE, "application/octet-stream".to_owned()),
                (HeaderName::from_static(LOG_END), end),
                (HeaderName::from_static(LOG_SIZE), size.to_string()),
                (HeaderName::from_static(RUNNING), is_running.to_string()),
            ];
            (headers, bytes).into_response()
        }
        Ok(None) => (StatusCode::NOT_FOUND, "there is no such build here\n").into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

fn offset(query: &str) -> Option<u64> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| *name == "offset").map_or(Some(0), |(_, value)| value.parse().ok())
}

struct Piece {
    bytes: Bytes,
    /// Bytes that the log has.
    size: u64,
    is_running: bool,
}

/// A piece of a log; `None` if there is no such build.
fn read(folder: &Folder, build: &BuildId, offset: u64) -> io::Result<Option<Piece>> {
    let build = build.id().as_str();
    // In this order: once it does not run any more, the log is whole.
    let is_running = folder.builds().join(build).exists();
    let file = match File::open(folder.log(build)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(is_running.then(|| Piece { bytes: Bytes::new(), size: 0, is_running: true }));
        }
        Err(error) => return Err(error),
    };
    let size = file.metadata()?.len();
    let left = size.saturating_sub(offset).min(CHUNK_BYTES_MAX);
    let mut bytes = vec![0; usize::try_from(left).unwrap_or(0)];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Ok(Some(Piece { bytes: bytes.into(), size, is_running }))
}

/// Takes as long for every wrong key of the right length.
fn is_same(shown: &[u8], key: &[u8]) -> bool {
    shown.len() == key.len() && shown.iter().zip(key).fold(0, |different, (a, b)| different | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILD: &str = "0123456789abcdef0123456789abcdef";

    fn service() -> (Service, tempfile::TempDir) {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder(root.path().to_owned());
        std::fs::create_dir_all(folder.logs()).unwrap();
        std::fs::write(folder.log(BUILD), "hello").unwrap();
        (Service { folder, key: "key".into() }, root)
    }

    async fn ask(service: &Service, key: &str, uri: &str) -> Response {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, format!("Bearer {key}").parse().unwrap())]);
        answer(State(service.clone()), Method::GET, uri.parse().unwrap(), headers).await
    }

    #[tokio::test]
    async fn only_whoever_knows_the_key_reads_logs_and_nothing_else() {
        let (service, _root) = service();
        let log = format!("/logs/{BUILD}");
        for (key, uri, status) in [
            ("key", log.as_str(), 200),
            ("kez", &log, 401),
            ("", &log, 401),
            ("key", "/logs/..%2Fsecret", 404),
            ("key", "/logs/0123456789ABCDEF0123456789ABCDEF", 404),
            ("key", "/logs/ffffffffffffffffffffffffffffffff", 404),
            ("key", "/", 404),
            ("key", &format!("{log}?offset=x"), 400),
            ("key", &format!("{log}?offset=99"), 200),
        ] {
            assert_eq!(ask(&service, key, uri).await.status(), status, "{uri}");
        }
    }

    #[tokio::test]
    async fn answer_says_where_to_go_on_and_whether_there_will_be_more() {
        let (service, _root) = service();
        let header = |answer: &Response, name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        let whole = ask(&service, "key", &format!("/logs/{BUILD}?offset=2")).await;
        assert_eq!((header(&whole, LOG_END), header(&whole, RUNNING)), ("5".to_owned(), "false".to_owned()));
        assert_eq!(header(&whole, LOG_SIZE), "5");
        let other = "f".repeat(32);
        std::fs::create_dir_all(service.folder.builds().join(&other)).unwrap();
        let running = ask(&service, "key", &format!("/logs/{other}")).await;
        assert_eq!(
            (header(&running, LOG_END), header(&running, RUNNING)),
            ("0".to_owned(), "true".to_owned())
        );
    }
}
