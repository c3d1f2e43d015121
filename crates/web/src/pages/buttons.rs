//! Forms that act: the same acts as REST, and then back to the page, with a notice.

use std::sync::Arc;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{HOST, REFERER};
use axum::response::Response;
use maud::{Markup, html};
use menagerie_znodes::web::{Area, Rights, Scope};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use schemars::SchemaGenerator;

use super::parts;
use crate::access::{Caller, cookie, same_origin};
use crate::acts::form;
use crate::api;
use crate::live::id_of;
use crate::params::Params;
use crate::problem::Problem;
use crate::reply;
use crate::server::{Request, Server, read_body};

/// A notice that nobody has seen is forgotten after this time.
const NOTICE_SECONDS: u32 = 60;
/// Cookies have room for about 4 KB.
const NOTICE_CHARS_MAX: usize = 600;

/// Does what a form asks for, and leads back to its page.
pub async fn act(
    server: &Arc<Server>,
    request: &Request,
    caller: &Caller,
    path: &str,
    body: Body,
) -> Result<Response, Problem> {
    let found = server.acts.iter().find_map(|route| Some((route, Params::of_path(route.path, path)?)));
    let Some((route, params)) = found else {
        return Err(Problem::missing("there is no such act", "load the page again"));
    };
    same_origin::require(&request.headers)?;
    let actor = api::authorized(caller, route, request)?;
    let schema = (route.body)(&mut SchemaGenerator::default());
    let mut generator = SchemaGenerator::default();
    let name = schema.as_value()["$ref"].as_str().and_then(|name| name.rsplit('/').next()).map(str::to_owned);
    let schema = match name {
        Some(name) => {
            (route.body)(&mut generator);
            generator.take_definitions(true).remove(&name).unwrap_or_default()
        }
        None => schema.to_value(),
    };
    let body = form::to_json(&read_body(body, &request.headers).await?, &schema);
    let target = format!("{}{path}", api::PREFIX);
    let notice = match api::perform(server, route, actor, params, body, target).await {
        Ok(done) => Notice { is_failure: false, text: done.message },
        Err(problem) if problem.help.is_empty() => Notice { is_failure: true, text: problem.detail },
        Err(problem) => Notice { is_failure: true, text: format!("{}; {}", problem.detail, problem.help) },
    };
    let mut response = reply::see_other(&page_of(&request.headers));
    let name = notice_name(request);
    reply::set_cookie(&mut response, &name, &notice.encode(), NOTICE_SECONDS, server.is_tls);
    Ok(response)
}

/// The page that has the form.
fn page_of(headers: &HeaderMap) -> String {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let path = text(REFERER).zip(text(HOST)).and_then(|(referer, host)| {
        let (_, rest) = referer.split_once("://")?;
        rest.strip_prefix(host).filter(|path| path.starts_with('/') && !path.starts_with("//"))
    });
    path.unwrap_or("/").to_owned()
}

/// What became of the last act.
pub struct Notice {
    /// Whether it failed.
    pub is_failure: bool,
    /// In words.
    pub text: String,
}

/// Cookies are the same for all ports.
fn notice_name(request: &Request) -> String {
    let host = request.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    format!("menagerie-notice-{}", port.chars().filter(char::is_ascii_digit).collect::<String>())
}

impl Notice {
    /// The one that a request brings.
    pub fn of(headers: &HeaderMap, request: &Request) -> Option<Self> {
        let value = cookie(headers, &notice_name(request))?;
        let text = percent_decode_str(&value).decode_utf8().ok()?;
        let (kind, text) = text.split_at_checked(1)?;
        Some(Self { is_failure: kind == "!", text: text.to_owned() })
    }

    fn encode(&self) -> String {
        let text: String = self.text.chars().take(NOTICE_CHARS_MAX).collect();
        let text = format!("{}{text}", if self.is_failure { "!" } else { "+" });
        utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string()
    }
}

/// A notice is shown once.
pub fn clear_notice(response: &mut Response, request: &Request, is_tls: bool) {
    reply::set_cookie(response, &notice_name(request), "", 0, is_tls);
}

/// A button that acts.
pub struct Button<'a> {
    /// What its viewer may do.
    pub rights: Rights,
    /// What the act takes.
    pub takes: (Area, Scope),
    /// The address, below `/act`; parts of it are encoded already.
    pub path: String,
    /// What it says.
    pub label: &'a str,
    /// Hidden fields.
    pub fields: &'a [(&'a str, &'a str)],
    /// A field that people fill in: its name and what it is for.
    pub asks: Option<(&'a str, &'a str)>,
    /// Set if it cannot be undone: then it takes two steps, and this says what happens.
    pub warns: Option<&'a str>,
}

impl Button<'_> {
    /// The form; nothing for those who may not.
    pub fn show(&self) -> Markup {
        let (area, scope) = self.takes;
        if !self.rights.allows(area, scope) {
            return html! {};
        }
        // A button that turns into another one, such as its opposite, must not do so under somebody's finger.
        let id = format!("act-{}", id_of(&format!("{} {:?}", self.path, self.fields)));
        // Several buttons of a page say the same, and mean different things.
        let of = self.fields.iter().map(|(_, value)| *value).find(|value| *value != "true");
        let about = of.map(|of| format!("{} {}", self.label, parts::visible(of)));
        let form = html! {
            form.act id=[self.warns.is_none().then_some(&id)] method="post" action=(format!("/act{}", self.path)) {
                @for (name, value) in self.fields { input type="hidden" name=(name) value=(parts::field_value(value)); }
                @if let Some((name, about)) = self.asks {
                    input type="text" name=(name) placeholder=(about) aria-label=(about) maxlength="200";
                }
                button aria-label=[about.as_ref()] { (self.label) }
            }
        };
        match self.warns {
            Some(warning) => html! {
                details.confirm id=(id) { summary aria-label=[about.as_ref()] { (self.label) "…" } p { (warning) } (form) }
            },
            None => form,
        }
    }
}
