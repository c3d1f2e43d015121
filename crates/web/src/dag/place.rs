//! Coordinates of slots, and the lines through them.

use super::layers::{Graph, SlotKind};
use super::{BOX_HEIGHT, BOX_WIDTH, LABEL_HEIGHT, LABEL_WIDTH, Layout, Line, Point};

/// Around all of it.
const MARGIN: i32 = 12;
/// Between two boxes of a column.
const BOX_GAP: i32 = 22;
/// What a line needs that passes.
const LINE_HEIGHT: i32 = 14;
/// Between two columns; wider where many lines cross.
const COLUMN_GAP: i32 = 16;
const GAP_PER_LINE: i32 = 3;
const COLUMN_GAP_MAX: i32 = 110;
/// The last part of a line, which is level, so that all arrows are.
const ARROW: i32 = 12;
/// Sweeps to the right and back.
const ROUNDS: usize = 4;

/// Places the slots of a graph, of which the first are its tasks.
pub fn place(graph: &Graph, tasks: usize) -> Layout {
    let (lefts, width) = columns(graph);
    let mut middles = middles(graph);
    let top = (0..graph.slots.len()).map(|slot| middles[slot] - height(graph, slot) / 2).min().unwrap_or(0);
    middles.iter_mut().for_each(|middle| *middle += MARGIN - top);
    let bottom = (0..graph.slots.len()).map(|slot| middles[slot] + height(graph, slot) / 2).max();
    let mut column_of = vec![0; graph.slots.len()];
    for (column, slots) in graph.columns.iter().enumerate() {
        slots.iter().for_each(|slot| column_of[*slot] = column);
    }
    let corner = |task: usize| (lefts[column_of[task]], middles[task] - BOX_HEIGHT / 2);
    let boxes: Vec<Point> = (0..tasks).map(corner).collect();
    let span = |slot: usize| (lefts[column_of[slot]], lefts[column_of[slot]] + column_width(column_of[slot]));
    let lines = graph.ways.iter().map(|(edge, way)| {
        let (from, to) = (way[0], way[way.len() - 1]);
        let out = port(&graph.slots[from].after, way[1], &middles);
        let into = port(&graph.slots[to].before, way[way.len() - 2], &middles);
        let mut points = vec![(span(from).1, boxes[from].1 + out)];
        for slot in &way[1..way.len() - 1] {
            points.extend([(span(*slot).0, middles[*slot]), (span(*slot).1, middles[*slot])]);
        }
        let tip = (boxes[to].0, boxes[to].1 + into);
        points.extend([(tip.0 - ARROW, tip.1), tip]);
        let label = (span(way[1]).0 + LABEL_WIDTH / 2, middles[way[1]]);
        Line { edge: *edge, points, label }
    });
    Layout { width, height: bottom.unwrap_or(0) + MARGIN, lines: lines.collect(), boxes }
}

/// Or labels.
fn has_boxes(column: usize) -> bool {
    column.is_multiple_of(2)
}

fn column_width(column: usize) -> i32 {
    if has_boxes(column) { BOX_WIDTH } else { LABEL_WIDTH }
}

/// The left side of each column, and the width of all.
fn columns(graph: &Graph) -> (Vec<i32>, i32) {
    let (mut lefts, mut left) = (Vec::new(), MARGIN);
    for (column, slots) in graph.columns.iter().enumerate() {
        lefts.push(left);
        let lines: usize = slots.iter().map(|slot| graph.slots[*slot].after.len()).sum();
        let lines = i32::try_from(lines).unwrap_or(i32::MAX).min(COLUMN_GAP_MAX / GAP_PER_LINE);
        let arrow = if has_boxes(column) { 0 } else { ARROW };
        left += column_width(column) + COLUMN_GAP + arrow + lines * GAP_PER_LINE;
    }
    // After the last column there is no gap.
    let width = lefts.last().map_or(0, |left| left + BOX_WIDTH + MARGIN);
    (lefts, width)
}

fn height(graph: &Graph, slot: usize) -> i32 {
    match graph.slots[slot].kind {
        SlotKind::Box => BOX_HEIGHT + BOX_GAP,
        SlotKind::Label => LABEL_HEIGHT,
        SlotKind::Line => LINE_HEIGHT,
    }
}

/// The height of each slot's middle: as near to those of its neighbours as the order allows.
fn middles(graph: &Graph) -> Vec<i32> {
    let mut middles = vec![0; graph.slots.len()];
    for column in &graph.columns {
        settle(graph, column, &mut middles, |_, _| 0);
    }
    let mean = |near: &[usize], middles: &[i32], own: i32| match near.len() {
        0 => own,
        count => (near.iter().map(|slot| i64::from(middles[*slot])).sum::<i64>() / count as i64) as i32,
    };
    let before = |slot: usize, middles: &[i32]| mean(&graph.slots[slot].before, middles, middles[slot]);
    let after = |slot: usize, middles: &[i32]| mean(&graph.slots[slot].after, middles, middles[slot]);
    for _ in 0..ROUNDS {
        graph.columns.iter().for_each(|column| settle(graph, column, &mut middles, before));
        graph.columns.iter().rev().for_each(|column| settle(graph, column, &mut middles, after));
    }
    graph.columns.iter().for_each(|column| settle(graph, column, &mut middles, before));
    middles
}

/// Moves the slots of a column to where they want to be, as near as their order and heights allow: neighbours that want the
/// same place become a block, whose middle is the mean of what they want.
fn settle(graph: &Graph, column: &[usize], middles: &mut [i32], wanted: impl Fn(usize, &[i32]) -> i32) {
    // Measured from where a slot would be if all of them stood close together, their order says that none is before the
    // one above it.
    let (mut offsets, mut offset) = (Vec::new(), 0);
    for slot in column {
        offsets.push(offset + height(graph, *slot) / 2);
        offset += height(graph, *slot);
    }
    // Sum and number of those in each block.
    let mut blocks: Vec<(i64, i64)> = Vec::new();
    for (slot, offset) in column.iter().zip(&offsets) {
        let mut block = (i64::from(wanted(*slot, middles) - offset), 1);
        while let Some(above) = blocks.pop_if(|above| above.0 * block.1 > block.0 * above.1) {
            block = (above.0 + block.0, above.1 + block.1);
        }
        blocks.push(block);
    }
    let starts = blocks.iter().flat_map(|(sum, count)| (0..*count).map(|_| sum.div_euclid(*count) as i32));
    for ((slot, offset), start) in column.iter().zip(&offsets).zip(starts) {
        middles[*slot] = offset + start;
    }
}

/// How far below the top of a box one of its lines begins or ends: in the order of where they lead.
fn port(slots: &[usize], slot: usize, middles: &[i32]) -> i32 {
    let above = slots.iter().filter(|other| middles[**other] < middles[slot]).count() as i32;
    BOX_HEIGHT * (above + 1) / (slots.len() as i32 + 1)
}
