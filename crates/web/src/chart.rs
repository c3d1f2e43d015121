//! Line charts of the last hour as SVG: ours, as a chart of two lines and four labels is smaller than any library, and a
//! strict content policy forbids what most of them do. Pure: the same numbers give the same bytes.
//!
//! Nothing is told by colour or by picture alone: lines differ by their dashes and have their names at their ends, the
//! caption has the newest values, and a table below has the numbers.

use std::fmt::Write as _;
use std::time::Duration;

use maud::{Markup, html};
use menagerie_types::duration::age;

/// Units of the picture: a slot is one wide. Labels of the value axis are left of it, names of lines right of it.
const LEFT: usize = 48;
const RIGHT: usize = 38;
/// The upper and the lower end of the value axis.
const TOP: i32 = 10;
const BOTTOM: i32 = 110;
const HEIGHT: i32 = 134;
/// Names of lines are at least this far from each other.
const NAME_HEIGHT: i32 = 18;

/// What the values of a chart are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Counted messages.
    Messages,
    /// Milliseconds.
    Age,
    /// Messages per second.
    PerSecond,
}

/// A line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its name, at its end if there are several.
    pub name: &'static str,
    /// A value for each slot, oldest first; `None` is a gap. The last one is that of now.
    pub values: Vec<Option<f64>>,
}

/// A chart of one or two lines.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Its id on the page.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// In what.
    pub unit: Unit,
    /// The lines; all of them have as many slots.
    pub lines: Vec<Line>,
}

impl Chart {
    /// The chart with its caption, and the table for those who cannot see it.
    pub fn show(&self) -> Markup {
        let id = |part: &str| format!("chart-{}-{part}", self.id);
        html! {
            figure.chart id=(id("figure")) {
                figcaption { strong { (self.title) } " " (self.newest()) }
                (self.picture(&id("title"), &id("about")))
                details {
                    summary { (self.title) " in numbers" }
                    table {
                        thead { tr { th scope="col" { "Last hour" } th scope="col" { "Now" } th scope="col" { "Highest" } } }
                        tbody {
                            @for line in &self.lines {
                                tr {
                                    th scope="row" { (line.name) }
                                    td.number { (self.show_or_dash(line.newest())) }
                                    td.number { (self.show_or_dash(line.highest())) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn picture(&self, title: &str, about: &str) -> Markup {
        let slots = self.lines.iter().map(|line| line.values.len()).max().unwrap_or(0).max(1);
        let (right, top) = (LEFT + slots - 1, self.ceiling());
        let view = format!("0 0 {} {HEIGHT}", right + RIGHT);
        let across = |y: i32| format!("M{LEFT} {y}H{right}");
        let lines: Vec<Vec<Option<i32>>> = self.lines.iter().map(|line| line.heights(top)).collect();
        let ends: Vec<Option<i32>> = lines.iter().map(|ys| ys.iter().rev().find_map(|y| *y)).collect();
        let names = self.lines.iter().zip(name_heights(&ends));
        html! {
            svg viewBox=(view) role="img" aria-labelledby=(format!("{title} {about}")) {
                title id=(title) { (self.title) ", the last hour" }
                desc id=(about) { (self.about()) }
                path.grid d=(across(TOP) + &across(BOTTOM)) {}
                text.value x=(LEFT - 5) y=(TOP + 5) { (self.unit.on_axis(top)) }
                text.value x=(LEFT - 5) y=(BOTTOM + 5) { "0" }
                text x=(LEFT) y=(HEIGHT - 4) { "−60 min" }
                text.end x=(right) y=(HEIGHT - 4) { "now" }
                @for (at, ys) in lines.iter().enumerate() {
                    path.line.second[at > 0] d=(path(ys)) {}
                    @if let Some(Some(y)) = ys.last() { circle.now.second[at > 0] cx=(right) cy=(y) r="3" {} }
                }
                @for (at, (line, y)) in names.enumerate().filter(|_| self.lines.len() > 1) {
                    @if let Some(y) = y { text.name.second[at > 0] x=(right + 5) y=(y + 5) { (line.name) } }
                }
            }
        }
    }

    /// The newest values, for the caption.
    fn newest(&self) -> String {
        let one = |line: &Line| match (self.lines.len(), line.newest()) {
            (_, None) => None,
            (1, Some(value)) => Some(self.unit.show(value)),
            (_, Some(value)) => Some(format!("{} {}", line.name, self.unit.show(value))),
        };
        self.lines.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    }

    /// What can be seen, in words.
    fn about(&self) -> String {
        let one = |line: &Line| {
            let name = if self.lines.len() > 1 { format!("{}: ", line.name) } else { String::new() };
            let Some(highest) = line.highest() else { return format!("{name}no samples yet.") };
            let newest = line.newest().map_or("unknown".to_owned(), |value| self.unit.show(value));
            format!("{name}now {newest}, at most {}.", self.unit.show(highest))
        };
        self.lines.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    /// The value at the upper end of the axis: a round one.
    fn ceiling(&self) -> f64 {
        let highest = self.lines.iter().filter_map(Line::highest).fold(0.0, f64::max);
        self.unit.ceiling(highest)
    }

    fn show_or_dash(&self, value: Option<f64>) -> String {
        value.map_or("–".to_owned(), |value| self.unit.show(value))
    }
}

impl Line {
    /// The value of now. The one before counts, too: a new slot may not have its sample yet.
    fn newest(&self) -> Option<f64> {
        self.values.iter().rev().take(2).find_map(known)
    }

    fn highest(&self) -> Option<f64> {
        self.values.iter().filter_map(known).reduce(f64::max)
    }

    /// Where each slot is, on an axis that ends with this value.
    fn heights(&self, top: f64) -> Vec<Option<i32>> {
        let height = f64::from(BOTTOM - TOP);
        let y = |value: f64| BOTTOM - ((value / top).clamp(0.0, 1.0) * height).round() as i32;
        self.values.iter().map(|value| known(value).map(y)).collect()
    }
}

fn known(value: &Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

/// A line through these heights, as short as it can be written: a page has several, and is sent often.
fn path(ys: &[Option<i32>]) -> String {
    let (mut path, mut x) = (String::new(), LEFT);
    for part in ys.split(Option::is_none) {
        draw_part(&mut path, x, &part.iter().flatten().copied().collect::<Vec<_>>());
        x += part.len() + 1;
    }
    path
}

/// A part of a line, between gaps.
fn draw_part(path: &mut String, x: usize, ys: &[i32]) {
    let mut before = None;
    for level in ys.chunk_by(i32::eq) {
        let (y, across) = (level[0], level.len() - 1);
        // Writing to a string cannot fail.
        let _ = match before {
            None => write!(path, "M{x} {y}"),
            Some(before) => write!(path, "l1 {}", y - before),
        };
        // A single sample is a line without length, whose round ends make it a dot.
        if across > 0 || ys.len() == 1 {
            let _ = write!(path, "h{across}");
        }
        before = Some(y);
    }
}

/// Where the names of lines are written: at their ends, and not across each other.
fn name_heights(ends: &[Option<i32>]) -> Vec<Option<i32>> {
    let [Some(first), Some(second)] = *ends else { return ends.to_vec() };
    let overlap = NAME_HEIGHT - (first - second).abs();
    if overlap <= 0 {
        return ends.to_vec();
    }
    let middle = ((first + second) / 2).clamp(TOP + NAME_HEIGHT / 2, BOTTOM - NAME_HEIGHT / 2);
    let (above, below) = (middle - NAME_HEIGHT / 2, middle - NAME_HEIGHT / 2 + NAME_HEIGHT);
    if first <= second { vec![Some(above), Some(below)] } else { vec![Some(below), Some(above)] }
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Self::Messages => short(value, 0),
            Self::Age => age(Duration::from_millis(value as u64)),
            Self::PerSecond => format!("{}/s", short(value, 1)),
        }
    }

    /// A value without what the title says, and with no more characters than there is room for.
    fn on_axis(self, value: f64) -> String {
        match self {
            Self::Messages | Self::PerSecond => short(value, 1),
            Self::Age => self.show(value),
        }
    }

    /// The next round value; never zero.
    fn ceiling(self, highest: f64) -> f64 {
        let second = 1_000.0;
        match self {
            Self::Messages => round_up(highest.max(1.0)),
            Self::PerSecond => round_up(highest.max(0.1)),
            Self::Age => {
                let seconds = (highest / second).max(1.0);
                let of_clock = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200];
                let of_day = [10_800, 21_600, 43_200, 86_400];
                let round = of_clock.into_iter().chain(of_day).map(f64::from).find(|round| seconds <= *round);
                round.unwrap_or_else(|| round_up(seconds / 86_400.0) * 86_400.0) * second
            }
        }
    }
}

/// The next of 1, 2, 5, 10, 20 …
fn round_up(value: f64) -> f64 {
    let magnitude = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0];
    let step = steps.into_iter().find(|step| value <= step * magnitude * (1.0 + 1e-9));
    step.unwrap_or(10.0) * magnitude
}

/// A number of few characters. Small ones that are not whole have so many decimals.
fn short(value: f64, decimals: usize) -> String {
    let units = [(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")];
    match units.into_iter().find(|(from, _)| value >= *from) {
        Some((1e4, unit)) => format!("{}{unit}", tenths(value / 1e3)),
        Some((from, unit)) => format!("{}{unit}", tenths(value / from)),
        None if value < 100.0 && value.fract() != 0.0 => format!("{value:.decimals$}"),
        None => format!("{value:.0}"),
    }
}

/// Rounded down to a tenth, without a decimal of zero.
fn tenths(value: f64) -> f64 {
    (value * 10.0).floor() / 10.0
}

#[cfg(test)]
mod tests;
