//! Style sheet and script, in the binary. Their addresses name their content, so browsers keep them for ever.

use std::sync::OnceLock;

use axum::http::header::{CACHE_CONTROL, HeaderValue};
use axum::response::Response;

use crate::live::id_of;
use crate::problem::Problem;
use crate::reply;

const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = include_str!("assets/live.js");
const ICON: &str = include_str!("assets/icon.svg");

/// A name of the version of all that browsers keep.
pub fn build() -> &'static str {
    static BUILD: OnceLock<String> = OnceLock::new();
    BUILD
        .get_or_init(|| id_of(&format!("{STYLE}{SCRIPT}{ICON}{}", env!("CARGO_PKG_VERSION")))[..8].to_owned())
}

/// Address of the style sheet.
pub fn style() -> String {
    format!("/assets/style-{}.css", build())
}

/// Address of the script.
pub fn script() -> String {
    format!("/assets/live-{}.js", build())
}

/// Address of the icon.
pub fn icon() -> String {
    format!("/assets/icon-{}.svg", build())
}

/// Serves one of them.
pub fn serve(name: &str, is_read: bool) -> Response {
    if !is_read {
        return reply::method_not_allowed("GET, HEAD");
    }
    let known = [
        (style(), "text/css; charset=utf-8", STYLE),
        (script(), "text/javascript; charset=utf-8", SCRIPT),
        (icon(), "image/svg+xml", ICON),
    ];
    let found = known.into_iter().find(|(path, ..)| path.strip_prefix("/assets/") == Some(name));
    let Some((_, media, content)) = found else {
        return reply::problem(&Problem::missing(
            "there is no such file",
            "it is of another version: load the page again",
        ));
    };
    let mut response = reply::reply(200, media, content);
    let ever = HeaderValue::from_static("public, max-age=31536000, immutable");
    response.headers_mut().insert(CACHE_CONTROL, ever);
    response
}
