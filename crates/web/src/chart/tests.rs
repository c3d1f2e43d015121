use super::*;

fn line(name: &'static str, values: &[Option<f64>]) -> Line {
    Line { name, values: values.to_vec() }
}

fn chart(unit: Unit, lines: Vec<Line>) -> Chart {
    Chart { id: "waiting", title: "Waiting", unit, lines }
}

/// What the attribute `d` of each line is.
fn paths(chart: &Chart) -> Vec<String> {
    let text = chart.show().into_string();
    let lines = text.split("<path class=\"line").skip(1);
    lines.map(|line| line.split('"').nth(2).unwrap().to_owned()).collect()
}

#[test]
fn an_empty_chart_says_so() {
    for values in [&[][..], &[None, None, None]] {
        let chart = chart(Unit::Messages, vec![line("waiting", values)]);
        assert_eq!(paths(&chart), [""]);
        let text = chart.show().into_string();
        assert!(text.contains("<desc id=\"chart-waiting-about\">no samples yet.</desc>"), "{text}");
        assert!(text.contains("<td class=\"number\">–</td>"), "{text}");
    }
}

#[test]
fn a_single_sample_is_a_dot() {
    let chart = chart(Unit::Messages, vec![line("waiting", &[None, None, Some(1.0)])]);
    assert_eq!(paths(&chart), ["M50 10h0"]);
    assert_eq!(chart.about(), "now 1, at most 1.");
}

#[test]
fn a_gap_stays_a_gap_and_what_is_level_is_short() {
    let values =
        [Some(0.0), Some(0.0), Some(0.0), Some(5.0), None, None, Some(10.0), None, Some(5.0), Some(5.0)];
    let chart = chart(Unit::Messages, vec![line("waiting", &values)]);
    assert_eq!(paths(&chart), ["M48 110h2l1 -50M54 10h0M56 60h1"]);
    let hour = chart_of_hour(|_| 7.0);
    assert_eq!(paths(&hour), ["M48 40h359"]);
}

fn chart_of_hour(value: impl Fn(usize) -> f64) -> Chart {
    let values: Vec<Option<f64>> = (0..360).map(|slot| Some(value(slot))).collect();
    chart(Unit::Messages, vec![line("waiting", &values)])
}

#[test]
fn an_hour_of_changes_is_small() {
    let text = chart_of_hour(|slot| (slot * 37 % 101) as f64).show().into_string();
    assert!(text.len() < 4_000, "{} bytes", text.len());
}

#[test]
fn numbers_of_any_size_stay_inside_and_short() {
    for (unit, value, shown, top) in [
        (Unit::Messages, 0.0, "0", "1"),
        (Unit::Messages, 3.0, "3", "5"),
        (Unit::Messages, 9_999.0, "9999", "10k"),
        (Unit::Messages, 12_345.0, "12.3k", "20k"),
        (Unit::Messages, 999_999.0, "999.9k", "1M"),
        (Unit::Messages, u64::MAX as f64, "18.4E", "20E"),
        (Unit::PerSecond, 0.02, "0.0/s", "0.1"),
        (Unit::PerSecond, 0.5, "0.5/s", "0.5"),
        (Unit::PerSecond, 3.25, "3.2/s", "5"),
        (Unit::PerSecond, 1_234.5, "1234/s", "2000"),
        (Unit::Age, 0.0, "0s", "1s"),
        (Unit::Age, 31_000.0, "31s", "60s"),
        (Unit::Age, 4_000_000.0, "66m", "2h"),
        (Unit::Age, 86_400_000.0 * 3.0, "3d", "5d"),
        (Unit::Age, 86_400_000.0 * 36_500.0, "36500d", "50000d"),
    ] {
        let chart = chart(unit, vec![line("waiting", &[Some(0.0), Some(value)])]);
        assert_eq!((chart.newest(), unit.on_axis(chart.ceiling())), (shown.to_owned(), top.to_owned()));
        let end = path(&chart.lines[0].heights(chart.ceiling()));
        let up: i32 = end.split_once("l1 ").map_or(0, |(_, up)| up.parse().unwrap());
        assert!((-100..=0).contains(&up), "{end}");
    }
    let broken =
        chart(Unit::Messages, vec![line("waiting", &[Some(f64::NAN), Some(f64::INFINITY), Some(2.0)])]);
    assert_eq!(paths(&broken), ["M50 10h0"]);
}

#[test]
fn two_lines_have_names_that_do_not_overlap() {
    let two = |a: f64, b: f64| {
        chart(Unit::PerSecond, vec![line("in", &[Some(a), Some(a)]), line("out", &[Some(b), Some(b)])])
    };
    let chart = two(3.0, 3.0);
    assert_eq!(chart.newest(), "in 3/s, out 3/s");
    assert_eq!(chart.about(), "in: now 3/s, at most 3/s. out: now 3/s, at most 3/s.");
    assert_eq!(paths(&chart).len(), 2);
    for ends in [(110, 110), (10, 10), (60, 64), (64, 60), (10, 110)] {
        let names = name_heights(&[Some(ends.0), Some(ends.1)]);
        let (first, second) = (names[0].unwrap(), names[1].unwrap());
        assert!((first - second).abs() >= NAME_HEIGHT, "{ends:?}: {names:?}");
        assert_eq!(first <= second, ends.0 <= ends.1, "{ends:?}: {names:?}");
        assert!(first.min(second) >= TOP && first.max(second) <= BOTTOM, "{ends:?}: {names:?}");
    }
    assert_eq!(name_heights(&[None, Some(50)]), [None, Some(50)]);
}

#[test]
fn no_style_is_inline() {
    let text = chart_of_hour(|slot| slot as f64).show().into_string();
    assert!(!text.contains("style"), "{text}");
}
