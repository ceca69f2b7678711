//! Every error the server answers, with its exact wire text.
//!
//! The first word is the code that clients match on. Texts are the references', byte for byte.

use std::borrow::Cow;

use crate::number::before_zero;

/// An error reply, without the leading `-` and the closing line break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Cow<'static, [u8]>);

impl Error {
    pub const SYNTAX: Error = Error::text("ERR syntax error");
    pub const WRONG_TYPE: Error =
        Error::text("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub const NOT_AN_INTEGER: Error = Error::text("ERR value is not an integer or out of range");
    pub const NOT_A_FLOAT: Error = Error::text("ERR value is not a valid float");
    pub const OUT_OF_RANGE: Error = Error::text("ERR index out of range");
    pub const NO_SUCH_KEY: Error = Error::text("ERR no such key");

    /// An error with a fixed text, code included.
    pub const fn text(text: &'static str) -> Error {
        Error(Cow::Borrowed(text.as_bytes()))
    }

    /// An error whose text holds something of the request, which need not be UTF-8.
    pub fn owned(text: impl Into<Vec<u8>>) -> Error {
        Error(Cow::Owned(text.into()))
    }

    /// An error that repeats something of the request, as the references' format does: up to the
    /// first zero byte.
    pub fn quoting<const N: usize>(parts: [&[u8]; N]) -> Error {
        let mut text = parts.map(before_zero).concat();
        // Line breaks within become spaces, those at the end go.
        let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n'));
        text.truncate(end.map_or(0, |end| end + 1));
        Error(Cow::Owned(text))
    }

    /// The text as it goes on the wire. It may hold line breaks, which the encoder replaces.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The first word: `ERR`, `WRONGTYPE`, `NOSCRIPT` …
    pub fn code(&self) -> &[u8] {
        self.0
            .split(|&byte| byte == b' ')
            .next()
            .unwrap_or_default()
    }
}
