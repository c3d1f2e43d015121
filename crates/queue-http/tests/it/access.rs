//! Keys, scopes, principles and rate limits.

use menagerie_queue_http::keys::{self, Hash};
use menagerie_queues::admin::keys as stored;
use menagerie_testkit::eventually_async;
use menagerie_znodes::queues::Scope;

use crate::site::{KEY, OTHER_KEY, Site};
use crate::world::World;

const QUEUE: &str = "/v1/notes/mail";

async fn site(name: &str, form: &str) -> (World, Site) {
    let world = World::new(name);
    let site = Site::new(&world).await;
    site.queue(form).await;
    (world, site)
}

async fn code(site: &Site, authorization: Option<&str>, method: &str, path: &str) -> u16 {
    let headers: Vec<(&str, &str)> =
        authorization.map(|value| ("Authorization", value)).into_iter().collect();
    site.ask(method, path, &headers, b"queue_name=other").await.code
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_key_nothing_is_open_and_a_wrong_one_is_refused_everywhere() {
    let (_world, site) = site("http-keys", "queue_name=mail&type=public").await;
    for (method, path) in [
        ("GET", "/v1/notes"),
        ("POST", "/v1/notes"),
        ("POST", QUEUE),
        ("PUT", QUEUE),
        ("DELETE", QUEUE),
        ("DELETE", "/v1/notes/mail/6ba7b8109dad11d180b400c04fd430c8"),
    ] {
        let refused = site.ask(method, path, &[], b"x").await;
        assert_eq!(refused.code, 403, "{method} {path}");
        assert!(String::from_utf8_lossy(&refused.body).contains("Access was denied"));
        assert_eq!(code(&site, Some("Basic dXNlcjpwYXNz"), method, path).await, 403, "{method} {path}");
        assert_eq!(code(&site, Some(&format!("Application {OTHER_KEY}")), method, path).await, 403);
    }
    let wrong = site.ask("GET", QUEUE, &[("Authorization", "Application not-the-right-one")], b"").await;
    assert_eq!((wrong.code, wrong.reason("InvalidApplicationKey")), (401, "Invalid application key".into()));
    assert_eq!(code(&site, None, "GET", QUEUE).await, 200, "it is public");
    assert_eq!(code(&site, None, "GET", "/v1/notes/mail/6ba7b8109dad11d180b400c04fd430c8").await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_schemes_in_any_case_are_understood() {
    let (_world, site) = site("http-schemes", "queue_name=mail").await;
    for authorization in [
        format!("Application {KEY}"),
        format!("application   {KEY}  "),
        format!("BrowserID whatever; Application {KEY}"),
        format!("Application {OTHER_KEY}; Application {KEY}"),
        format!("Bearer {KEY}"),
        format!("bearer  {KEY}"),
    ] {
        assert_eq!(code(&site, Some(&authorization), "GET", QUEUE).await, 200, "{authorization}");
    }
    let one_wrong = format!("Application {KEY}; Application nobody-knows-this");
    assert_eq!(code(&site, Some(&one_wrong), "GET", QUEUE).await, 401);
    assert_eq!(code(&site, Some("Bearer nobody-knows-this"), "GET", QUEUE).await, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn principles_read_in_place_of_the_application_every_time() {
    let (_world, site) = site("http-principles", "queue_name=mail&principles=app:other").await;
    let id = site.post(QUEUE, 1, "for others").await;
    let path = format!("{QUEUE}/{id}");
    let (own, other) = (format!("Application {KEY}"), format!("Application {OTHER_KEY}"));
    for _ in 0..2 {
        assert_eq!(code(&site, Some(&own), "GET", QUEUE).await, 403);
        assert_eq!(code(&site, Some(&own), "DELETE", &path).await, 403);
        assert_eq!(code(&site, Some(&other), "GET", QUEUE).await, 200);
        assert_eq!(code(&site, Some(&other), "POST", QUEUE).await, 403);
    }
    assert_eq!(code(&site, Some(&own), "PUT", &path).await, 200);
    assert_eq!(code(&site, Some(&other), "DELETE", &path).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_work_once_added_and_until_revoked() {
    let world = World::new("http-revoked");
    let (site, second) = (Site::new(&world).await, Site::new(&world).await);
    let (full, reader) = (keys::generate().unwrap(), keys::generate().unwrap());
    for (key, scopes) in [(&full, Scope::ALL.to_vec()), (&reader, vec![Scope::Read])] {
        let kept = keys::stored("fresh", &Hash::of(key), scopes, 0, None);
        assert!(stored::add(&site.session, &kept).await.unwrap());
        assert!(
            !stored::add(&site.session, &keys::stored("thief", &Hash::of(key), vec![], 0, None))
                .await
                .unwrap()
        );
    }
    let full_header = format!("Application {full}");
    assert_eq!(code(&site, Some(&full_header), "POST", "/v1/fresh").await, 201);
    assert_eq!(code(&second, Some(&full_header), "POST", "/v1/fresh/other").await, 201);
    let reader_header = format!("Application {reader}");
    assert_eq!(code(&second, Some(&reader_header), "GET", "/v1/fresh/other").await, 200);
    assert_eq!(code(&second, Some(&reader_header), "POST", "/v1/fresh/other").await, 403);
    let listed = stored::list(&site.session).await.unwrap();
    assert_eq!(listed.len(), 2);
    assert!(!format!("{listed:?}").contains(&full));
    assert!(stored::revoke(&site.session, &Hash::of(&full).id()).await.unwrap());
    assert!(!stored::revoke(&site.session, &Hash::of(&full).id()).await.unwrap());
    for server in [&site, &second] {
        eventually_async("the key is refused", async || {
            (code(server, Some(&full_header), "GET", "/v1/fresh/other").await == 401).then_some(())
        })
        .await;
    }
    assert_eq!(
        code(&second, Some(&reader_header), "GET", "/v1/fresh/other").await,
        200,
        "others are not concerned"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_over_its_rate_is_told_to_retry() {
    let world = World::new("http-rate");
    let site = Site::with(&world, Some(3)).await;
    let mut refused = None;
    for _ in 0..1_000 {
        let answer = site.own("GET", "/v1/notes", "").await;
        if answer.code == 429 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("a thousand requests take longer than three a second allow");
    assert!(refused.head.to_lowercase().contains("retry-after: 1"), "{}", refused.head);
    assert_eq!(code(&site, Some(&format!("Application {OTHER_KEY}")), "GET", "/v1/other").await, 200);
    eventually_async("it may ask again", async || {
        (site.own("GET", "/v1/notes", "").await.code == 200).then_some(())
    })
    .await;
}
