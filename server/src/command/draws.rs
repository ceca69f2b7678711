//! Drawing at random, as HRANDFIELD, SRANDMEMBER and ZRANDMEMBER do: so many different elements,
//! or, with a negative count, so many that may repeat.

use std::collections::HashMap;

use super::Error;
use crate::{number, random::Random};

/// How many repeated draws one request may ask for. The references set no bound and would answer
/// until memory ends.
const REPEATED_MAX: u64 = 1 << 24;

/// Reads the count argument.
pub(super) fn count(arg: &[u8]) -> Result<i64, Error> {
    const TOO_LOW: Error = Error::text(
        "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
    );
    match number::parse_i64(arg) {
        None => Err(Error::NOT_AN_INTEGER),
        Some(i64::MIN) => Err(TOO_LOW),
        Some(count) => Ok(count),
    }
}

/// Refuses a count that could not be doubled, where each element is told with its value.
pub(super) fn check_pairs(count: i64) -> Result<(), Error> {
    if count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(Error::text("ERR value is out of range"));
    }
    Ok(())
}

/// The places drawn from a collection of `len` elements, all of them in order if the count
/// reaches that far.
pub(super) fn places(random: &mut Random, count: i64, len: usize) -> Result<Vec<usize>, Error> {
    if count < 0 {
        if count.unsigned_abs() > REPEATED_MAX {
            return Err(Error::text("ERR value is out of range"));
        }
        return Ok((0..count.unsigned_abs())
            .map(|_| random.below(len))
            .collect());
    }
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count >= len {
        return Ok((0..len).collect());
    }
    Ok(distinct(random, count, len))
}

/// `count` different numbers below `bound`, in random order.
fn distinct(random: &mut Random, count: usize, bound: usize) -> Vec<usize> {
    // A shuffle that stops early, keeping only what it has moved: memory goes by `count`.
    let mut moved: HashMap<usize, usize> = HashMap::new();
    (0..count.min(bound))
        .map(|nth| {
            let drawn = nth + random.below(bound - nth);
            let own = moved.get(&nth).copied().unwrap_or(nth);
            moved.insert(drawn, own).unwrap_or(drawn)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_numbers_are_distinct_and_within_the_bound() {
        let mut random = Random::seeded(3);
        for bound in 1..40 {
            for count in 0..50 {
                let mut drawn = distinct(&mut random, count, bound);
                drawn.sort_unstable();
                drawn.dedup();
                assert_eq!(drawn.len(), count.min(bound));
                assert!(drawn.iter().all(|&number| number < bound));
            }
        }
    }

    #[test]
    fn every_number_is_drawn_about_equally_often() {
        let mut random = Random::seeded(5);
        let mut counts = [0; 10];
        for _ in 0..10_000 {
            for number in distinct(&mut random, 3, 10) {
                counts[number] += 1;
            }
        }
        assert!(
            counts.iter().all(|count| (2700..3300).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn more_than_there_is_gives_all_in_order_and_negative_counts_repeat() {
        let mut random = Random::seeded(7);
        assert_eq!(places(&mut random, 9, 3), Ok(vec![0, 1, 2]));
        assert_eq!(places(&mut random, i64::MAX, 2), Ok(vec![0, 1]));
        assert_eq!(places(&mut random, -9, 3).map(|drawn| drawn.len()), Ok(9));
        assert!(places(&mut random, i64::MIN + 1, 3).is_err());
    }
}
