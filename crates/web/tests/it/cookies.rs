//! Browsers: from token to cookie, and what pages of other sites cannot do with it.

use menagerie_testkit::eventually_async;

use crate::client::Answer;
use crate::site::{Site, create_token};

const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");
const JSON: (&str, &str) = ("Content-Type", "application/json");

/// The cookie that a reply sets, as a browser sends it back.
fn cookie(answer: &Answer) -> String {
    assert_eq!(answer.code, 303, "{answer:?}");
    let set = answer.header("set-cookie").unwrap();
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="] {
        assert!(set.contains(attribute), "{set}");
    }
    set.split(';').next().unwrap().to_owned()
}

/// A form of our own page.
async fn submit(site: &Site, path: &str, cookie: &str, origin: Option<&str>, form: &str) -> Answer {
    let mut headers = vec![FORM];
    headers.extend((!cookie.is_empty()).then_some(("Cookie", cookie)));
    headers.extend(origin.map(|origin| ("Origin", origin)));
    site.ask("POST", path, &headers, form.as_bytes()).await
}

async fn is_frozen(site: &Site) -> bool {
    !site.get("/slots/deploy").await.value()["frozen"].is_null()
}

async fn site(name: &str) -> (Site, String) {
    let site = Site::new(name).await;
    menagerie_slots::admin::create(&site.session, &"deploy".parse().unwrap(), 2, "a test").await.unwrap();
    let own = format!("http://{}", site.address());
    (site, own)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_or_a_form_with_a_token_gives_a_cookie_that_acts_and_logging_out_takes_it() {
    let (site, own) = site("web-login").await;
    let link = format!("/login?token={}&next=/slots/deploy", site.token);
    let by_link = site.ask("GET", &link, &[], b"").await;
    assert_eq!(by_link.header("location"), Some("/slots/deploy"));
    let form = format!("token={}&next=%2Fslots", site.token);
    let by_form = submit(&site, "/login", "", Some(&own), &form).await;
    assert_eq!(by_form.header("location"), Some("/slots"));
    let sent = cookie(&by_link);
    assert_eq!(sent, cookie(&by_form));
    let page = site.ask("GET", "/slots/deploy", &[("Cookie", &sent)], b"").await.text();
    assert!(page.contains("action=\"/act/slots/deploy/freeze\""), "{page}");

    let referer = format!("{own}/slots/deploy");
    let headers = [FORM, ("Cookie", &sent), ("Origin", &own), ("Referer", &referer)];
    let done = site.ask("POST", "/act/slots/deploy/freeze", &headers, b"reason=rest").await;
    assert_eq!((done.code, done.header("location")), (303, Some("/slots/deploy")), "{done:?}");
    assert!(is_frozen(&site).await);
    let notice = done.header("set-cookie").unwrap().split(';').next().unwrap();
    let both = format!("{sent}; {notice}");
    let page = site.ask("GET", "/slots/deploy", &[("Cookie", &both)], b"").await;
    assert!(page.text().contains("pool deploy is frozen"), "{page:?}");
    assert!(page.header("set-cookie").unwrap().contains("Max-Age=0"), "a notice is shown once");

    let out = submit(&site, "/logout", &sent, Some(&own), "").await;
    assert!(out.code == 303 && out.header("set-cookie").unwrap().contains("Max-Age=0"), "{out:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_sites_change_nothing() {
    let (site, own) = site("web-csrf").await;
    let sent = cookie(&site.ask("GET", &format!("/login?token={}", site.token), &[], b"").await);
    let before = site.znodes().await;
    let foreign = ["http://evil.example", "null", "http://127.0.0.1:1", &format!("{own}.evil.example")];
    for origin in foreign.into_iter().map(Some).chain([None]) {
        for path in ["/act/slots/deploy/freeze", "/login", "/logout"] {
            let form = format!("token={}", site.token);
            let form = if path == "/login" { form.as_str() } else { "" };
            let answer = submit(&site, path, &sent, origin, form).await;
            assert_eq!(answer.code, 403, "{path} {origin:?}: {answer:?}");
        }
        let mut headers = vec![JSON, ("Cookie", sent.as_str())];
        headers.extend(origin.map(|origin| ("Origin", origin)));
        site.ask("POST", "/api/v1/slots/deploy/freeze", &headers, b"{}").await.problem(403);
    }
    // What the browser itself says counts more than what an address looks like.
    let headers = [FORM, ("Cookie", &sent), ("Origin", &own), ("Sec-Fetch-Site", "cross-site")];
    assert_eq!(site.ask("POST", "/act/slots/deploy/freeze", &headers, b"").await.code, 403);
    assert_eq!(site.znodes().await, before);
    // Nor may they log a visitor in as somebody else.
    let link = format!("/login?token={}", site.token);
    assert_eq!(site.ask("GET", &link, &[("Sec-Fetch-Site", "cross-site")], b"").await.code, 403);
    let headers = [JSON, ("Cookie", &sent), ("Origin", &own)];
    assert_eq!(site.ask("POST", "/api/v1/slots/deploy/freeze", &headers, b"{}").await.code, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn logging_in_leads_nowhere_else() {
    let (site, _) = site("web-next").await;
    for next in [
        "https://evil.example/",
        "//evil.example",
        "/%5Cevil.example",
        "%5C%5Cevil.example",
        "/%09/evil.example",
        "%0d%0aLocation:%20//evil.example",
        "/%0d%0aSet-Cookie:%20a=b",
        "javascript:alert(1)",
        "evil.example",
        "%20//evil.example",
    ] {
        let answer = site.ask("GET", &format!("/login?token={}&next={next}", site.token), &[], b"").await;
        assert_eq!((answer.code, answer.header("location")), (303, Some("/")), "{next}");
        assert!(!answer.head.contains("a=b"), "{answer:?}");
    }
    let referer = [FORM, ("Referer", "http://evil.example/slots")];
    let bearer = format!("Bearer {}", site.token);
    let own = format!("http://{}", site.address());
    let headers = [&referer[..], &[("Authorization", &bearer), ("Origin", &own)]].concat();
    let answer = site.ask("POST", "/act/slots/deploy/thaw", &headers, b"").await;
    assert_eq!((answer.code, answer.header("location")), (303, Some("/")), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_that_is_no_longer_valid_is_as_none_and_a_wrong_token_sets_none() {
    let (site, own) = site("web-stale-cookie").await;
    let stale = format!("menagerie-{}=mng_gone", site.address().port());
    // More often than anybody may guess: the browser cannot know.
    for _ in 0..30 {
        assert_eq!(site.ask("GET", "/slots", &[("Cookie", &stale)], b"").await.code, 200, "as this user");
    }
    let answer = submit(&site, "/act/slots/deploy/freeze", &stale, Some(&own), "").await;
    assert_eq!(answer.code, 401);
    let wrong = submit(&site, "/login", "", Some(&own), "token=wrong&next=/slots").await;
    assert!(matches!(wrong.code, 401 | 429) && wrong.header("set-cookie").is_none(), "{wrong:?}");
    assert_eq!(submit(&site, "/login", "", Some(&own), "").await.code, 401);
    assert_eq!(submit(&site, "/login", &stale, Some(&own), &format!("token={}", site.token)).await.code, 303);

    // A button that its viewer may not press: the page says why, and nothing changes.
    let read = create_token(&site.session, &["read"]).await;
    let link = format!("/login?token={read}");
    let logged_in = eventually_async("it is known, so nobody is suspected of guessing", async || {
        Some(site.ask("GET", &link, &[], b"").await).filter(|answer| answer.code == 303)
    })
    .await;
    let sent = cookie(&logged_in);
    let answer = submit(&site, "/act/slots/deploy/freeze", &sent, Some(&own), "").await;
    assert!(answer.code == 403 && answer.text().contains("slots:operate"), "{answer:?}");
    assert!(!is_frozen(&site).await);
}
