//! The tasks of a job as a picture. Tables below it say the same, for those who do not see it.

use maud::{Markup, html};
use menagerie_flows::view::{EdgeView, JobView, Standing, TaskRow};
use menagerie_znodes::flows::PeerState;

use super::parts::{Mood, mood_mark, visible};
use crate::dag::{BOX_HEIGHT, BOX_WIDTH, LABEL_HEIGHT, Layout, Line, layout};

/// Between the frame of a box and its text.
const PADDING: i32 = 10;
/// Width of a letter in the name of a task, about; letters beyond ASCII may be twice as wide.
const LETTER_WIDTH: i32 = 8;

/// The picture of a job's tasks and links.
pub fn picture(view: &JobView) -> Markup {
    let place = |number: u32| view.tasks.iter().position(|task| task.number == number);
    let known: Vec<(&EdgeView, (usize, usize))> =
        view.edges.iter().filter_map(|edge| Some((edge, (place(edge.from)?, place(edge.to)?)))).collect();
    let edges: Vec<(usize, usize)> = known.iter().map(|(_, places)| *places).collect();
    let Some(layout) = layout(view.tasks.len(), &edges) else {
        return html! { p { "There are too many links for a picture; the tables have all of them." } };
    };
    let Layout { width, height, boxes, lines } = &layout;
    let is_running = view.job.state == Standing::Running;
    html! {
        div.dag.scroll tabindex="0" role="region" aria-label="Picture of the tasks" {
            svg role="img" aria-labelledby="dag-title dag-about" width=(width) height=(height)
                viewBox=(format!("0 0 {width} {height}")) {
                title #dag-title { "Tasks of the job and the links between them" }
                desc #dag-about { (about(view)) }
                @for line in lines { (arrow(line, known[line.edge].0)) }
                @for (task, corner) in view.tasks.iter().zip(boxes) { (task_box(task, *corner, is_running)) }
            }
        }
    }
}

/// The picture in a sentence.
fn about(view: &JobView) -> String {
    let held = view.edges.iter().filter(|edge| edge.is_held_back == Some(true)).count();
    let complete = view.tasks.iter().filter(|task| task.is_complete).count();
    format!(
        "{} tasks, {complete} complete; {} links, {held} with a writer that is held back. The tables after the picture say \
         the same.",
        view.tasks.len(),
        view.edges.len(),
    )
}

/// How a task is, in a word.
pub fn task_state(task: &TaskRow, is_running: bool) -> (Mood, &'static str) {
    match (task.is_complete, is_running) {
        (true, _) => (Mood::Good, "complete"),
        (false, false) => (Mood::Idle, "not complete"),
        (false, true) if task.peers.contains(&PeerState::Sealing) => (Mood::Busy, "sealing"),
        (false, true) if task.peers.is_empty() => (Mood::Idle, "waits for a peer"),
        (false, true) => (Mood::Busy, "at work"),
    }
}

fn task_box(task: &TaskRow, (left, top): (i32, i32), is_running: bool) -> Markup {
    let (mood, word) = task_state(task, is_running);
    let (class, sign) = mood_mark(mood);
    let peers = match task.peers.len() {
        0 => String::new(),
        1 => " · 1 peer".to_owned(),
        count => format!(" · {count} peers"),
    };
    html! {
        g.task.(class) {
            title { (visible(&task.name)) ": " (task.task_type) ", " (word) (peers) }
            rect x=(left) y=(top) width=(BOX_WIDTH) height=(BOX_HEIGHT) rx="8" {}
            // What is too long is cut at the frame.
            svg x=(left) y=(top) width=(BOX_WIDTH - PADDING / 2) height=(BOX_HEIGHT) {
                text.name x=(PADDING) y="24" { (shortened(&visible(&task.name))) }
                text x=(PADDING) y="43" { (task.task_type) (peers) }
                text.state x=(PADDING) y="62" { (sign) " " (word) }
            }
        }
    }
}

/// A name, as much as a box has room for.
fn shortened(name: &str) -> String {
    let mut room = BOX_WIDTH - 2 * PADDING;
    let mut cut = 0;
    for (at, letter) in name.char_indices() {
        room -= if letter.is_ascii() { LETTER_WIDTH } else { 2 * LETTER_WIDTH };
        if room < 0 {
            return format!("{}…", &name[..cut]);
        }
        // Room for the ellipsis.
        if room >= 2 * LETTER_WIDTH {
            cut = at + letter.len_utf8();
        }
    }
    name.to_owned()
}

fn arrow(line: &Line, edge: &EdgeView) -> Markup {
    let is_held = edge.is_held_back == Some(true);
    let points: Vec<String> = line.points.iter().map(|(x, y)| format!("{x},{y}")).collect();
    let (x, y) = line.points.last().copied().unwrap_or_default();
    let head = format!("{x},{y} {},{} {},{}", x - 9, y - 5, x - 9, y + 5);
    let (middle, baseline) = line.label;
    html! {
        g.link.held[is_held] {
            polyline points=(points.join(" ")) {}
            polygon points=(head) {}
            @if let Some(lag) = edge.lag {
                text x=(middle) y=(baseline - 6) text-anchor="middle" { (short(lag)) " waiting" }
            }
            @if is_held {
                text.state x=(middle) y=(baseline + LABEL_HEIGHT / 2 - 3) text-anchor="middle" { "▲ held back" }
            }
        }
    }
}

/// A number that fits on an arrow.
fn short(number: u64) -> String {
    match number {
        0..1_000_000 => number.to_string(),
        1_000_000..1_000_000_000 => format!("{} M", number / 1_000_000),
        _ => format!("{} G", number / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use menagerie_flows::view::JobRow;

    use super::*;

    fn task(number: u32, name: &str) -> TaskRow {
        TaskRow {
            number,
            name: name.to_owned(),
            task_type: "transformer".to_owned(),
            partitions: 4,
            is_complete: false,
            peers: vec![PeerState::Active; number as usize - 1],
            workers: Vec::new(),
        }
    }

    fn job(names: [&str; 2], edge: EdgeView) -> JobView {
        let job = JobRow {
            id: "j1".to_owned(),
            name: "j".to_owned(),
            state: Standing::Running,
            why: None,
            complete: 0,
            tasks: 2,
            submitted_ms: None,
            ended_ms: None,
        };
        JobView { job, tasks: vec![task(1, names[0]), task(2, names[1])], edges: vec![edge] }
    }

    #[test]
    fn a_link_says_what_waits_and_whether_its_writer_is_held_back() {
        let edge = EdgeView::new(1, 2, 4);
        let silent = picture(&job(["a", "b"], edge.clone())).into_string();
        assert!(!silent.contains("waiting") && !silent.contains("class=\"link held\""), "{silent}");
        let full = EdgeView { lag: Some(12), is_held_back: Some(true), ..edge };
        let shown = picture(&job(["a", "b"], full)).into_string();
        for expected in ["12 waiting", "▲ held back", "class=\"link held\"", "1 with a writer", "· 1 peer"]
        {
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
        assert!(!shown.contains("style="), "{shown}");
    }

    #[test]
    fn names_are_text_and_no_longer_than_their_boxes() {
        let hostile = "<script>alert(\"1\")</script>\u{202e}";
        let shown = picture(&job([hostile, "b"], EdgeView::new(1, 2, 4))).into_string();
        assert!(!shown.contains("<script") && !shown.contains('\u{202e}'), "{shown}");
        assert!(shown.contains("&lt;script&gt;alert"), "{shown}");
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened("seventeen-letters"), "seventeen-letters");
        assert_eq!(shortened("eighteen-letters-x"), "eighteen-letter…");
        assert_eq!(shortened(&"é".repeat(9)), format!("{}…", "é".repeat(7)));
    }
}
