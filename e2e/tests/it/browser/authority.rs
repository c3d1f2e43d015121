//! Only whoever has logged in changes anything, and only by our own pages.

use serde_json::{Value, json};

use super::chrome::Browser;
use super::dashboard::{Dashboard, serve};
use super::http::{Answer, request};
use super::keyboard::fail;
use crate::queues::Fleet;

/// Address and content of a form that acts, as a browser would send it.
struct Form {
    action: String,
    content: String,
}

/// The forms of a page that act.
fn forms(browser: &Browser, page: &str) -> Vec<Form> {
    browser.goto(page);
    let script = "
        return [...document.forms].map(form => ({
            method: form.method,
            action: new URL(form.action).pathname,
            content: new URLSearchParams(new FormData(form)).toString(),
        })).filter(form => form.method == 'post' && form.action != '/logout')";
    let found = browser.run(script, json!([]));
    let text = |value: &Value| value.as_str().expect("it is text").to_owned();
    let forms = found.as_array().expect("a list").iter();
    forms.map(|form| Form { action: text(&form["action"]), content: text(&form["content"]) }).collect()
}

fn post(dashboard: &Dashboard, form: &Form, headers: &str) -> Answer {
    let headers = format!("{headers}Content-Type: application/x-www-form-urlencoded\r\n");
    let answer = request(dashboard.address, "POST", &form.action, &headers, form.content.as_bytes());
    answer.expect("it answers")
}

/// All that the forms could change.
fn state(fleet: &Fleet) -> Value {
    let user = &fleet.user;
    let queue = fleet.show("mail");
    json!([
        user.json(&["slots", "show", "pool"]),
        user.json(&["queue", "failed", "mail"]),
        queue["lag"],
        queue["paused"],
    ])
}

#[test]
fn nobody_changes_anything_without_having_logged_in_or_from_another_site() {
    let fleet = Fleet::with_queue("browser-authority", "mail", 1);
    fleet.user.ok(&["slots", "create", "pool", "--max", "2"]);
    fail(&fleet, &["a", "b"]);
    let (_web, dashboard) = serve(&fleet.user);
    let browser = dashboard.browser();
    let pages = ["/slots/pool", "/queues/mail", "/queues/mail/failed"];
    let forms: Vec<Form> = pages.iter().flat_map(|page| forms(&browser, page)).collect();
    let acts = |act: &str| forms.iter().any(|form| form.action.ends_with(act));
    for act in ["/freeze", "/pause", "/messages", "/failed/retry", "/failed/forget"] {
        assert!(acts(act), "there is no form for {act}");
    }
    assert!(browser.holds("document.cookie == ''", json!([])), "scripts cannot read the cookie");
    let before = state(&fleet);

    let own = format!("Origin: {}\r\n", browser.origin());
    let cookie = dashboard.cookie();
    let port = dashboard.address.port();
    for form in &forms {
        for (who, headers) in [
            ("a stranger", own.clone()),
            ("a stranger without origin", String::new()),
            ("somebody with another cookie", format!("{own}Cookie: menagerie-{port}=guessed\r\n")),
            ("another site", format!("{cookie}Origin: http://evil.example\r\n")),
            ("another port", format!("{cookie}Origin: http://127.0.0.1:9\r\n")),
            ("a sandbox", format!("{cookie}Origin: null\r\n")),
            ("nowhere", cookie.clone()),
            ("another site that lies", format!("{cookie}{own}Sec-Fetch-Site: cross-site\r\n")),
        ] {
            let answer = post(&dashboard, form, &headers);
            // Whoever guesses has to wait, after a while.
            assert!(matches!(answer.status, 401 | 403 | 429), "{who}, {}: {}", form.action, answer.head);
        }
    }
    let stranger = dashboard.stranger();
    stranger.goto("/");
    for form in &forms {
        let posts = "
            const headers = { 'content-type': 'application/x-www-form-urlencoded' };
            return fetch(arguments[0], { method: 'POST', headers, body: arguments[1] }).then(answer => answer.status)";
        let status = stranger.run(posts, json!([form.action, form.content]));
        assert!(status == 401 || status == 403, "{}: {status}", form.action);
    }
    assert_eq!(state(&fleet), before);
    // The same forms do act for whoever may.
    let freeze = forms.iter().find(|form| form.action.ends_with("/freeze")).expect("seen above");
    assert_eq!(post(&dashboard, freeze, &format!("{cookie}{own}")).status, 303);
    assert_ne!(state(&fleet), before);
}

#[test]
fn a_name_that_another_site_points_at_us_shows_nothing() {
    let fleet = Fleet::with_queue("browser-rebinding", "mail", 1);
    let (_web, dashboard) = serve(&fleet.user);
    let ask = |path: &str, host: &str| {
        request(dashboard.address, "GET", path, &format!("Host: {host}\r\n"), b"").expect("it answers")
    };
    let port = dashboard.address.port();
    for path in ["/", "/queues", "/znodes", "/api/v1/queues"] {
        let answer = ask(path, &format!("127.0.0.1:{port}"));
        assert_eq!(answer.status, 200, "our own user may look: {path}");
        let answer = ask(path, &format!("evil.example:{port}"));
        assert_eq!(answer.status, 401, "{path}: {}", answer.head);
        assert!(!answer.text().contains("mail"), "{path}: {}", answer.text());
    }
}
