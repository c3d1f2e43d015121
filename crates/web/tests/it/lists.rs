//! Lists: pages that follow each other, and filters.

use std::collections::BTreeSet;

use menagerie_kernel::retry;
use serde_json::Value;

use crate::site::Site;

/// All pages of a list: how long each was, and this field of every entry.
async fn pages(site: &Site, path: &str, limit: usize, field: &str) -> (Vec<usize>, Vec<String>) {
    let (mut lengths, mut all, mut cursor) = (Vec::new(), Vec::new(), String::new());
    loop {
        let page = site.get(&format!("{path}limit={limit}&cursor={cursor}")).await.value();
        let items = page["items"].as_array().unwrap();
        lengths.push(items.len());
        let text = |item: &Value| match &item[field] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        all.extend(items.iter().map(text));
        match page["next"].as_str() {
            Some(next) => {
                assert_eq!(items.len(), limit);
                cursor = percent_encoding::utf8_percent_encode(next, percent_encoding::NON_ALPHANUMERIC)
                    .to_string();
            }
            None => return (lengths, all),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_a_list_have_everything_once_and_filters_hold_on_all_of_them() {
    let site = Site::new("web-pages").await;
    let by = |number: usize| format!("pool-{number:03}");
    for number in 0..250 {
        let pool = by(number).parse().unwrap();
        menagerie_slots::admin::create(&site.session, &pool, 1, "a test").await.unwrap();
    }
    let (lengths, names) = pages(&site, "/slots?", 100, "pool").await;
    assert_eq!(lengths, [100, 100, 50]);
    assert_eq!(names, (0..250).map(by).collect::<Vec<_>>());
    assert_eq!(pages(&site, "/slots?", 250, "pool").await.0, [250]);
    assert_eq!(site.get("/slots").await.value()["items"].as_array().unwrap().len(), 100);

    let (lengths, names) = pages(&site, "/slots?q=OOL-1&", 30, "pool").await;
    assert_eq!((lengths.len(), names.len()), (4, 100));
    assert!(names.iter().all(|name| name.contains("pool-1")));
    assert_eq!(pages(&site, "/slots?q=none&", 30, "pool").await.1, [""; 0]);

    // A deleted entry between two pages hides nothing.
    let page = site.get("/slots?limit=1").await.value();
    retry::ensure(&site.session.term(), "/elsewhere", b"").await.unwrap();
    menagerie_slots::admin::delete(&site.session, &"pool-000".parse().unwrap()).await.unwrap();
    let next = page["next"].as_str().unwrap();
    let second = site.get(&format!("/slots?limit=1&cursor={next}")).await.value();
    assert_eq!(second["items"][0]["pool"], "pool-001");

    // Pages for people are cut the same way, and lead on.
    let page = site.page("/slots?q=pool").await.text();
    assert_eq!(page.matches("id=\"pool-pool").count(), 100);
    assert!(page.contains("rel=\"next\"") && page.contains("q=pool&amp;cursor=pool-100"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_list_is_paged_by_the_same_rules() {
    let site = Site::new("web-lists").await;
    site.pool("deploy", &[]).await;
    site.create(&site.session, "mail", 1).await;
    site.fail("mail", &["a", "b", "c", "d", "e"], "no").await;
    for name in ["mail2", "news", "jobs", "Bulk"] {
        site.create(&site.session, name, 1).await;
    }
    for number in 1..=5 {
        site.job(&format!("job{number}"), "count").await;
        site.post("/slots/deploy/freeze", "{}").await.value();
    }
    for (path, field, count) in [
        ("/queues?", "queue", 5),
        ("/queues/mail/failed?", "id", 5),
        ("/flows?", "id", 5),
        ("/audit?", "number", 5),
        ("/slots/deploy/history?", "zxid", 6),
    ] {
        let (_, all) = pages(&site, path, 1_000, field).await;
        assert_eq!(all.len(), count, "{path}: {all:?}");
        for limit in 1..=6 {
            let (lengths, cut) = pages(&site, path, limit, field).await;
            assert_eq!(cut, all, "{path} by {limit}");
            assert!(lengths.iter().all(|length| *length > 0), "{path} by {limit}: {lengths:?}");
        }
    }
    let (_, mail) = pages(&site, "/queues?q=mail&", 1, "queue").await;
    assert_eq!(mail, ["mail", "mail2"]);
    assert_eq!(pages(&site, "/flows?state=running&", 9, "id").await.1, [""; 0]);
    assert_eq!(pages(&site, "/flows?state=submitted&q=JOB3&", 9, "id").await.1, ["job3"]);
    let children = site.get("/znodes?path=/&limit=2").await.value();
    let cursor = children["children"]["next"].as_str().unwrap();
    let rest = site.get(&format!("/znodes?path=/&cursor={cursor}")).await.value();
    let names = |page: &Value| -> BTreeSet<String> {
        page["children"]["items"].as_array().unwrap().iter().map(|name| name.to_string()).collect()
    };
    assert!(names(&children).is_disjoint(&names(&rest)) && !names(&rest).is_empty());
}
