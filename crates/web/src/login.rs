//! Logging in and out: a token becomes a cookie.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderName, Method};
use axum::response::Response;

use crate::access::{Caller, cookie_name, same_origin};
use crate::pages;
use crate::problem::Problem;
use crate::reply;
use crate::server::{Request, Server, read_body};

/// A browser forgets the token after this time.
const COOKIE_SECONDS: u32 = 30 * 24 * 60 * 60;

/// Answers `/login` and `/logout`.
pub async fn answer(server: &Arc<Server>, request: &Request, body: Body) -> Response {
    let answered = match (request.path.as_str(), &request.method) {
        ("/login", _) if request.is_read() => by_link(server, request).await,
        ("/login", &Method::POST) => by_form(server, request, body).await,
        ("/logout", &Method::POST) => {
            let mut response = reply::see_other("/");
            reply::set_cookie(&mut response, &cookie_name(server.door.address.port()), "", 0, server.is_tls);
            same_origin::require(&request.headers).map(|()| response)
        }
        ("/login", _) => return reply::method_not_allowed("GET, HEAD, POST"),
        _ => return reply::method_not_allowed("POST"),
    };
    answered.unwrap_or_else(|problem| {
        let next = parameter(request.query.as_bytes(), "next").unwrap_or_default();
        reply::with_retry(pages::login(problem.status, &next, Some(&problem)), &problem)
    })
}

/// `/login?token=…`, as `menagerie up` prints it; without a token the form.
async fn by_link(server: &Arc<Server>, request: &Request) -> Result<Response, Problem> {
    let next = parameter(request.query.as_bytes(), "next").unwrap_or_default();
    let Some(token) = parameter(request.query.as_bytes(), "token") else {
        return Ok(pages::login(200, &next, None));
    };
    // A page of another site could log its visitors in as somebody else.
    let site = request.headers.get(HeaderName::from_static("sec-fetch-site"));
    if site.is_some_and(|site| site == "cross-site") {
        return Err(Problem::new(
            403,
            "a page of another site has led here",
            "paste the link into the address bar",
        ));
    }
    log_in(server, request, &token, &next).await
}

async fn by_form(server: &Arc<Server>, request: &Request, body: Body) -> Result<Response, Problem> {
    same_origin::require(&request.headers)?;
    let body = read_body(body, &request.headers).await?;
    let token = parameter(&body, "token").unwrap_or_default();
    log_in(server, request, token.trim(), &parameter(&body, "next").unwrap_or_default()).await
}

async fn log_in(
    server: &Arc<Server>,
    request: &Request,
    token: &str,
    next: &str,
) -> Result<Response, Problem> {
    if token.is_empty() {
        return Err(Problem::new(401, "there is no token", "paste one, or a link with one"));
    }
    let caller = server.door.holder(token, request.peer, true).await?;
    debug_assert!(matches!(caller, Caller::Token { .. }));
    // Elsewhere would be another site.
    let next = if is_local(next) { next } else { "/" };
    let mut response = reply::see_other(next);
    reply::set_cookie(
        &mut response,
        &cookie_name(server.door.address.port()),
        token,
        COOKIE_SECONDS,
        server.is_tls,
    );
    Ok(response)
}

/// Whether an address is one of ours: browsers take `//` and `/\` for the begin of a host.
fn is_local(path: &str) -> bool {
    path.starts_with('/') && !path.starts_with("//") && !path.contains(['\\', '\r', '\n', '\t'])
}

fn parameter(encoded: &[u8], name: &str) -> Option<String> {
    let found = form_urlencoded::parse(encoded).find(|(found, _)| found == name);
    found.map(|(_, value)| value.into_owned()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn logging_in_leads_nowhere_else() {
        for path in ["/", "/queues/mail?q=a"] {
            assert!(is_local(path), "{path}");
        }
        for path in ["", "//evil.example", "/\\evil.example", "https://evil.example", "/\t/evil.example"] {
            assert!(!is_local(path), "{path}");
        }
    }
}
