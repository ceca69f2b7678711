//! LZF: literal runs of up to 32 bytes, and references of 3 to 264 bytes up to 8 KiB back.
//!
//! A control byte below 32 announces that many literals and one more. Any other holds the length
//! of a reference in its top three bits (7 meaning that a further byte adds to it) and the upper
//! bits of its distance in the rest; the lower bits follow.
//!
//! The compressor looks for matches exactly where the references' own does (same hash, same
//! places remembered, same bounds), for only then are payloads identical byte for byte.

use super::BadFormat;

const LITERALS_MAX: usize = 32;
const DISTANCE_MAX: usize = 1 << 13;
const MATCH_MAX: usize = 264;
/// Three bytes hold at most one reference, so nothing grows by more than this.
const GROWTH_MAX: usize = MATCH_MAX / 3;
const HASH_BITS: u32 = 16;

/// Compresses one string after the other; what it needs for that is set up with the first.
#[derive(Default)]
pub struct Compressor {
    seen: Seen,
}

impl Compressor {
    /// The compressed form, unless it would be longer than `len_max`, counting a few bytes of
    /// slack that the reference asks for.
    pub fn compress(&mut self, input: &[u8], len_max: usize) -> Option<Vec<u8>> {
        if input.is_empty() || len_max == 0 {
            return None;
        }
        let mut output = Output::new(input, len_max);
        self.seen.start(input.len());
        let mut at = 0;
        while at + 2 < input.len() {
            let Some(earlier) = self.seen.replace(input, at) else {
                output.literal(at)?;
                at += 1;
                continue;
            };
            let len = match_len(&input[earlier..], &input[at..]);
            output.reference(at, at - earlier - 1, len)?;
            at += len;
            // The last two places within the match may start the next one.
            if at + 2 < input.len() {
                self.seen.replace(input, at - 2);
                self.seen.replace(input, at - 1);
            }
        }
        output.finish(at)
    }
}

/// What was compressed, which has to be exactly `len` bytes.
pub fn decompress(input: &[u8], len: usize) -> Result<Vec<u8>, BadFormat> {
    if len > input.len().saturating_mul(GROWTH_MAX) {
        return Err(BadFormat::Data);
    }
    let mut output = Vec::with_capacity(len);
    let mut rest = input;
    while let Some((&control, after)) = rest.split_first() {
        rest = after;
        if usize::from(control) < LITERALS_MAX {
            let literals = rest
                .split_off(..=usize::from(control))
                .ok_or(BadFormat::Data)?;
            output.extend_from_slice(literals);
        } else {
            copy_reference(control, &mut rest, &mut output)?;
        }
        if output.len() > len {
            return Err(BadFormat::Data);
        }
    }
    if output.len() == len {
        Ok(output)
    } else {
        Err(BadFormat::Data)
    }
}

fn copy_reference(control: u8, rest: &mut &[u8], output: &mut Vec<u8>) -> Result<(), BadFormat> {
    let mut next = || rest.split_off_first().copied().ok_or(BadFormat::Data);
    let mut len = usize::from(control >> 5) + 2;
    if len == 9 {
        len += usize::from(next()?);
    }
    let distance = (usize::from(control & 0x1f) << 8 | usize::from(next()?)) + 1;
    let start = output.len().checked_sub(distance).ok_or(BadFormat::Data)?;
    if distance >= len {
        output.extend_from_within(start..start + len);
    } else {
        // The copy overlaps what it writes, which repeats the stretch in between.
        for at in start..start + len {
            output.push(output[at]);
        }
    }
    Ok(())
}

/// How far two places agree, given that their first three bytes do. The later one bounds it, in
/// the steps of the reference: it may end a byte or two before the input does.
fn match_len(earlier: &[u8], later: &[u8]) -> usize {
    let len_max = (later.len() - 2).min(MATCH_MAX);
    let mut len = 3;
    let unchecked_until = if len_max > 16 { 18 } else { 2 };
    while len <= unchecked_until || len < len_max {
        if earlier[len] != later[len] {
            return len;
        }
        len += 1;
    }
    len
}

/// Where three bytes of a certain hash were last seen. Places of all strings so far are counted
/// on, so that those of earlier strings need not be wiped.
#[derive(Default)]
struct Seen {
    slots: Vec<u32>,
    /// Where the string begins in that count, and where it ends.
    start: u32,
    end: u32,
}

impl Seen {
    fn start(&mut self, len: usize) {
        let end = u32::try_from(len)
            .ok()
            .and_then(|len| self.end.checked_add(len));
        self.start = if end.is_some() { self.end } else { 0 };
        self.end = end.unwrap_or(len as u32);
        if end.is_none() || self.slots.is_empty() {
            self.slots.clear();
            self.slots.resize(1 << HASH_BITS, 0);
        }
    }

    /// Remembers the place and tells the one of the same three bytes that it takes over from.
    /// The very first place is never told: it is how an empty slot reads.
    fn replace(&mut self, input: &[u8], at: usize) -> Option<usize> {
        let three = three_at(input, at)?;
        let value = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        let hash = (value >> (24 - HASH_BITS)).wrapping_sub(value.wrapping_mul(5));
        let slot = &mut self.slots[hash as usize & ((1 << HASH_BITS) - 1)];
        let earlier = std::mem::replace(slot, self.start.wrapping_add(at as u32));
        let earlier = earlier.checked_sub(self.start)? as usize;
        let near = earlier > 0 && earlier < at && at - earlier <= DISTANCE_MAX;
        (near && three_at(input, earlier) == Some(three)).then_some(earlier)
    }
}

fn three_at(input: &[u8], at: usize) -> Option<[u8; 3]> {
    input.get(at..)?.first_chunk().copied()
}

/// The compressed bytes, and where the literals begin that are not among them yet.
struct Output<'a> {
    bytes: Vec<u8>,
    input: &'a [u8],
    literals_from: usize,
    len_max: usize,
}

impl<'a> Output<'a> {
    fn new(input: &'a [u8], len_max: usize) -> Output<'a> {
        let bytes = Vec::with_capacity(input.len().min(len_max));
        Output {
            bytes,
            input,
            literals_from: 0,
            len_max,
        }
    }

    /// Lets the byte at a place be a literal.
    fn literal(&self, at: usize) -> Option<()> {
        (self.len_with_literals(at) < self.len_max).then_some(())
    }

    /// Refers to `len` bytes that lie so far before a place, instead of writing them.
    fn reference(&mut self, at: usize, distance: usize, len: usize) -> Option<()> {
        let unused_control = usize::from(self.is_run_empty(at));
        if self.len_with_literals(at) - unused_control + 4 >= self.len_max {
            return None;
        }
        self.write_literals(at);
        self.literals_from = at + len;
        let upper = (distance >> 8) as u8;
        if len < 9 {
            self.bytes.push(upper | ((len - 2) as u8) << 5);
        } else {
            self.bytes.extend([upper | 7 << 5, (len - 9) as u8]);
        }
        self.bytes.push(distance as u8);
        Some(())
    }

    /// Ends with literals, the search having stopped at a place.
    fn finish(mut self, at: usize) -> Option<Vec<u8>> {
        if self.len_with_literals(at) + 3 > self.len_max {
            return None;
        }
        self.write_literals(self.input.len());
        Some(self.bytes)
    }

    /// What the output comes to with all literals before a place, and with the control byte of
    /// the run that a further one would join.
    fn len_with_literals(&self, at: usize) -> usize {
        let literals = at - self.literals_from;
        self.bytes.len() + literals + literals / LITERALS_MAX + 1
    }

    /// Whether a literal at a place would start a run.
    fn is_run_empty(&self, at: usize) -> bool {
        (at - self.literals_from).is_multiple_of(LITERALS_MAX)
    }

    fn write_literals(&mut self, end: usize) {
        for run in self.input[self.literals_from..end].chunks(LITERALS_MAX) {
            self.bytes.push((run.len() - 1) as u8);
            self.bytes.extend_from_slice(run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_compressed_comes_back() {
        let (mut random, mut compressor) = (1u64, Compressor::default());
        for len in 0..600 {
            let alphabet = 1 + len as u64 % 5;
            let input: Vec<u8> = (0..len)
                .map(|_| {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    ((random >> 40) % alphabet) as u8
                })
                .collect();
            let output = compressor.compress(&input, len + 10);
            assert_eq!(output, Compressor::default().compress(&input, len + 10));
            if let Some(output) = output {
                assert_eq!(decompress(&output, len), Ok(input));
            }
        }
    }

    #[test]
    fn a_length_that_no_input_could_reach_allocates_nothing() {
        assert_eq!(decompress(&[0, b'a'], usize::MAX / 2), Err(BadFormat::Data));
        assert_eq!(decompress(&[], 1), Err(BadFormat::Data));
    }

    #[test]
    fn a_reference_before_the_start_is_refused() {
        assert_eq!(decompress(&[0, b'a', 0x20, 1], 4), Err(BadFormat::Data));
        assert_eq!(decompress(&[0, b'a', 0x20, 0], 4), Ok(b"aaaa".to_vec()));
    }
}
