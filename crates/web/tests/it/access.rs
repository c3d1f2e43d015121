//! Who may do what.

use menagerie_testkit::eventually_async;
use menagerie_web::access::token::{self, Hash};
use menagerie_web::routes;
use menagerie_znodes::web::{Area, Grant, Scope};

use crate::site::{Site, create_token};

/// A download, which is in no list of what can be read.
const LOG: &str = "/pipelines/{tenant}/builds/{build}/log/raw";

/// A path of this pattern: everything in it exists in the worlds of these tests, or not at all.
pub fn path_of(pattern: &str) -> String {
    let names = [("{pool}", "deploy"), ("{queue}", "mail"), ("{worker}", "w1"), ("{job}", "j1")];
    let names = names.into_iter().chain([("{tenant}", "site"), ("{pipeline}", "gate")]);
    names
        .chain([("{id}", "x"), ("{build}", "b1")])
        .fold(pattern.to_owned(), |path, (name, value)| path.replace(name, value))
}

async fn site(name: &str) -> Site {
    let site = Site::new(name).await;
    menagerie_slots::admin::create(&site.session, &"deploy".parse().unwrap(), 2, "a test").await.unwrap();
    site.create(&site.session, "mail", 1).await;
    site
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_valid_token_nothing_changes() {
    let site = site("web-no-token").await;
    let before = site.znodes().await;
    let json = ("Content-Type", "application/json");
    for act in routes::acts() {
        let path = format!("/api/v1{}", path_of(act.path));
        for authorization in [None, Some(("Authorization", "Bearer mng_0000"))] {
            let mut headers = vec![json];
            headers.extend(authorization);
            let answer = site.ask("POST", &path, &headers, b"{}").await;
            // After ten wrong ones, nobody looks at further ones.
            assert!(matches!(answer.code, 401 | 429), "{path}: {answer:?}");
        }
        let origin = format!("http://{}", site.address());
        let headers = [("Origin", origin.as_str()), ("Content-Type", "application/x-www-form-urlencoded")];
        let form = site.ask("POST", &format!("/act{}", path_of(act.path)), &headers, b"").await;
        assert_eq!(form.code, 401, "{path}: {form:?}");
    }
    assert_eq!(site.znodes().await, before);
    assert!(site.messages("mail", 1).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_one_scope_or_engine_cannot_do_anothers_work() {
    let site = site("web-scopes").await;
    let areas = Area::ENGINES.into_iter().map(Some).chain([None]);
    let grants = areas.flat_map(|engine| Scope::ALL.map(|scope| Grant { engine, scope }));
    for grant in grants {
        let word = grant.to_string();
        let token = create_token(&site.session, &[&word]).await;
        let covers = |area: Area, scope: Scope| {
            grant.scope == scope && grant.engine.is_none_or(|engine| engine == area)
        };
        for act in routes::acts() {
            let path = path_of(act.path);
            let answer = site.post_as(&token, &path, "{}").await;
            let is_refused = matches!(answer.code, 401 | 403);
            assert_eq!(is_refused, !covers(act.area, act.scope), "{word} {path}: {answer:?}");
            assert!(
                !is_refused || answer.problem(403).contains(&format!("the scopes {word};")),
                "{answer:?}"
            );
        }
        let reads = routes::reads().into_iter().map(|read| (read.path, read.area));
        for (path, area) in reads.chain([(LOG, Area::Pipelines)]) {
            let path = format!("/api/v1{}", path_of(path));
            let answer = site.ask_as(&token, "GET", &path, &[], b"").await;
            let is_refused = matches!(answer.code, 401 | 403);
            assert_eq!(is_refused, !covers(area, Scope::Read), "{word} {path}: {answer:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_token_is_valid_at_once_and_a_revoked_one_no_longer() {
    let site = site("web-revoked").await;
    let elsewhere = site.world.session().await;
    for _ in 0..5 {
        let token = create_token(&elsewhere, &["read"]).await;
        let ask = async || site.ask_as(&token, "GET", "/api/v1/slots", &[], b"").await.code;
        assert_eq!(ask().await, 200);
        assert!(token::revoke(&elsewhere, &Hash::of(&token).id()).await.unwrap());
        eventually_async("it is refused", async || (ask().await == 401).then_some(())).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_is_slowed_down_and_those_with_a_token_are_served() {
    let site = site("web-guess").await;
    let read = create_token(&site.session, &["read"]).await;
    let ask = async |token: &str| site.ask_as(token, "GET", "/api/v1/slots", &[], b"").await;
    assert_eq!(ask(&read).await.code, 200);
    for number in 0..10 {
        ask(&format!("mng_{number}")).await.problem(401);
    }
    let refused = ask("mng_10").await;
    refused.problem(429);
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    eventually_async("who has a token is served", async || (ask(&read).await.code == 200).then_some(()))
        .await;
    assert_eq!(ask("mng_11").await.code, 429, "and others are still not");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_bearer_token_is_refused_even_where_none_is_needed() {
    let site = site("web-schemes").await;
    let basic = format!("Basic {}", site.token);
    for authorization in [basic.as_str(), "Bearer", "Bearer ", "", &site.token, "Bearer caf\u{e9}"] {
        let answer = site.ask("GET", "/api/v1/slots", &[("Authorization", authorization)], b"").await;
        answer.problem(401);
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{authorization}");
    }
    let lower = format!("bearer  {}", site.token);
    assert_eq!(site.ask("GET", "/api/v1/slots", &[("Authorization", &lower)], b"").await.code, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn this_user_reads_without_a_token_unless_dns_may_have_led_here() {
    let site = site("web-local").await;
    let port = site.address().port();
    for path in ["/api/v1/slots", "/api/v1/znodes", "/", "/slots", "/queues/mail", "/audit"] {
        assert_eq!(site.ask("GET", path, &[], b"").await.code, 200, "{path}");
        let localhost = format!("localhost:{port}");
        assert_eq!(site.ask("GET", path, &[("Host", &localhost)], b"").await.code, 200, "{path}");
        for host in ["evil.example", &format!("evil.example:{port}"), "127.0.0.1.evil.example", ""] {
            let answer = site.ask("GET", path, &[("Host", host)], b"").await;
            assert_eq!(answer.code, 401, "{path} at {host:?}: {answer:?}");
            assert!(!String::from_utf8_lossy(&answer.body).contains("deploy"), "{answer:?}");
        }
    }
    let page = site.ask("GET", "/slots/deploy", &[], b"").await.text();
    assert!(!page.contains("action=\"/act/"), "buttons are for those who may: {page}");
    // A token is a token, whatever the name.
    let evil = [("Host", "evil.example")];
    assert_eq!(site.ask_as(&site.token, "GET", "/api/v1/slots", &evil, b"").await.code, 200);
}
