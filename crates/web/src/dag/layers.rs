//! Columns of slots: which are in which column, and in which order.

use super::SLOTS_MAX;

/// Sweeps to the right and back; more change hardly anything.
const ROUNDS: usize = 6;

/// A place in a column.
pub struct Slot {
    /// What is in it.
    pub kind: SlotKind,
    /// Slots of the column before that lines come from.
    pub before: Vec<usize>,
    /// Slots of the next column that lines lead to.
    pub after: Vec<usize>,
}

/// What is in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotKind {
    /// A task.
    Box,
    /// The label of a line.
    Label,
    /// A line that passes.
    Line,
}

/// The slots of a graph. The first are those of the tasks.
pub struct Graph {
    /// All slots.
    pub slots: Vec<Slot>,
    /// Slots by column, from the top. Boxes are in columns with even numbers, labels in the others.
    pub columns: Vec<Vec<usize>>,
    /// Slots that a line goes through, from box to box, with the index of its edge.
    pub ways: Vec<(usize, Vec<usize>)>,
}

impl Graph {
    /// `None` if it has too many slots.
    pub fn new(tasks: usize, edges: &[(usize, usize)]) -> Option<Self> {
        let is_forward = |(from, to): (usize, usize)| from < to && to < tasks;
        let layers = layers(tasks, edges.iter().copied().filter(|edge| is_forward(*edge)));
        let slot = |kind| Slot { kind, before: Vec::new(), after: Vec::new() };
        let column_count = layers.iter().max().map_or(0, |last| 2 * last + 1);
        let mut graph = Self {
            slots: (0..tasks).map(|_| slot(SlotKind::Box)).collect(),
            columns: vec![Vec::new(); column_count],
            ways: Vec::new(),
        };
        layers.iter().enumerate().for_each(|(task, layer)| graph.columns[2 * layer].push(task));
        for (edge, (from, to)) in edges.iter().copied().enumerate().filter(|(_, edge)| is_forward(*edge)) {
            let mut way = vec![from];
            let first = 2 * layers[from] + 1;
            for column in first..2 * layers[to] {
                way.push(graph.slots.len());
                graph.columns[column].push(graph.slots.len());
                graph.slots.push(slot(if column == first { SlotKind::Label } else { SlotKind::Line }));
            }
            way.push(to);
            for step in way.windows(2) {
                graph.slots[step[0]].after.push(step[1]);
                graph.slots[step[1]].before.push(step[0]);
            }
            graph.ways.push((edge, way));
            if graph.slots.len() > SLOTS_MAX {
                return None;
            }
        }
        graph.order();
        Some(graph)
    }

    /// Puts each slot near the middle of those that it is connected with, column by column, to the right and back.
    fn order(&mut self) {
        let mut places = vec![0; self.slots.len()];
        let Self { slots, columns, .. } = self;
        columns.iter().for_each(|column| note_places(&mut places, column));
        for _ in 0..ROUNDS {
            for column in columns.iter_mut() {
                sort(column, &mut places, |slot| &slots[slot].before);
            }
            for column in columns.iter_mut().rev() {
                sort(column, &mut places, |slot| &slots[slot].after);
            }
        }
    }
}

fn note_places(places: &mut [usize], column: &[usize]) {
    column.iter().enumerate().for_each(|(place, slot)| places[*slot] = place);
}

/// Sorts by the mean place of neighbours; those without any stay about where they are.
fn sort<'a>(column: &mut [usize], places: &mut [usize], neighbours: impl Fn(usize) -> &'a Vec<usize>) {
    let mean = |slot: &usize| {
        let near = neighbours(*slot);
        match near.len() {
            0 => places[*slot] << 16,
            count => (near.iter().map(|other| places[*other]).sum::<usize>() << 16) / count,
        }
    };
    column.sort_by_cached_key(mean);
    note_places(places, column);
}

/// The layer of each task: along the longest way from a beginning. Edges lead to later tasks.
pub fn layers(tasks: usize, edges: impl Iterator<Item = (usize, usize)>) -> Vec<usize> {
    let mut edges: Vec<(usize, usize)> = edges.collect();
    edges.sort_unstable();
    let mut layers = vec![0; tasks];
    // All edges into a task come before those out of it.
    for (from, to) in edges {
        layers[to] = layers[to].max(layers[from] + 1);
    }
    layers
}
