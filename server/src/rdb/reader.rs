//! Reads lengths and strings off a payload that nobody vouches for.

use super::{BadFormat, lzf};

/// How much the strings of one payload may add up to once decompressed, in bytes.
const INFLATED_MAX: usize = 512 << 20;

/// A place within a payload.
pub struct Reader<'a> {
    rest: &'a [u8],
    inflated: usize,
}

/// What the first byte of a length says.
enum Length {
    Plain(u64),
    /// A string follows in a form of its own.
    Special(u8),
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader {
            rest: bytes,
            inflated: 0,
        }
    }

    pub fn byte(&mut self) -> Result<u8, BadFormat> {
        self.rest.split_off_first().copied().ok_or(BadFormat::Data)
    }

    pub fn take(&mut self, len: u64) -> Result<&'a [u8], BadFormat> {
        let len = usize::try_from(len).map_err(|_| BadFormat::Data)?;
        self.rest.split_off(..len).ok_or(BadFormat::Data)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], BadFormat> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(BadFormat::Data)?;
        self.rest = rest;
        Ok(*array)
    }

    /// A length or a count. It may say anything: reserve nothing by it.
    pub fn length(&mut self) -> Result<u64, BadFormat> {
        match self.any_length()? {
            Length::Plain(length) => Ok(length),
            Length::Special(_) => Err(BadFormat::Data),
        }
    }

    pub fn string(&mut self) -> Result<Vec<u8>, BadFormat> {
        match self.any_length()? {
            Length::Plain(len) => Ok(self.take(len)?.to_vec()),
            Length::Special(0) => Ok(decimal(i8::from_le_bytes(self.array()?).into())),
            Length::Special(1) => Ok(decimal(i16::from_le_bytes(self.array()?).into())),
            Length::Special(2) => Ok(decimal(i32::from_le_bytes(self.array()?).into())),
            Length::Special(3) => self.compressed(),
            Length::Special(_) => Err(BadFormat::Data),
        }
    }

    fn any_length(&mut self) -> Result<Length, BadFormat> {
        let first = self.byte()?;
        let low = first & 0x3f;
        Ok(match (first >> 6, first) {
            (0, _) => Length::Plain(low.into()),
            (1, _) => Length::Plain(u64::from(low) << 8 | u64::from(self.byte()?)),
            (_, 0x80) => Length::Plain(u32::from_be_bytes(self.array()?).into()),
            (_, 0x81) => Length::Plain(u64::from_be_bytes(self.array()?)),
            (3, _) => Length::Special(low),
            _ => return Err(BadFormat::Data),
        })
    }

    fn compressed(&mut self) -> Result<Vec<u8>, BadFormat> {
        let (compressed_len, len) = (self.length()?, self.length()?);
        let compressed = self.take(compressed_len)?;
        let len = usize::try_from(len).map_err(|_| BadFormat::Data)?;
        self.inflated = self.inflated.saturating_add(len);
        if self.inflated > INFLATED_MAX {
            return Err(BadFormat::Data);
        }
        lzf::decompress(compressed, len)
    }
}

fn decimal(value: i64) -> Vec<u8> {
    itoa::Buffer::new().format(value).into()
}
