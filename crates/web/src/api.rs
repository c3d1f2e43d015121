//! The REST interface: finds the route of a request, checks who may, and answers with JSON or a stream.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Method;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use menagerie_znodes::web::{AuditOutcome, Scope};
use serde_json::Value;
use tokio::time::timeout;
use tracing::info;

use crate::access::{Caller, same_origin};
use crate::acts::Done;
use crate::audit::{self, Actor};
use crate::downloads;
use crate::live::Read;
use crate::news;
use crate::params::Params;
use crate::problem::Problem;
use crate::reply;
use crate::routes::{ActRoute, ReadRoute};
use crate::server::{Request, Server, read_body};

/// A change that takes longer goes on without its client, whose connection would not last.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// Where all addresses begin.
pub const PREFIX: &str = "/api/v1";
const DOCUMENT: &str = "/api/openapi.json";

/// Answers a request below `/api`.
pub async fn answer(server: &Arc<Server>, request: &Request, body: Body) -> Result<Response, Problem> {
    if request.path == DOCUMENT && request.is_read() {
        return Ok(reply::reply(200, "application/json", server.document.clone()));
    }
    let caller = server.door.caller(&request.headers, request.peer).await?;
    let path = request.path.strip_prefix(PREFIX).unwrap_or_default();
    if let Some(params) = Params::of_path(downloads::LOG, path) {
        if !request.is_read() {
            return Ok(reply::method_not_allowed("GET, HEAD"));
        }
        caller.require(downloads::AREA, Scope::Read)?;
        let params = params.with_query(&request.query, &[])?;
        return downloads::log(server.sources.clone(), params).await;
    }
    let read = server
        .reads
        .iter()
        .enumerate()
        .find_map(|(at, route)| Some((at, route, Params::of_path(route.path, path)?)));
    let act = server.acts.iter().find_map(|route| Some((route, Params::of_path(route.path, path)?)));
    match (read, act) {
        (Some((at, route, params)), _) if request.is_read() => {
            answer_read(server, request, &caller, (at, route), params).await
        }
        (_, Some((route, params))) if request.method == Method::POST => {
            if matches!(caller, Caller::Token { is_cookie: true, .. }) {
                same_origin::require(&request.headers)?;
            }
            let actor = authorized(&caller, route, request)?;
            require_json(request)?;
            Params::default().with_query(&request.query, &[])?;
            let body = parse(&read_body(body, &request.headers).await?)?;
            let done = perform(server, route, actor, params, body, request.path.clone()).await?;
            Ok(reply::json(200, "application/json", &done))
        }
        (Some(_), Some(_)) => Ok(reply::method_not_allowed("GET, HEAD, POST")),
        (Some(_), None) => Ok(reply::method_not_allowed("GET, HEAD")),
        (None, Some(_)) => Ok(reply::method_not_allowed("POST")),
        (None, None) => {
            let what = format!("there is nothing at {}", request.path);
            Err(Problem::missing(what, "/api/openapi.json lists all addresses"))
        }
    }
}

async fn answer_read(
    server: &Arc<Server>,
    request: &Request,
    caller: &Caller,
    (at, route): (usize, &ReadRoute),
    params: Params,
) -> Result<Response, Problem> {
    caller.require(route.area, Scope::Read)?;
    let params = params.with_query(&request.query, route.query)?;
    if request.wants_stream() {
        let again = server.clone();
        let read: Read = Arc::new(move || {
            let reading = (again.reads[at].read)(again.sources.clone(), params.clone());
            Box::pin(async move { Ok(news::reading(&reading.await?)) })
        });
        return server.stream(request, caller, "value", read);
    }
    let value = (route.read)(server.sources.clone(), params).await?;
    Ok(reply::json(200, "application/json", &value))
}

/// Who acts, if they may.
pub fn authorized(caller: &Caller, route: &ActRoute, request: &Request) -> Result<Actor, Problem> {
    caller.require(route.area, route.scope)?;
    caller.actor(request.peer).ok_or_else(|| Problem::new(401, "changes take a token", "log in at /login"))
}

fn require_json(request: &Request) -> Result<(), Problem> {
    let media = request.headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
    match media.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => {
            Err(Problem::new(415, "the body is not JSON", "send it with `Content-Type: application/json`"))
        }
    }
}

/// A body; an empty one is an empty object.
fn parse(body: &[u8]) -> Result<Value, Problem> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    match serde_json::from_slice(body) {
        Ok(object @ Value::Object(_)) => Ok(object),
        // serde would take the items of a list for fields.
        Ok(_) => Err(Problem::bad("the body is no JSON object", "write it as {…}")),
        Err(why) => Err(Problem::bad(format!("the body is no JSON: {why}"), "correct it")),
    }
}

/// What was asked for, without the data of messages and jobs: that is nobody's business here, and may be secret.
fn detail(body: &Value) -> Option<String> {
    let mut fields = body.as_object()?.clone();
    for data in ["body", "job"] {
        if let Some(value) = fields.get_mut(data) {
            *value =
                format!("{} bytes", value.as_str().map_or_else(|| value.to_string().len(), str::len)).into();
        }
    }
    (!fields.is_empty()).then(|| Value::Object(fields).to_string())
}

/// Writes down what is about to be done, does it, and writes down how it ended. It goes on to its end if its client goes
/// away.
pub async fn perform(
    server: &Arc<Server>,
    route: &ActRoute,
    actor: Actor,
    params: Params,
    body: Value,
    target: String,
) -> Result<Done, Problem> {
    let (sources, name) = (server.sources.clone(), route.name);
    let detail = detail(&body);
    // What cannot be understood is refused before it is written down: nobody knows what is in it.
    let acting = (route.act)(sources.clone(), actor.clone(), params, body)?;
    let begun = audit::begin(&sources.session, &actor, route.scope, name, &target, detail).await.map_err(
        |error| {
            let problem = Problem::from(error);
            Problem {
                detail: format!(
                    "nothing was changed, because the audit trail cannot be written: {}",
                    problem.detail
                ),
                ..problem
            }
        },
    )?;
    let who = actor.by();
    let finishing = async move {
        let done = acting.await;
        let (outcome, message) = match &done {
            Ok(done) => (AuditOutcome::Done, &done.message),
            // Nobody knows whether it has happened: a reply was lost, or it may still come.
            Err(problem) if problem.status >= 500 => (AuditOutcome::Begun, &problem.detail),
            Err(problem) => (AuditOutcome::Failed, &problem.detail),
        };
        info!(act = name, target, who, outcome = outcome.as_str(), "change over the web interface");
        begun.end(&sources.session, outcome, message).await;
        done
    };
    let panicked = || Err(Problem::new(500, "the act has panicked: that is a bug", "report it"));
    match timeout(ANSWER_MAX, tokio::spawn(finishing)).await {
        Ok(ended) => ended.unwrap_or_else(|_| panicked()),
        Err(_) => Ok(Done::new("it takes longer, and goes on: the audit trail tells how it ends")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_audit_trail_has_no_data_of_messages() {
        let asked = json!({ "body": "card 4711", "key": "a" });
        assert_eq!(detail(&asked).as_deref(), Some(r#"{"body":"9 bytes","key":"a"}"#));
        assert_eq!(detail(&json!({ "job": { "name": "x" } })).as_deref(), Some(r#"{"job":"12 bytes"}"#));
        assert_eq!(detail(&json!({})), None);
    }
}
