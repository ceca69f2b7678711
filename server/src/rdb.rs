//! The serialisation format of DUMP and RESTORE: bytes to values and back.
//!
//! A payload is a type byte, a body, the version of the format (two bytes, little end first) and
//! a CRC-64 of all before it. The module knows neither replies nor the keyspace: it turns a
//! payload into a neutral [`Dumped`] and takes plain slices to write one, so that every value
//! keeps its own shape. What it writes is what the primary reference would write for the same
//! value in the same encoding; what it reads is whatever came from outside, so no length is
//! believed before the bytes are there.

mod crc64;
mod hashes;
mod intset;
#[cfg(feature = "scripting")]
pub mod libraries;
mod lists;
mod lzf;
mod reader;
mod sets;
mod sorted_sets;
mod streams;
mod writer;
mod ziplist;

use std::fmt;

use reader::Reader;
use writer::Writer;

use crate::value::{packed::Packed, stream::Stream};

pub use hashes::encode_hash;
pub use lists::encode_list;
pub use sets::encode_set;
pub use sorted_sets::encode_sorted_set;
pub use streams::encode_stream;

/// The version that our payloads carry: that of the primary reference.
pub const VERSION: u16 = 80;

/// The last version that all descendants of the format have in common.
const COMMON_VERSION_MAX: u16 = 11;

/// The version and the checksum, in bytes.
const FOOTER_LEN: usize = 10;

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

/// A field of a hash, its value, and when it expires in milliseconds of Unix time.
pub type HashField = (Vec<u8>, Vec<u8>, Option<u64>);

/// A value as a payload describes it. Collections are never empty and hold nothing twice.
#[derive(Clone, Debug, PartialEq)]
pub enum Dumped {
    /// The content.
    String(Vec<u8>),
    /// The elements, head first.
    List(Vec<Vec<u8>>),
    /// The members, in no order.
    Set(Vec<Vec<u8>>),
    /// The members with their scores, in no order; no score is NaN.
    SortedSet(Vec<(Vec<u8>, f64)>),
    /// The fields, in no order.
    Hash(Vec<HashField>),
    /// The stream itself: its nodes are kept as they are.
    Stream(Box<Stream>),
}

/// How a collection is encoded in memory, as OBJECT ENCODING tells: payloads follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `intset`: for sets only.
    Integers,
    /// `listpack`.
    Packed,
    /// `hashtable` or `skiplist`.
    Table,
}

/// The byte that says what follows.
mod kind {
    pub const STRING: u8 = 0;
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    pub const SORTED_SET: u8 = 3;
    pub const HASH: u8 = 4;
    pub const SORTED_SET_2: u8 = 5;
    pub const HASH_ZIPMAP: u8 = 9;
    pub const LIST_ZIPLIST: u8 = 10;
    pub const SET_INTSET: u8 = 11;
    pub const SORTED_SET_ZIPLIST: u8 = 12;
    pub const HASH_ZIPLIST: u8 = 13;
    pub const LIST_QUICKLIST: u8 = 14;
    pub const STREAM: u8 = 15;
    pub const HASH_LISTPACK: u8 = 16;
    pub const SORTED_SET_LISTPACK: u8 = 17;
    pub const LIST_QUICKLIST_2: u8 = 18;
    pub const STREAM_2: u8 = 19;
    pub const SET_LISTPACK: u8 = 20;
    pub const STREAM_3: u8 = 21;
    /// Fields with deadlines, as Valkey writes them.
    pub const HASH_2: u8 = 22;
    /// Fields with deadlines, as Redis writes them.
    pub const REDIS_HASH_EXPIRING: u8 = 24;
    pub const REDIS_HASH_EXPIRING_LISTPACK: u8 = 25;
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
        kind::SET => sets::decode_plain(&mut reader),
        kind::SET_INTSET => sets::decode_intset(&mut reader),
        kind::SET_LISTPACK => sets::decode_listpack(&mut reader),
        kind::SORTED_SET => sorted_sets::decode_with_digits(&mut reader),
        kind::SORTED_SET_2 => sorted_sets::decode_plain(&mut reader),
        kind::SORTED_SET_ZIPLIST => sorted_sets::decode_ziplist(&mut reader),
        kind::SORTED_SET_LISTPACK => sorted_sets::decode_listpack(&mut reader),
        kind::HASH => hashes::decode_plain(&mut reader),
        kind::HASH_2 => hashes::decode_expiring(&mut reader),
        kind::HASH_ZIPMAP => hashes::decode_zipmap(&mut reader),
        kind::HASH_ZIPLIST => hashes::decode_ziplist(&mut reader),
        kind::HASH_LISTPACK => hashes::decode_listpack(&mut reader),
        kind::REDIS_HASH_EXPIRING => hashes::decode_redis_expiring(&mut reader),
        kind::REDIS_HASH_EXPIRING_LISTPACK => hashes::decode_redis_expiring_listpack(&mut reader),
        kind::STREAM => streams::decode(&mut reader, streams::Form::First),
        kind::STREAM_2 => streams::decode(&mut reader, streams::Form::WithCounters),
        kind::STREAM_3 => streams::decode(&mut reader, streams::Form::WithActivity),
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
    seal_bytes(writer.into_bytes())
}

pub fn seal_bytes(mut payload: Vec<u8>) -> Vec<u8> {
    payload.reserve_exact(FOOTER_LEN);
    payload.extend(VERSION.to_le_bytes());
    let checksum = crc64::checksum(&payload);
    payload.extend(checksum.to_le_bytes());
    payload
}

/// The elements of a listpack that was written as a string.
fn packed(reader: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, BadFormat> {
    let packed = Packed::from_listpack(&reader.string()?).ok_or(BadFormat::Data)?;
    Ok(packed.iter().map(|item| item.to_vec()).collect())
}

#[cfg(test)]
mod tests;
