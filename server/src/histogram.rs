//! How often a time occurred, in buckets that stay within one part in 128 of the true value.

/// Values below this have a bucket each; above, every doubling has half as many.
const EXACT: u64 = 256;
const PER_DOUBLING: u64 = EXACT / 2;
/// Longer times count as this long: a second, in nanoseconds.
const LONGEST: u64 = 1_000_000_000;

/// A histogram of times in nanoseconds; it grows with the longest that it has seen.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: Vec<u32>,
    total: u64,
}

impl Histogram {
    /// Counts a value so many times.
    pub fn record(&mut self, value: u64, times: u64) {
        let bucket = bucket_of(value.min(LONGEST));
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] = self.counts[bucket].saturating_add(times as _);
        self.total += times;
    }

    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    /// The time that so many percent of all did not exceed.
    pub fn at_percentile(&self, percentile: f64) -> u64 {
        let wanted = (percentile / 100.0 * self.total as f64 + 0.5) as u64;
        let mut seen = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += u64::from(count);
            if seen >= wanted.max(1) {
                return top_of(bucket);
            }
        }
        0
    }

    /// How many were no longer than 1.024 microseconds, twice that, and so on up to the longest
    /// seen; a step is told by its whole microseconds, and only if it adds something.
    pub fn doubling(&self) -> Vec<(u64, u64)> {
        let mut steps = Vec::new();
        let (mut seen, mut bucket, mut limit) = (0, 0, 1024);
        while bucket < self.counts.len() {
            let (before, top) = (seen, top_of(bucket_of(limit)));
            while bucket < self.counts.len() && top_of(bucket) <= top {
                seen += u64::from(self.counts[bucket]);
                bucket += 1;
            }
            if seen > before {
                steps.push((top / 1000, seen));
            }
            limit *= 2;
        }
        steps
    }
}

fn bucket_of(value: u64) -> usize {
    if value < EXACT {
        return value as usize;
    }
    let shift = u64::from(value.ilog2() - EXACT.ilog2() + 1);
    (EXACT + (shift - 1) * PER_DOUBLING + (value >> shift) - PER_DOUBLING) as usize
}

/// The largest value that shares a bucket.
fn top_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < EXACT {
        return bucket;
    }
    let shift = (bucket - EXACT) / PER_DOUBLING + 1;
    let within = (bucket - EXACT) % PER_DOUBLING + PER_DOUBLING;
    ((within + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_its_values_and_is_narrow() {
        for value in [0, 1, 255, 256, 257, 1000, 1003, 10_047, 999_999, LONGEST] {
            let top = top_of(bucket_of(value));
            assert!(top >= value && top - value <= value / 128, "{value}: {top}");
            assert_eq!(bucket_of(top), bucket_of(value));
            assert!(bucket_of(top + 1) > bucket_of(top));
        }
        assert_eq!(top_of(bucket_of(1000)), 1003);
        assert_eq!(top_of(bucket_of(10_000)), 10_047);
    }

    #[test]
    fn doubling_steps_are_those_that_add_something() {
        let mut histogram = Histogram::default();
        for nanos in [900, 1_500, 20_000, 21_000] {
            histogram.record(nanos, 1);
        }
        assert_eq!(histogram.doubling(), [(1, 1), (2, 2), (33, 4)]);
    }

    #[test]
    fn percentiles_are_those_of_the_values() {
        let mut histogram = Histogram::default();
        for value in 1..=100 {
            histogram.record(value, 1);
        }
        assert_eq!(histogram.at_percentile(50.0), 50);
        assert_eq!(histogram.at_percentile(99.0), 99);
        assert_eq!(histogram.at_percentile(100.0), 100);
    }
}
