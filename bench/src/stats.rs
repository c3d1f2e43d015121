//! Medians, percentiles and ratios.

use serde::Serialize;

/// Median and spread of some values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// `None` without values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            1 => values[middle],
            _ => (values[middle - 1] + values[middle]) / 2.0,
        };
        Some(Self { median, min, max })
    }

    /// Ratios of paired values: the noise of a round hits both and cancels out.
    pub fn of_ratios(
        over: impl IntoIterator<Item = f64>,
        under: impl IntoIterator<Item = f64>,
    ) -> Option<Self> {
        Self::of(over.into_iter().zip(under).map(|(over, under)| over / under))
    }
}

/// The value below which `fraction` of the sorted values lie; 0 without values.
pub fn percentile(sorted: &[u32], fraction: f64) -> u32 {
    let rank = (sorted.len() as f64 * fraction).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_an_even_count_lies_between_the_middle_two() {
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 9.0]), Some(Spread { median: 3.0, min: 1.0, max: 9.0 }));
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let ratios = Spread::of_ratios([10.0, 40.0, 30.0], [5.0, 10.0, 10.0]);
        assert_eq!(ratios, Some(Spread { median: 3.0, min: 2.0, max: 4.0 }));
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        assert_eq!(percentile(&[1, 2, 3, 4], 0.5), 2);
        assert_eq!(percentile(&[1, 2, 3, 4], 0.99), 4);
        assert_eq!(percentile(&[], 0.5), 0);
    }
}
