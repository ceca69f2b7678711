//! Strings combined bit by bit.

/// How BITOP combines its sources. A source that is shorter than another counts as padded with
/// zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitOp {
    /// Set in all.
    And,
    /// Set in any.
    Or,
    /// Set in an odd number.
    Xor,
    /// Not set in the only one.
    Not,
    /// Set in the first and in no other.
    Diff,
    /// Set in any other and not in the first.
    Diff1,
    /// Set in the first and in any other.
    AndOr,
    /// Set in exactly one.
    One,
}

/// Sources are gone through in blocks of so many bytes, which stay in the nearest cache from one
/// source to the next.
const BLOCK: usize = 4096;

/// Combines the sources; the result is as long as the longest.
pub fn combine(op: BitOp, sources: &[&[u8]]) -> Vec<u8> {
    if let (BitOp::Not, [source]) = (op, sources) {
        return complement(source);
    }
    let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let mut result = Vec::with_capacity(len);
    let mut block = [0; BLOCK];
    for from in (0..len).step_by(BLOCK) {
        let block = &mut block[..BLOCK.min(len - from)];
        combine_block(op, sources, from, block);
        result.extend_from_slice(block);
    }
    result
}

fn complement(source: &[u8]) -> Vec<u8> {
    source.iter().map(|byte| !byte).collect()
}

/// Combines what the sources have from a place on, as much as there is room for.
fn combine_block(op: BitOp, sources: &[&[u8]], from: usize, result: &mut [u8]) {
    let Some((first, others)) = sources.split_first() else {
        return;
    };
    let len = result.len();
    let others = others.iter().map(|source| part(source, from, len));
    let first = part(first, from, len);
    result[..first.len()].copy_from_slice(first);
    result[first.len()..].fill(0);
    match op {
        BitOp::And => others.for_each(|source| {
            result[source.len()..].fill(0);
            merge(result, source, |a, b| a & b);
        }),
        BitOp::Or => others.for_each(|source| merge(result, source, |a, b| a | b)),
        BitOp::Xor => others.for_each(|source| merge(result, source, |a, b| a ^ b)),
        // It has one source, which was dealt with above.
        BitOp::Not => {}
        BitOp::Diff | BitOp::Diff1 | BitOp::AndOr => {
            let mut seen = [0; BLOCK];
            let seen = &mut seen[..len];
            others.for_each(|source| merge(seen, source, |a, b| a | b));
            match op {
                BitOp::Diff => merge(result, seen, |a, b| a & !b),
                BitOp::Diff1 => merge(result, seen, |a, b| !a & b),
                _ => merge(result, seen, |a, b| a & b),
            }
        }
        BitOp::One => {
            // What a source sets that was set before is set in several.
            let mut several = [0; BLOCK];
            let several = &mut several[..len];
            for source in others {
                for ((any, several), byte) in result.iter_mut().zip(&mut *several).zip(source) {
                    *several |= *any & byte;
                    *any |= byte;
                }
            }
            merge(result, several, |any, several| any & !several);
        }
    }
}

/// At most so many bytes of a source from a place on.
fn part(source: &[u8], from: usize, len: usize) -> &[u8] {
    let rest = source.get(from..).unwrap_or_default();
    rest.get(..len).unwrap_or(rest)
}

fn merge(result: &mut [u8], source: &[u8], each: impl Fn(u8, u8) -> u8) {
    for (byte, &other) in result.iter_mut().zip(source) {
        *byte = each(*byte, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{
        bits::{get, tests::sample},
        random::Random,
    };

    #[test]
    fn combining_agrees_with_counting_the_sources_of_every_bit() {
        let mut random = Random::new(11);
        let all = [
            BitOp::And,
            BitOp::Or,
            BitOp::Xor,
            BitOp::Diff,
            BitOp::Diff1,
            BitOp::AndOr,
            BitOp::One,
        ];
        for round in 0..300 {
            let sources: Vec<Vec<u8>> = (0..2 + random.below(3))
                .map(|_| {
                    let len = random.below(if round % 10 == 0 { 9000 } else { 20 });
                    sample(&mut random, len)
                })
                .collect();
            let slices: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
            for op in all {
                let result = combine(op, &slices);
                assert_eq!(result.len(), slices.iter().map(|s| s.len()).max().unwrap());
                for at in 0..result.len() * 8 {
                    let first = get(slices[0], at);
                    let others = slices[1..].iter().filter(|source| get(source, at)).count();
                    let ones = others + usize::from(first);
                    let expected = match op {
                        BitOp::And => ones == slices.len(),
                        BitOp::Or => ones > 0,
                        BitOp::Xor => ones % 2 == 1,
                        BitOp::Diff => first && others == 0,
                        BitOp::Diff1 => !first && others > 0,
                        BitOp::AndOr => first && others > 0,
                        _ => ones == 1,
                    };
                    assert_eq!(get(&result, at), expected, "{op:?} bit {at}");
                }
            }
        }
        assert_eq!(combine(BitOp::Not, &[&[0xf0, 0x00]]), [0x0f, 0xff]);
    }
}
