//! Charts of queues: the last hour as this process has seen it, and the values of the page itself as the newest ones, so
//! that what happens is in the chart at once.

use maud::{Markup, html};
use menagerie_queues::view::{QueueOverview, QueueRow};

use super::Viewer;
use crate::chart::{Chart, Line, Unit};
use crate::history::{Sample, hour};
use crate::params::LIMIT_MAX;
use crate::reads::now_ms;

type Value = fn(&Sample) -> Option<f64>;

/// The charts of a queue.
pub fn of_queue(viewer: &Viewer, view: &QueueOverview) -> Markup {
    let now_ms = now_ms();
    let samples = viewer.sources.history.of_queue(&view.queue).unwrap_or_default();
    let slots = hour(&samples, Some(Sample::of_overview(now_ms, view)), now_ms);
    html! {
        h2 { "The last hour" }
        div.charts {
            (waiting(&slots, "Waiting messages").show())
            (oldest(&slots).show())
            (rates(&slots).show())
        }
    }
}

/// The chart of all queues together; `rows` is what the page shows.
pub fn of_all(viewer: &Viewer, rows: &[QueueRow]) -> Markup {
    let now_ms = now_ms();
    // A page that cannot show all queues cannot say how many messages wait now.
    let live = if rows.len() < LIMIT_MAX { Sample::of_all_now(now_ms, rows) } else { None };
    let slots = hour(&viewer.sources.history.of_all(), live, now_ms);
    html! {
        h2 { "The last hour" }
        div.charts { (waiting(&slots, "Waiting messages in all queues").show()) (rates(&slots).show()) }
    }
}

/// Messages per second in all queues, in a sentence; `None` if no worker says.
pub fn rates_now(rows: &[QueueRow]) -> Option<String> {
    let sum = Sample::of_all(0, rows)?;
    let show = |rate: Option<f64>| rate.map_or("–".to_owned(), |rate| format!("{rate:.1}"));
    sum.handled_per_s?;
    Some(format!("{}/s in, {}/s out", show(sum.put_per_s), show(sum.handled_per_s)))
}

fn waiting(slots: &[Option<Sample>], title: &'static str) -> Chart {
    let lines = vec![line("waiting", slots, |sample| Some(sample.waiting as f64))];
    Chart { id: "waiting", title, unit: Unit::Messages, lines }
}

fn oldest(slots: &[Option<Sample>]) -> Chart {
    // Where nothing waits, nothing is late.
    let lines = vec![line("oldest", slots, |sample| Some(sample.oldest_ms.unwrap_or(0) as f64))];
    Chart { id: "oldest", title: "Age of the oldest", unit: Unit::Age, lines }
}

fn rates(slots: &[Option<Sample>]) -> Chart {
    let lines =
        vec![line("in", slots, |sample| sample.put_per_s), line("out", slots, |sample| sample.handled_per_s)];
    Chart { id: "rates", title: "Messages per second", unit: Unit::PerSecond, lines }
}

fn line(name: &'static str, slots: &[Option<Sample>], value: Value) -> Line {
    let values = slots.iter().map(|slot| slot.as_ref().and_then(value)).collect();
    Line { name, values }
}
