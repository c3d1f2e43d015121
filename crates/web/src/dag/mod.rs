//! Where the boxes and lines of a graph without cycles go. Pure, and the same for the same graph.
//!
//! - this file: what goes in and comes out. `layers.rs`: columns of slots, and their order. `place.rs`: their coordinates,
//!   and the lines through them.
//!
//! Tasks stand in columns, each as far right as its longest way from a beginning. A line has a slot of its own in each
//! column that it passes, and its label has the first of these. So lines cross between columns alone, and no box or label
//! is ever on top of something else.

mod layers;
mod place;
#[cfg(test)]
mod tests;

/// A graph with more slots is not drawn: nobody could follow its lines.
pub const SLOTS_MAX: usize = 10_000;
/// Width of a box.
pub const BOX_WIDTH: i32 = 160;
/// Height of a box.
pub const BOX_HEIGHT: i32 = 74;
/// Width of a label.
pub const LABEL_WIDTH: i32 = 104;
/// Height of a label: one line of text above the arrow, and one below it.
pub const LABEL_HEIGHT: i32 = 40;

/// A point: from the left, from the top.
pub type Point = (i32, i32);

/// A graph that was laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Width of all of it.
    pub width: i32,
    /// Height of all of it.
    pub height: i32,
    /// The corner at the top left of each task's box.
    pub boxes: Vec<Point>,
    /// The lines that were asked for, in the same order.
    pub lines: Vec<Line>,
}

/// A line from box to box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Index of the edge.
    pub edge: usize,
    /// Its corners; the last of them is the tip of the arrow.
    pub points: Vec<Point>,
    /// The middle of its label, on the line.
    pub label: Point,
}

/// Lays out so many tasks with these edges, given as indices of tasks. Tasks are in an order in which each comes after
/// those that it reads from; an edge that contradicts that is left out. `None` if there are too many lines to follow.
pub fn layout(tasks: usize, edges: &[(usize, usize)]) -> Option<Layout> {
    let graph = layers::Graph::new(tasks, edges)?;
    Some(place::place(&graph, tasks))
}
