use serde_json::{Value, json};

use super::World;

#[tokio::test]
async fn notes_are_appended_once_and_read_back() {
    let world = World::new();
    let patchset = world.propose("fix", "a", "a\n");
    let repository = world.machine("here").await;
    let vote = json!({"by": "ada", "vote": "+2"});
    let is_there = |lines: &[Value]| lines.contains(&vote);
    assert!(repository.append_note(&patchset, &vote, is_there).await.unwrap());
    assert!(!repository.append_note(&patchset, &vote, is_there).await.unwrap());
    assert!(!world.machine("there").await.append_note(&patchset, &vote, is_there).await.unwrap());
    let report = json!({"by": "gate", "text": "line\nbreak"});
    assert!(repository.append_note(&patchset, &report, |_| false).await.unwrap());
    let tip = repository.remote_refs().await.unwrap()["refs/notes/menagerie"].clone();
    assert_eq!(repository.notes(&tip, &patchset).await.unwrap(), [vote, report]);
    assert_eq!(world.git_in(&repository.cache, &["for-each-ref", "refs/notes"]), "");
}

#[tokio::test]
async fn lines_of_others_are_kept_and_nonsense_is_skipped() {
    let world = World::new();
    let patchset = world.propose("fix", "a", "a\n");
    world.git(&["notes", "--ref=menagerie", "add", "-m", "hello\n{\"vote\":1}\n[3]", patchset.as_str()]);
    world.git(&["push", "-q", "origin", "refs/notes/menagerie"]);
    let repository = world.machine("here").await;
    repository.append_note(&patchset, &json!({"vote": 2}), |lines| lines.len() > 1).await.unwrap();
    let tip = world.remote_ref("refs/notes/menagerie").unwrap();
    assert_eq!(repository.notes(&tip, &patchset).await.unwrap(), [json!({"vote": 1}), json!({"vote": 2})]);
    let text =
        world.git_in(world.path("remote.git"), &["notes", "--ref=menagerie", "show", patchset.as_str()]);
    assert_eq!(text, "hello\n{\"vote\":1}\n[3]\n{\"vote\":2}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_on_three_machines_lose_no_line() {
    let world = World::new();
    let patchset = world.propose("fix", "a", "a\n");
    let mut writers = Vec::new();
    for writer in 0..7 {
        // Five share a cache, the others have their own.
        let machine = if writer < 5 { "shared".to_owned() } else { format!("machine-{writer}") };
        let (repository, patchset) = (world.machine(&machine).await, patchset.clone());
        writers.push(tokio::spawn(async move {
            for round in 0..3 {
                let line = json!({"writer": writer, "round": round});
                assert!(repository.append_note(&patchset, &line, |all| all.contains(&line)).await.unwrap());
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let repository = world.machine("reader").await;
    let tip = repository.remote_refs().await.unwrap()["refs/notes/menagerie"].clone();
    repository.require(&[&tip]).await.unwrap();
    let lines = repository.notes(&tip, &patchset).await.unwrap();
    assert_eq!(lines.len(), 21);
    for writer in 0..7 {
        let rounds: Vec<_> =
            lines.iter().filter(|line| line["writer"] == writer).map(|line| &line["round"]).collect();
        assert_eq!(rounds, [0, 1, 2]);
    }
}

#[tokio::test]
async fn patchsets_with_new_notes_are_found_although_the_fan_out_changes() {
    let world = World::new();
    let repository = world.machine("here").await;
    let spread = |number: u32| format!("{:02x}{number:038x}", number * 37 % 256).parse().unwrap();
    let patchsets: Vec<super::Sha> = (0..80).map(spread).collect();
    for (index, patchset) in patchsets.iter().enumerate() {
        let note = format!("{{\"n\":{index}}}");
        world.git(&["notes", "--ref=menagerie", "add", "-m", &note, patchset.as_str()]);
    }
    world.git(&["push", "-q", "origin", "refs/notes/menagerie"]);
    let all = world.sha("refs/notes/menagerie");
    let few = world.sha("refs/notes/menagerie~60");
    repository.require(&[&all]).await.unwrap();
    let has_folders =
        |notes: &super::Sha| world.git(&["ls-tree", "-r", "--name-only", notes.as_str()]).contains('/');
    assert!(has_folders(&all) && !has_folders(&few), "the fan-out has not changed");
    let sorted = |mut shas: Vec<super::Sha>| {
        shas.sort();
        shas
    };
    assert_eq!(repository.noted_since(None, &all).await.unwrap(), sorted(patchsets.clone()));
    assert_eq!(repository.noted_since(None, &few).await.unwrap(), sorted(patchsets[..20].to_vec()));
    assert_eq!(repository.noted_since(Some(&few), &all).await.unwrap(), sorted(patchsets[20..].to_vec()));
    assert_eq!(repository.noted_since(Some(&all), &all).await.unwrap(), []);
    assert_eq!(repository.notes(&all, &patchsets[17]).await.unwrap(), [json!({"n": 17})]);
    assert!(repository.append_note(&patchsets[17], &json!({"more": true}), |_| false).await.unwrap());
    let tip = world.remote_ref("refs/notes/menagerie").unwrap();
    assert_eq!(repository.noted_since(Some(&all), &tip).await.unwrap(), [patchsets[17].clone()]);
    assert_eq!(
        repository.notes(&tip, &patchsets[17]).await.unwrap(),
        [json!({"n": 17}), json!({"more": true})]
    );
}

#[tokio::test]
async fn after_a_rewrite_of_the_notes_all_are_new() {
    let world = World::new();
    let patchset = world.propose("fix", "a", "a\n");
    let repository = world.machine("here").await;
    repository.append_note(&patchset, &json!({"vote": 1}), |_| false).await.unwrap();
    let tip = world.remote_ref("refs/notes/menagerie").unwrap();
    let rewritten = "1".repeat(40).parse().unwrap();
    assert_eq!(
        repository.noted_since(Some(&rewritten), &tip).await.unwrap(),
        std::slice::from_ref(&patchset)
    );
    // An old commit that only the cache lacks is fetched.
    repository.append_note(&patchset, &json!({"vote": 2}), |_| false).await.unwrap();
    let new = world.remote_ref("refs/notes/menagerie").unwrap();
    let fresh = world.machine("fresh").await;
    fresh.require(&[&new]).await.unwrap();
    assert_eq!(fresh.noted_since(Some(&tip), &new).await.unwrap(), [patchset]);
}

#[tokio::test]
async fn a_hook_that_refuses_notes_is_an_error_at_once() {
    let world = World::new();
    let patchset = world.propose("fix", "a", "a\n");
    world.install_hook("update", "#!/bin/sh\necho no notes here >&2\nexit 1\n");
    let error = world.machine("here").await.append_note(&patchset, &json!({}), |_| false).await.unwrap_err();
    assert!(error.to_string().contains("no notes here"), "{error}");
}
