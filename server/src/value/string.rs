//! Strings: integers as integers, hexadecimal digits two a byte, short ones in place, edited ones
//! in a growing buffer.

use std::borrow::Cow;

use super::digits::{DIGITS_MAX, Digits};
use crate::{
    bytestr::{ByteStr, INLINE_MAX},
    number,
};

/// What a key and its string may come to, in bytes, for the references to keep both in one
/// allocation, which they call `embstr`.
const EMBEDDED_MAX: usize = 113;
/// Beyond this length, in bytes, a key costs them two more.
const SHORT_KEY_MAX: usize = 31;

/// A string value.
#[derive(Clone, Debug)]
pub enum StringValue {
    /// Its decimal digits are the string.
    Int(i64),
    /// As tokens of locks mostly are, and UUIDs.
    Digits(Digits),
    Fixed(ByteStr),
    /// Edited in place at least once.
    #[expect(clippy::box_collection, reason = "keeps every value at two words")]
    Buffer(Box<Vec<u8>>),
}

impl StringValue {
    /// The value for these bytes, as an integer where they are the digits of one.
    pub fn new(bytes: &[u8]) -> StringValue {
        if bytes.len() > INLINE_MAX {
            return Digits::pack(bytes).map_or_else(
                || StringValue::Fixed(ByteStr::new(bytes)),
                StringValue::Digits,
            );
        }
        match number::parse_i64(bytes) {
            Some(value) => StringValue::Int(value),
            None => StringValue::Fixed(ByteStr::new(bytes)),
        }
    }

    /// The content, without copying where it lies in memory as it is.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            StringValue::Int(value) => {
                Cow::Owned(itoa::Buffer::new().format(*value).as_bytes().to_vec())
            }
            StringValue::Digits(digits) => Cow::Owned(digits.unpack(&mut [0; DIGITS_MAX]).to_vec()),
            StringValue::Fixed(bytes) => Cow::Borrowed(bytes),
            StringValue::Buffer(bytes) => Cow::Borrowed(bytes),
        }
    }

    /// Calls `see` with the content; no copy is made.
    pub fn with_bytes<R>(&self, see: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            StringValue::Int(value) => see(itoa::Buffer::new().format(*value).as_bytes()),
            StringValue::Digits(digits) => see(digits.unpack(&mut [0; DIGITS_MAX])),
            StringValue::Fixed(bytes) => see(bytes),
            StringValue::Buffer(bytes) => see(bytes),
        }
    }

    /// The first byte of the content as it lies in memory; 0 where it does not.
    pub fn first_byte(&self) -> u8 {
        match self {
            StringValue::Int(_) | StringValue::Digits(_) => 0,
            StringValue::Fixed(bytes) => bytes.first().copied().unwrap_or_default(),
            StringValue::Buffer(bytes) => bytes.first().copied().unwrap_or_default(),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            StringValue::Digits(digits) => digits.len(),
            other => other.with_bytes(<[u8]>::len),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The integer that the content reads as.
    pub fn integer(&self) -> Option<i64> {
        match self {
            StringValue::Int(value) => Some(*value),
            // There are more of them than an integer has.
            StringValue::Digits(_) => None,
            other => number::parse_i64(&other.bytes()),
        }
    }

    /// The content for editing in place.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        if !matches!(self, StringValue::Buffer(_)) {
            *self = StringValue::Buffer(Box::new(self.bytes().into_owned()));
        }
        match self {
            StringValue::Buffer(bytes) => bytes,
            _ => unreachable!("it was made a buffer above"),
        }
    }

    /// The name that OBJECT ENCODING gives for it under a key.
    pub fn encoding(&self, key: &[u8]) -> &'static str {
        let key_len = if key.len() > SHORT_KEY_MAX {
            key.len() + 2
        } else {
            key.len()
        };
        match self {
            StringValue::Int(_) => "int",
            StringValue::Digits(_) | StringValue::Fixed(_)
                if key_len + self.len() <= EMBEDDED_MAX =>
            {
                "embstr"
            }
            _ => "raw",
        }
    }

    /// What it holds outside of itself, in bytes.
    pub fn heap_size(&self) -> usize {
        match self {
            StringValue::Int(_) | StringValue::Digits(_) => 0,
            StringValue::Fixed(bytes) => bytes.heap_size(),
            StringValue::Buffer(bytes) => bytes.capacity() + size_of::<Vec<u8>>(),
        }
    }
}

impl Default for StringValue {
    fn default() -> Self {
        StringValue::Fixed(ByteStr::new(b""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_comes_back_whatever_the_encoding() {
        for content in [
            &b""[..],
            b"0",
            b"-17",
            b"007",
            b"hello",
            &[b'7'; 32],
            &[7; 100],
        ] {
            let mut value = StringValue::new(content);
            assert_eq!(&*value.bytes(), content);
            assert_eq!(value.len(), content.len());
            value.buffer().push(b'x');
            assert_eq!(value.len(), content.len() + 1);
        }
    }

    #[test]
    fn a_value_is_24_bytes() {
        assert_eq!(size_of::<StringValue>(), 24);
        assert_eq!(size_of::<crate::value::Value>(), 24);
    }
}
