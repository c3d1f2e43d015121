//! The stories in `testdata/*.txt`: commands in, what the core does out. After a wanted change of behaviour:
//! `UPDATE_TRANSCRIPTS=1 cargo test -p menagerie-pipelines --lib`, and read the difference.

use std::fs;
use std::path::Path;

use super::script::Script;

/// Plays the commands of a story (`> ...`, with `| ...` lines as their text) and writes what comes of them behind each.
/// Comments and empty lines stay.
fn play(story: &str) -> String {
    let mut script = Script::new("gate");
    let mut played = String::new();
    let mut lines = story.lines().peekable();
    while let Some(line) = lines.next() {
        // Seen if the story fails.
        println!("{line}");
        let is_kept = line.is_empty() || line.starts_with(['#', '>', '|']);
        if !is_kept {
            continue;
        }
        played.push_str(&format!("{line}\n"));
        let Some(command) = line.strip_prefix("> ") else { continue };
        let mut body = String::new();
        while let Some(text) = lines.next_if(|line| line.starts_with('|')) {
            played.push_str(&format!("{text}\n"));
            body.push_str(&format!("{}\n", text.strip_prefix("| ").unwrap_or("")));
        }
        for told in script.play(command, &body) {
            println!("{told}");
            played.push_str(&format!("{told}\n"));
        }
    }
    played
}

fn check(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(format!("{name}.txt"));
    let story = fs::read_to_string(&path).unwrap();
    let played = play(&story);
    if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
        fs::write(&path, &played).unwrap();
    } else if played != story {
        let differs = played.lines().zip(story.lines()).position(|(now, then)| now != then).unwrap_or(0);
        panic!(
            "{name}.txt differs from line {} on (UPDATE_TRANSCRIPTS=1 rewrites it); it is now:\n{played}",
            differs + 1
        );
    }
}

macro_rules! stories {
    ($($name:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            check(stringify!($name));
        }
    )*};
}

stories!(
    clash_with_a_failing_item,
    config,
    first_stanza,
    dependencies,
    executor_lost,
    head_fails_with_20_behind,
    late_results,
    new_patchset_and_abandon,
    target_moved,
    window,
);
