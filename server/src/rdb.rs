//! The serialisation format of DUMP and RESTORE: bytes to values and back.
//!
//! A payload is a type byte, a body, the version of the format (two bytes, little end first) and
//! a CRC-64 of all before it. The module knows neither replies nor the keyspace: it turns a
//! payload into a neutral [`Dumped`] and takes plain slices to write one, so that every value
//! keeps its own shape. What it writes is what the primary reference would write for the same
//! value in the same encoding; what it reads is whatever came from outside, so no length is
//! believed before the bytes are there.

mod crc64;
mod intset;
mod listpack;
mod lists;
mod lzf;
mod reader;
mod writer;
mod ziplist;

use std::fmt;

use reader::Reader;
use writer::Writer;

pub use lists::encode_list;

/// The version that our payloads carry: that of the primary reference.
pub const VERSION: u16 = 80;

/// The last version that all descendants of the format have in common.
const COMMON_VERSION_MAX: u16 = 11;

/// The version and the checksum, in bytes.
const FOOTER_LEN: usize = 10;

/// No 64-bit integer has more digits, sign included.
const INTEGER_LEN_MAX: usize = 20;

/// Why a payload was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadFormat {
    /// It is too short, of a version that is not ours, or its checksum does not match.
    VersionOrChecksum,
    /// What it holds is no value.
    Data,
}

impl fmt::Display for BadFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadFormat::VersionOrChecksum => "DUMP payload version or checksum are wrong",
            BadFormat::Data => "Bad data format",
        })
    }
}

impl std::error::Error for BadFormat {}

/// Which versions are read: the setting `rdb-version-check`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VersionCheck {
    /// Those that the primary reference knows in full.
    #[default]
    Strict,
    /// Any; what a foreign version adds is refused where it is met, if it is not known.
    Relaxed,
}

impl VersionCheck {
    fn admits(self, version: u16) -> bool {
        let known = (1..=COMMON_VERSION_MAX).contains(&version) || version == VERSION;
        known || (self == VersionCheck::Relaxed && version > 0)
    }
}

/// A value as a payload describes it. Collections are never empty and hold nothing twice.
#[derive(Clone, Debug, PartialEq)]
pub enum Dumped {
    /// The content.
    String(Vec<u8>),
    /// The elements, head first.
    List(Vec<Vec<u8>>),
}

/// The byte that says what follows.
mod kind {
    pub const STRING: u8 = 0;
    pub const LIST: u8 = 1;
    pub const LIST_ZIPLIST: u8 = 10;
    pub const LIST_QUICKLIST: u8 = 14;
    pub const LIST_QUICKLIST_2: u8 = 18;
}

/// Reads a payload, checking version and checksum first.
pub fn decode(payload: &[u8], check: VersionCheck) -> Result<Dumped, BadFormat> {
    verify(payload, check)?;
    // The reference reads on into the footer, and what follows a whole value it does not look
    // at; payloads that rely on either are accepted there, so they are here.
    let mut reader = Reader::new(payload);
    match reader.byte()? {
        kind::STRING => Ok(Dumped::String(reader.string()?)),
        kind::LIST => lists::decode_plain(&mut reader),
        kind::LIST_ZIPLIST => lists::decode_ziplist(&mut reader),
        kind::LIST_QUICKLIST => lists::decode_quicklist(&mut reader),
        kind::LIST_QUICKLIST_2 => lists::decode_quicklist_2(&mut reader),
        _ => Err(BadFormat::Data),
    }
}

/// Writes a string.
pub fn encode_string(content: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new(kind::STRING);
    writer.string(content);
    seal(writer)
}

fn verify(payload: &[u8], check: VersionCheck) -> Result<(), BadFormat> {
    let wrong = BadFormat::VersionOrChecksum;
    let checked_len = payload.len().checked_sub(8).ok_or(wrong)?;
    let (checked, checksum) = payload.split_at(checked_len);
    let (_, version) = checked.split_last_chunk::<2>().ok_or(wrong)?;
    let admitted = check.admits(u16::from_le_bytes(*version));
    let intact = checksum == crc64::checksum(checked).to_le_bytes();
    if admitted && intact {
        Ok(())
    } else {
        Err(wrong)
    }
}

fn seal(writer: Writer) -> Vec<u8> {
    let mut payload = writer.into_bytes();
    payload.reserve_exact(FOOTER_LEN);
    payload.extend(VERSION.to_le_bytes());
    let checksum = crc64::checksum(&payload);
    payload.extend(checksum.to_le_bytes());
    payload
}

/// The integer that prints as these bytes exactly: such content is stored as a number.
fn integer(content: &[u8]) -> Option<i64> {
    if content.is_empty() || content.len() > INTEGER_LEN_MAX {
        return None;
    }
    let value: i64 = str::from_utf8(content).ok()?.parse().ok()?;
    (itoa::Buffer::new().format(value).as_bytes() == content).then_some(value)
}

#[cfg(test)]
mod tests;
