//! What is sent as a file, piece by piece, so that nothing large is held in memory: logs of builds.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use menagerie_pipelines::client::logs::{BuildId, LogServer};
use menagerie_znodes::web::Area;

use crate::params::Params;
use crate::problem::Problem;
use crate::reads::builds::{log_server, read};
use crate::reply;
use crate::sources::Sources;

/// Address of a download, below `/api/v1`.
pub const LOG: &str = "/pipelines/{tenant}/builds/{build}/log/raw";
/// Whose rights it takes; the scope is `read`.
pub const AREA: Area = Area::Pipelines;
/// What it gives.
pub const ABOUT: &str = "All that the log of a build has now, as its program wrote it.";

/// A log as it is now. If its executor goes away meanwhile, the connection breaks, so that nobody takes a part for all.
pub async fn log(sources: Arc<Sources>, params: Params) -> Result<Response, Problem> {
    let (build, server, size) = log_server(&sources, &params).await?;
    let name = HeaderValue::from_str(&format!("attachment; filename=\"{build}.log\""));
    let pieces = Pieces { build, server, at: 0, size };
    let body = Body::from_stream(stream::try_unfold(pieces, Pieces::next));
    let mut response = reply::reply(200, "text/plain; charset=utf-8", body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(size));
    headers.insert(CONTENT_DISPOSITION, name.unwrap_or(HeaderValue::from_static("attachment")));
    Ok(response)
}

struct Pieces {
    build: BuildId,
    server: LogServer,
    at: u64,
    size: u64,
}

impl Pieces {
    async fn next(mut self) -> io::Result<Option<(Bytes, Self)>> {
        let left = self.size - self.at;
        if left == 0 {
            return Ok(None);
        }
        let chunk = read(&self.server, &self.build, self.at).await;
        let mut bytes = chunk.map_err(|problem| io::Error::other(problem.detail))?.bytes;
        if bytes.is_empty() {
            return Err(io::Error::other("the log is shorter than it was"));
        }
        bytes.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        self.at += bytes.len() as u64;
        Ok(Some((Bytes::from(bytes), self)))
    }
}
