//! The browser of znodes: what is there, and what the map says about it.

use maud::{Markup, html};

use super::parts::{self, facts, foreign, table, time};
use super::{Content, Viewer};
use crate::problem::Problem;
use crate::reads;
use crate::reads::znodes::ZnodeAbout;

/// A znode and its children.
pub async fn znode(viewer: Viewer) -> Result<Content, Problem> {
    let view = reads::znodes::znode(viewer.sources.clone(), viewer.params.clone()).await?;
    let rows = html! {
        @for name in &view.children.items {
            tr id=(format!("child-{}", parts::part(name))) {
                th scope="row" { a href=(address(&child(&view.path, name))) { (foreign(name)) } }
            }
        }
    };
    let lives = match view.ephemeral_owner {
        0 => html! { "until it is deleted" },
        owner => html! { "as long as session " code { (format!("{owner:#x}")) } },
    };
    let main = html! {
        h1 { "Znodes" }
        (trail(&view.path))
        @if let Some(about) = &view.about { (explain(about)) }
        (facts(&[
            ("Bytes", html! { (view.bytes) }),
            ("Version", html! { (view.version) }),
            ("Created", time(view.created_ms)),
            ("czxid, mzxid", html! { (format!("{:#x}, {:#x}", view.czxid, view.mzxid)) }),
            ("Lives", lives),
        ]))
        @if view.bytes > 0 { h2 { "Data" } pre.data tabindex="0" { (foreign(&view.data)) } }
        @if view.children.items.is_empty() { p { "No children." } }
        @else { (table("Children", &["Name"], &rows)) }
        (parts::pager(&viewer.params, view.children.next.as_ref()))
    };
    Ok(Content { title: format!("Znode {}", view.path), main })
}

fn address(path: &str) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("path", path).finish();
    format!("/znodes?{query}")
}

fn child(parent: &str, name: &str) -> String {
    format!("{}/{name}", parent.trim_end_matches('/'))
}

/// The way from the root.
fn trail(path: &str) -> Markup {
    let mut steps = vec![("/".to_owned(), "/")];
    let mut so_far = String::new();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        so_far = child(&so_far, name);
        steps.push((so_far.clone(), name));
    }
    html! {
        nav.trail aria-label="Path" {
            ol { @for (path, name) in steps { li { a href=(address(&path)) { (foreign(name)) } } } }
        }
    }
}

fn explain(about: &ZnodeAbout) -> Markup {
    html! {
        section.about aria-label="What the map says" {
            p { code { (about.pattern) } " of " (about.owner) ", " (about.kind) }
            (facts(&[
                ("Data", html! { (about.payload) }),
                ("Written by", html! { (about.written_by) }),
                ("Guarded by", html! { (about.guarded_by) }),
                ("Deleted by", html! { (about.deleted_by) }),
            ]))
        }
    }
}
