use proptest::prelude::*;

use super::layers::layers;
use super::*;

const CHAIN: &[(usize, usize)] = &[(0, 1), (1, 2), (2, 3)];
/// With a shorter way beside the longer one.
const DIAMOND: &[(usize, usize)] = &[(0, 1), (0, 2), (2, 3), (1, 4), (3, 4)];

fn layers_of(tasks: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    layers(tasks, edges.iter().copied())
}

#[test]
fn layers_follow_the_longest_way() {
    assert_eq!(layers_of(4, CHAIN), [0, 1, 2, 3]);
    assert_eq!(layers_of(5, DIAMOND), [0, 1, 1, 2, 3]);
    assert_eq!(layers_of(4, &[(0, 2), (1, 3)]), [0, 0, 1, 1]);
    assert_eq!(layers_of(0, &[]), [0; 0]);
}

#[test]
fn a_chain_is_a_straight_line_and_fits_a_page() {
    let layout = layout(4, CHAIN).unwrap();
    let heights: Vec<i32> = layout.lines.iter().flat_map(|line| &line.points).map(|point| point.1).collect();
    assert!(heights.windows(2).all(|pair| pair[0] == pair[1]), "{heights:?}");
    assert!(layout.width <= 1_160, "{}", layout.width);
}

#[test]
fn parallel_chains_do_not_cross() {
    let layout = layout(4, &[(0, 3), (1, 2)]).unwrap();
    let is_above = |one: usize, other: usize| layout.boxes[one].1 < layout.boxes[other].1;
    assert_eq!(is_above(0, 1), is_above(3, 2));
}

#[test]
fn edges_that_contradict_the_order_are_left_out() {
    let layout = layout(2, &[(1, 0), (0, 0), (0, 1), (0, 7)]).unwrap();
    assert_eq!(layout.lines.iter().map(|line| line.edge).collect::<Vec<_>>(), [2]);
}

#[test]
fn two_hundred_tasks_are_laid_out_and_a_tangle_is_not() {
    let wide: Vec<(usize, usize)> = (1..199).flat_map(|task| [(0, task), (task, 199)]).collect();
    check(200, &wide);
    let long: Vec<(usize, usize)> = (1..200).map(|task| (task - 1, task)).collect();
    check(200, &long);
    let tangle: Vec<(usize, usize)> = (0..200)
        .flat_map(|from| (1..9).map(move |step| (from, from + step * step * 3)))
        .chain(long)
        .collect();
    assert_eq!(layout(200, &tangle), None);
}

/// Left, top, right, bottom.
type Area = [i32; 4];

fn overlap(a: &Area, b: &Area) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}

/// Nothing is on top of something else, or outside, and arrows point to the right.
fn check(tasks: usize, edges: &[(usize, usize)]) {
    let layout = layout(tasks, edges).unwrap();
    assert_eq!(Some(&layout), super::layout(tasks, edges).as_ref(), "the same graph gives the same picture");
    assert_eq!((layout.boxes.len(), layout.lines.len()), (tasks, edges.len()));
    let boxes = layout.boxes.iter().map(|(x, y)| [*x, *y, x + BOX_WIDTH, y + BOX_HEIGHT]);
    let labels = layout.lines.iter().map(|line| {
        let ((x, y), (width, height)) = (line.label, (LABEL_WIDTH / 2, LABEL_HEIGHT / 2));
        [x - width, y - height, x + width, y + height]
    });
    let areas: Vec<Area> = boxes.chain(labels).collect();
    for (index, area) in areas.iter().enumerate() {
        assert!(area[0] >= 0 && area[1] >= 0 && area[2] <= layout.width && area[3] <= layout.height);
        assert!(!areas[..index].iter().any(|other| overlap(area, other)), "{area:?} of {areas:?}");
    }
    for line in &layout.lines {
        let (from, to) = edges[line.edge];
        assert!(layout.boxes[from].0 + BOX_WIDTH < layout.boxes[to].0);
        assert!(line.points.windows(2).all(|step| step[0].0 < step[1].0), "{:?}", line.points);
        for (x, y) in &line.points {
            let is_inside = |(left, top): &Point| {
                (left + 1..left + BOX_WIDTH).contains(x) && (top + 1..top + BOX_HEIGHT).contains(y)
            };
            assert!(!layout.boxes.iter().any(is_inside), "a line goes through a box");
        }
    }
}

proptest! {
    #[test]
    fn nothing_overlaps_in_any_graph(
        tasks in 1_usize..25,
        pairs in prop::collection::btree_set((0_usize..25, 0_usize..25), 0..60),
    ) {
        let edges: Vec<(usize, usize)> =
            pairs.into_iter().filter(|(from, to)| from < to && *to < tasks).collect();
        check(tasks, &edges);
    }
}
