//! What surrounds each page: header, navigation, notices, and the banner of a page that has lost its source.

use axum::response::Response;
use maud::{DOCTYPE, Markup, html};

use super::buttons::{self, Notice};
use super::{Content, parts};
use crate::access::Caller;
use crate::assets;
use crate::problem::Problem;
use crate::reply;
use crate::server::Request;

/// Name, address, and the key after `g`.
const PLACES: [(&str, &str, &str); 8] = [
    ("Overview", "/", "o"),
    ("Slots", "/slots", "s"),
    ("Queues", "/queues", "q"),
    ("Flows", "/flows", "f"),
    ("Pipelines", "/pipelines", "p"),
    ("Znodes", "/znodes", "z"),
    ("Keeper", "/keeper", "k"),
    ("Audit", "/audit", "a"),
];

/// A page.
pub fn page(request: &Request, caller: &Caller, content: Content, is_tls: bool) -> Response {
    let notice = Notice::of(&request.headers, request);
    let markup = document(&content.title, &request.path, Some(caller), notice.as_ref(), true, &content.main);
    let mut response = reply::reply(200, "text/html; charset=utf-8", markup);
    if notice.is_some() {
        buttons::clear_notice(&mut response, request, is_tls);
    }
    response
}

/// A page that cannot be shown. One whose source is away heals by itself.
pub fn problem(request: &Request, caller: &Caller, problem: &Problem) -> Response {
    let main = problem_text(problem);
    let heals = problem.status >= 500;
    let markup = document(&problem.title, &request.path, Some(caller), None, heals, &main);
    reply::reply(problem.status, "text/html; charset=utf-8", markup)
}

/// A problem, for people.
pub fn problem_text(problem: &Problem) -> Markup {
    html! {
        h1 { (problem.title) }
        p.problem { (problem.detail) }
        @if !problem.help.is_empty() { p { (problem.help) } }
        p { a href="/" { "Overview" } }
    }
}

/// The form that takes a token.
pub fn login(status: u16, next: &str, problem: Option<&Problem>) -> Response {
    let main = html! {
        h1 { "Log in" }
        @if let Some(problem) = problem { p.problem role="alert" { (problem.detail) } }
        form method="post" action="/login" class="stack" {
            label for="token" { "Token" }
            input #token name="token" type="password" autocomplete="current-password" required;
            input type="hidden" name="next" value=(parts::field_value(next));
            button { "Log in" }
        }
        p { "A token is made by " code { "menagerie token create NAME --scope read" } ". "
            "The token of " code { "menagerie up" } " is in the file " code { "web.token" } " of its data folder." }
    };
    let markup = document("Log in", "/login", None, None, false, &main);
    reply::reply(status, "text/html; charset=utf-8", markup)
}

fn document(
    title: &str,
    path: &str,
    caller: Option<&Caller>,
    notice: Option<&Notice>,
    is_live: bool,
    main: &Markup,
) -> String {
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Menagerie" }
                link rel="stylesheet" href=(assets::style());
                link rel="icon" href=(assets::icon()) type="image/svg+xml";
                script type="module" src=(assets::script()) {}
            }
            body data-live[is_live] {
                a.skip href="#main" { "Skip to content" }
                header {
                    a.brand href="/" { "Menagerie" }
                    (navigation(path))
                    @if let Some(caller) = caller { (who(caller, path)) }
                }
                div #stale data-stale role="status" hidden {}
                @if let Some(notice) = notice {
                    @if notice.is_failure {
                        div #notice.failure role="alert" { (notice.text) }
                    } @else {
                        div #notice role="status" { (notice.text) }
                    }
                }
                main #main tabindex="-1" { (main) }
                footer {
                    p { "Menagerie " (env!("CARGO_PKG_VERSION")) " · "
                        a href="/api/openapi.json" { "REST" } " · keys: "
                        kbd { "g" } " and the first letter of a page, " kbd { "/" } " for the filter" }
                }
            }
        }
    };
    parts::visible(&whole.into_string()).into_owned()
}

fn navigation(path: &str) -> Markup {
    let is_here = |place: &str| match place {
        "/" => path == "/",
        place => path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
    };
    html! {
        nav aria-label="Main" {
            ul {
                @for (name, place, key) in PLACES {
                    li { a href=(place) data-key=(key) aria-current=[is_here(place).then_some("page")] { (name) } }
                }
            }
        }
    }
}

fn who(caller: &Caller, path: &str) -> Markup {
    html! {
        div.who {
            @match caller {
                Caller::Token { name, .. } => {
                    form method="post" action="/logout" { span { (name) " " } button.plain { "Log out" } }
                }
                Caller::LocalUser => { a href=(format!("/login?next={path}")) { "Read only · log in to act" } }
                Caller::Nobody => { a href=(format!("/login?next={path}")) { "Log in" } }
            }
        }
    }
}
