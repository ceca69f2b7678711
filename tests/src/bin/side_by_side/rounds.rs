//! Rounds in turn on every server, and the medians and spreads of what they cost.

use std::{fmt, time::Duration};

use crate::{Outcome, program::Running, workloads::Part};

/// What one round found on one server.
#[derive(Clone, Copy)]
pub struct Sample {
    /// In the unit of the part: CPU microseconds of an operation, say. Less is better.
    pub cost: f64,
    /// Operations a second by the clock on the wall, where there are many.
    pub rate: Option<f64>,
}

impl Sample {
    pub fn of_operations(cpu: Duration, rate: f64, operations: u32) -> Sample {
        Sample {
            cost: cpu.as_secs_f64() * 1e6 / f64::from(operations),
            rate: Some(rate),
        }
    }

    pub fn of_time(cost: f64) -> Sample {
        Sample { cost, rate: None }
    }
}

/// The samples of a server, none where the workload does not suit it.
pub type Samples = Vec<Sample>;

/// Says what runs, over what was said before.
pub fn announce(what: &str) {
    eprint!("\r{what:<70}\r");
}

/// Every other round goes the other way around, so that no server always follows the same one.
pub fn alternate(
    servers: &[Running],
    rounds: usize,
    mut run: impl FnMut(&Running) -> Outcome<Option<Sample>>,
) -> Outcome<Vec<Samples>> {
    let mut results = vec![Samples::new(); servers.len()];
    for round in 0..rounds {
        let mut places: Vec<usize> = (0..servers.len()).collect();
        if round % 2 == 1 {
            places.reverse();
        }
        for place in places {
            results[place].extend(run(&servers[place])?);
        }
    }
    Ok(results)
}

/// A workload's results, those of khoa first.
pub struct Row {
    pub part: Part,
    pub name: String,
    results: Vec<Samples>,
}

impl Row {
    pub fn new(part: Part, name: String, results: Vec<Samples>) -> Row {
        Row {
            part,
            name,
            results,
        }
    }

    pub fn cost(&self, server: usize) -> Option<Spread> {
        let samples = &self.results[server];
        (!samples.is_empty()).then(|| Spread::of(samples.iter().map(|sample| sample.cost)))
    }

    /// The median of operations a second.
    pub fn rate(&self, server: usize) -> Option<f64> {
        let rates: Option<Vec<f64>> = self.results[server].iter().map(|it| it.rate).collect();
        rates
            .filter(|rates| !rates.is_empty())
            .map(|rates| Spread::of(rates).median)
    }

    /// What khoa costs over what the server costs, compared round by round.
    pub fn ratio(&self, server: usize) -> Option<Spread> {
        let (own, other) = (&self.results[0], &self.results[server]);
        let pairs = own.iter().zip(other);
        let ratios: Vec<f64> = pairs.map(|(own, other)| own.cost / other.cost).collect();
        (!ratios.is_empty()).then(|| Spread::of(ratios))
    }
}

/// The median, the least and the most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

impl Spread {
    /// Of at least one value.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len() - 1;
        Spread {
            // The mean of the two in the middle of an even number, which are one of an odd number.
            median: f64::midpoint(sorted[last / 2], sorted[last.div_ceil(2)]),
            least: sorted[0],
            most: sorted[last],
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spread {
            median,
            least,
            most,
        } = self;
        write!(f, "{median:.2} ({least:.2}–{most:.2})")
    }
}

/// The mean for ratios: one of 2 and one of ½ make 1.
pub fn geometric_mean(ratios: &[f64]) -> f64 {
    let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (logs / ratios.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_compare_khoa_with_a_server_round_by_round() {
        let samples = |costs: [f64; 3]| costs.map(Sample::of_time).to_vec();
        let results = vec![
            samples([1.0, 2.0, 9.0]),
            samples([2.0, 2.0, 10.0]),
            Vec::new(),
        ];
        let row = Row::new(Part::Lock, "cycle".to_owned(), results);
        let (median, least, most) = (0.9, 0.5, 1.0);
        let expected = Spread {
            median,
            least,
            most,
        };
        assert_eq!(row.ratio(1), Some(expected));
        assert_eq!(row.ratio(2), None);
        assert_eq!(row.cost(0).map(|cost| cost.median), Some(2.0));
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(Spread::of([4.0, 1.0]).median, 2.5);
        assert_eq!(Spread::of([9.0, 1.0, 2.0]).median, 2.0);
    }

    #[test]
    fn twice_and_half_make_one() {
        assert!((geometric_mean(&[2.0, 0.5]) - 1.0).abs() < 1e-12);
    }
}
