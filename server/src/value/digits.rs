//! Hexadecimal digits, two of them a byte: the tokens of locks, and UUIDs.
//!
//! As text they are too long to be kept in the value itself, so each would cost an allocation
//! and a place in memory that is far from its key. Packed they fit.

/// The most digits that are packed: those of an SHA-1.
pub const DIGITS_MAX: usize = 40;
/// Fewer lie in the value as they are.
const DIGITS_MIN: usize = crate::bytestr::INLINE_MAX + 1;
const UUID_DIGITS: usize = 32;
const UUID_LEN: usize = 36;
/// Where the dashes of a UUID stand.
const DASHES: [usize; 4] = [8, 13, 18, 23];

/// An even number of lower-case digits, with dashes where a UUID has them or without.
#[derive(Clone, Copy, Debug)]
pub struct Digits {
    /// How many bytes they are packed in.
    len: u8,
    dashed: bool,
    bytes: [u8; DIGITS_MAX / 2],
}

impl Digits {
    /// Packs a text if it is made of such digits and of nothing else.
    pub fn pack(text: &[u8]) -> Option<Digits> {
        match text.len() {
            UUID_LEN if text[DASHES[0]] == b'-' => Self::pack_uuid(text),
            len @ DIGITS_MIN..=DIGITS_MAX if len % 2 == 0 => Self::pack_plain(text),
            _ => None,
        }
    }

    fn pack_plain(text: &[u8]) -> Option<Digits> {
        let mut bytes = [0; DIGITS_MAX / 2];
        let mut seen = 0;
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            let (high, low) = (VALUES[usize::from(pair[0])], VALUES[usize::from(pair[1])]);
            *byte = high << 4 | low;
            seen |= high | low;
        }
        let len = (text.len() / 2) as u8;
        (seen != NO_DIGIT).then_some(Digits {
            len,
            dashed: false,
            bytes,
        })
    }

    fn pack_uuid(text: &[u8]) -> Option<Digits> {
        if DASHES.iter().any(|&at| text[at] != b'-') {
            return None;
        }
        let mut plain = [0; UUID_DIGITS];
        let digits = (0..UUID_LEN).filter(|at| !DASHES.contains(at));
        for (to, from) in plain.iter_mut().zip(digits) {
            *to = text[from];
        }
        let packed = Self::pack_plain(&plain)?;
        Some(Digits {
            dashed: true,
            ..packed
        })
    }

    /// The length of the text.
    pub fn len(&self) -> usize {
        usize::from(self.len) * 2 + if self.dashed { DASHES.len() } else { 0 }
    }

    /// The text, in the buffer.
    pub fn unpack<'a>(&self, buffer: &'a mut [u8; DIGITS_MAX]) -> &'a [u8] {
        let bytes = &self.bytes[..usize::from(self.len)];
        for (pair, &byte) in buffer.chunks_exact_mut(2).zip(bytes) {
            pair.copy_from_slice(&PAIRS[usize::from(byte)]);
        }
        if self.dashed {
            // From the last group on, each makes room for the dashes before it.
            for (dashes, &at) in DASHES.iter().enumerate().rev() {
                let from = at - dashes;
                let end = DASHES
                    .get(dashes + 1)
                    .map_or(UUID_DIGITS, |next| next - dashes - 1);
                buffer.copy_within(from..end, at + 1);
                buffer[at] = b'-';
            }
        }
        &buffer[..self.len()]
    }
}

const NO_DIGIT: u8 = 0xFF;

/// What each byte is worth as a digit.
const VALUES: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        values[SPELLING[value] as usize] = value as u8;
        value += 1;
    }
    values
};

const SPELLING: &[u8; 16] = b"0123456789abcdef";

/// The two digits of each byte.
const PAIRS: [[u8; 2]; 256] = {
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [SPELLING[byte >> 4], SPELLING[byte & 15]];
        byte += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(text: &str) -> Option<String> {
        let digits = Digits::pack(text.as_bytes())?;
        assert_eq!(digits.len(), text.len());
        let mut buffer = [0; DIGITS_MAX];
        Some(String::from_utf8_lossy(digits.unpack(&mut buffer)).into_owned())
    }

    #[test]
    fn tokens_and_uuids_come_back() {
        for text in [
            "0123456789abcdef0123456789abcdef",
            "00000000000000000000000f",
            "da39a3ee5e6b4b0d3255bfef95601890afd80709",
            "123e4567-e89b-12d3-a456-426614174000",
            "ffffffffffffffffffffffffffffffffffff",
        ] {
            assert_eq!(round_trip(text).as_deref(), Some(text));
        }
    }

    #[test]
    fn a_text_that_would_not_come_back_is_not_packed() {
        let token = "0123456789abcdef0123456789abcdef";
        for at in 0..token.len() {
            for byte in (0..=255_u8).filter(|byte| !SPELLING.contains(byte)) {
                let mut text = token.as_bytes().to_vec();
                text[at] = byte;
                assert!(Digits::pack(&text).is_none(), "{at} {byte}");
            }
        }
        for text in [
            "",
            "0123456789abcdef",
            "0123456789abcdef0123456789abcde",
            "0123456789ABCDEF0123456789ABCDEF",
            "123e4567-e89b-12d3-a456_426614174000",
            "123e4567-e89b-12d3-a456-42661417400",
            "123e4567-e89b-12d3-a456-42661417400-",
            "da39a3ee5e6b4b0d3255bfef95601890afd8070900",
        ] {
            assert_eq!(round_trip(text), None, "{text}");
        }
    }
}
