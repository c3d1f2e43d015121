//! Pages: HTML from the same values that REST gives, complete without a script.
//!
//! - this file: which page is where, and how a request becomes one. [`layout`]: what surrounds each page. [`parts`]: what
//!   pages are made of. `buttons`: forms that act, and what becomes of them.
//! - one file per subject: [`overview`], [`slots`], [`queues`], [`failed`], [`flows`], [`pipelines`], [`history`], [`builds`],
//!   [`znodes`], [`keeper`], [`audit`].

mod audit;
mod builds;
mod buttons;
mod charts;
mod dag;
mod failed;
mod flows;
mod history;
mod keeper;
mod layout;
mod overview;
mod parts;
mod pipelines;
mod queues;
mod slots;
mod znodes;

use std::sync::Arc;

use axum::body::Body;
use axum::http::Method;
use axum::response::Response;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use maud::Markup;
use menagerie_znodes::web::{Area, Rights, Scope};

use crate::access::Caller;
use crate::live::{Read, Reading};
use crate::params::{CURSOR, FILTER, LIMIT_PARAM, Param, Params};
use crate::problem::Problem;
use crate::reply;
use crate::routes;
use crate::server::{Request, Server};
use crate::sources::Sources;

pub use layout::login;

/// What a page shows.
pub struct Content {
    /// Its title.
    pub title: String,
    /// What is between header and footer.
    pub main: Markup,
}

/// For whom a page is made.
#[derive(Clone)]
pub struct Viewer {
    /// What it reads from.
    pub sources: Arc<Sources>,
    /// What the address asks for.
    pub params: Params,
    /// What its viewer may do; buttons for the rest are left out.
    pub rights: Rights,
}

type Render = Box<dyn Fn(Viewer) -> BoxFuture<'static, Result<Content, Problem>> + Send + Sync>;

/// A page.
pub struct PageRoute {
    path: &'static str,
    /// Whose rights it takes; `None`: the page shows what its viewer may see.
    area: Option<Area>,
    query: &'static [Param],
    render: Render,
}

const LIST: &[Param] = &[FILTER, CURSOR, LIMIT_PARAM];

fn page<F, R>(path: &'static str, area: Option<Area>, query: &'static [Param], render: F) -> PageRoute
where
    F: Fn(Viewer) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Content, Problem>> + Send + 'static,
{
    PageRoute { path, area, query, render: Box::new(move |viewer| render(viewer).boxed()) }
}

/// All pages.
pub fn all() -> Vec<PageRoute> {
    use Area::{Flows, Installation, Pipelines, Queues, Slots};
    vec![
        page("/", None, &[], overview::overview),
        page("/slots", Some(Slots), LIST, slots::pools),
        page("/slots/{pool}", Some(Slots), &[], slots::pool),
        page("/queues", Some(Queues), LIST, queues::queues),
        page("/queues/{queue}", Some(Queues), &[], queues::queue),
        page("/queues/{queue}/failed", Some(Queues), routes::PAGES, failed::failed),
        page("/queues/{queue}/messages/{id}", Some(Queues), &[], queues::message),
        page("/flows", Some(Flows), LIST, flows::jobs),
        page("/flows/{job}", Some(Flows), &[], flows::job),
        page("/pipelines", Some(Pipelines), LIST, pipelines::tenants),
        page("/pipelines/{tenant}", Some(Pipelines), &[], pipelines::status),
        page("/pipelines/{tenant}/history", Some(Pipelines), routes::HISTORY, history::history),
        page("/pipelines/{tenant}/builds/{build}", Some(Pipelines), builds::QUERY, builds::build),
        page("/znodes", Some(Installation), routes::ZNODE, znodes::znode),
        page("/keeper", Some(Installation), &[], keeper::keeper),
        page("/audit", Some(Installation), routes::PAGES, audit::trail),
    ]
}

/// Answers a request of a browser.
pub async fn answer(server: &Arc<Server>, request: &Request, body: Body) -> Response {
    let caller = match server.door.caller(&request.headers, request.peer).await {
        Ok(caller) => caller,
        Err(problem) => {
            return reply::with_retry(layout::problem(request, &Caller::Nobody, &problem), &problem);
        }
    };
    let answered = match request.path.strip_prefix("/act") {
        Some(path) if request.method == Method::POST => {
            buttons::act(server, request, &caller, path, body).await
        }
        Some(_) | None => show(server, request, &caller).await,
    };
    answered.unwrap_or_else(|problem| {
        let is_stranger = !matches!(caller, Caller::Token { .. });
        let response = match problem.status == 401 && is_stranger && request.is_read() {
            true => login(401, &request.address(), Some(&problem)),
            false => layout::problem(request, &caller, &problem),
        };
        reply::with_retry(response, &problem)
    })
}

/// Shows a page, or streams it.
async fn show(server: &Arc<Server>, request: &Request, caller: &Caller) -> Result<Response, Problem> {
    let found = server
        .pages
        .iter()
        .enumerate()
        .find_map(|(at, route)| Some((at, route, Params::of_path(route.path, &request.path)?)));
    let Some((at, route, params)) = found else {
        let what = format!("there is nothing at {}", request.path);
        return Err(Problem::missing(what, "the overview leads to all there is"));
    };
    if !request.is_read() {
        return Ok(reply::method_not_allowed("GET, HEAD"));
    }
    match route.area {
        Some(area) => caller.require(area, Scope::Read)?,
        // Somebody who may see anything at all.
        None if caller.rights().is_empty() => caller.require(Area::Installation, Scope::Read)?,
        None => {}
    }
    let params = params.with_query(&request.query, route.query)?;
    let viewer = Viewer { sources: server.sources.clone(), params, rights: caller.rights() };
    if request.wants_stream() {
        let again = server.clone();
        let read: Read = Arc::new(move || {
            let rendering = (again.pages[at].render)(viewer.clone());
            Box::pin(async move {
                let main = rendering.await?.main.into_string();
                Ok(Reading::of(parts::visible(&main).into_owned()))
            })
        });
        return server.stream(request, caller, "page", read);
    }
    let content = (route.render)(viewer).await?;
    Ok(layout::page(request, caller, content, server.is_tls))
}
