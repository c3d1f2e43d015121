//! Replies, with the headers that all of them have.

use axum::body::Body;
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, SET_COOKIE, VARY,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Serialize;

use crate::problem::Problem;

/// Nothing but our own files, no inline script or style, no frame around us.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// A reply with this media type.
pub fn reply(status: u16, media: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// A value as JSON.
pub fn json(status: u16, media: &'static str, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(text) => reply(status, media, text),
        Err(_) => reply(500, "text/plain; charset=utf-8", "the reply is no JSON: that is a bug\n"),
    }
}

/// A problem as JSON.
pub fn problem(problem: &Problem) -> Response {
    with_retry(json(problem.status, "application/problem+json", problem), problem)
}

/// Says when to come again.
pub fn with_retry(mut response: Response, problem: &Problem) -> Response {
    if let Some(seconds) = problem.retry_after_s {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if problem.status == 401 {
        let scheme = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(HeaderName::from_static("www-authenticate"), scheme);
    }
    response
}

/// The methods of an address, when another one was used.
pub fn method_not_allowed(allowed: &'static str) -> Response {
    let what = format!("this address takes {allowed} alone");
    let mut response = problem(&Problem::new(405, what, "use another method, or another address"));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// Sends a browser elsewhere, by GET.
pub fn see_other(path: &str) -> Response {
    let mut response = reply(303, "text/plain; charset=utf-8", "");
    let location = HeaderValue::from_str(path).unwrap_or_else(|_| HeaderValue::from_static("/"));
    response.headers_mut().insert(LOCATION, location);
    response
}

/// Adds a cookie that scripts cannot read and other sites' pages cannot send.
pub fn set_cookie(response: &mut Response, name: &str, value: &str, max_age_s: u32, is_secure: bool) {
    let secure = if is_secure { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Strict{secure}");
    if let Ok(text) = HeaderValue::from_str(&text) {
        response.headers_mut().append(SET_COOKIE, text);
    }
}

/// The headers that every reply has.
pub fn harden(headers: &mut HeaderMap) {
    let fixed = [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.insert(VARY, HeaderValue::from_static("Accept, Cookie, Authorization"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}
