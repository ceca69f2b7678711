//! The IDs of entries as requests write them.

use crate::{
    error::Error,
    number::{before_zero, parse_lenient_u64},
    value::stream::StreamId,
};

pub const INVALID: Error =
    Error::text("ERR Invalid stream ID specified as stream command argument");
const INVALID_START: Error = Error::text("ERR invalid start ID for the interval");
const INVALID_END: Error = Error::text("ERR invalid end ID for the interval");

/// The longest ID that is looked at, in bytes.
const LEN_MAX: usize = 127;

/// The ID of a new entry, as far as the request gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewId {
    /// `*`: the server's choice.
    Next,
    /// `ms-*`: the next of that millisecond.
    NextOf(u64),
    /// All of it.
    Given(StreamId),
}

impl NewId {
    pub fn parse(arg: &[u8]) -> Result<NewId, Error> {
        if arg == b"*" {
            return Ok(NewId::Next);
        }
        match arg.strip_suffix(b"-*") {
            Some(ms) => parse_lenient_u64(ms).map(NewId::NextOf).ok_or(INVALID),
            None => exact(arg, 0).map(NewId::Given),
        }
    }
}

/// A whole ID; where only the time is given, the number is this one.
pub fn exact(arg: &[u8], missing_seq: u64) -> Result<StreamId, Error> {
    parse(arg, missing_seq).ok_or(INVALID)
}

/// Where a range starts: an ID, `-`, `+`, or an ID behind `(` that is itself left out.
pub fn start(arg: &[u8]) -> Result<StreamId, Error> {
    match arg.strip_prefix(b"(").filter(|rest| !rest.is_empty()) {
        Some(rest) => exact(rest, 0)?.next().ok_or(INVALID_START),
        None => edge(arg, 0),
    }
}

/// Where a range ends.
pub fn end(arg: &[u8]) -> Result<StreamId, Error> {
    match arg.strip_prefix(b"(").filter(|rest| !rest.is_empty()) {
        Some(rest) => exact(rest, u64::MAX)?.previous().ok_or(INVALID_END),
        None => edge(arg, u64::MAX),
    }
}

fn edge(arg: &[u8], missing_seq: u64) -> Result<StreamId, Error> {
    match arg {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        arg => exact(arg, missing_seq),
    }
}

fn parse(arg: &[u8], missing_seq: u64) -> Option<StreamId> {
    if arg.len() > LEN_MAX {
        return None;
    }
    let text = before_zero(arg);
    match text.iter().position(|&byte| byte == b'-') {
        Some(at) => Some(StreamId {
            ms: parse_lenient_u64(&text[..at])?,
            seq: parse_lenient_u64(&text[at + 1..])?,
        }),
        None => Some(StreamId {
            ms: parse_lenient_u64(text)?,
            seq: missing_seq,
        }),
    }
}
