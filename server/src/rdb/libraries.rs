//! The payload of FUNCTION DUMP: the sources of libraries, with the footer of any other payload.

use std::fmt;

use super::{
    BadFormat, FOOTER_LEN, VersionCheck, reader::Reader, seal_bytes, verify, writer::Writer,
};

/// Stands before the source of each library.
const LIBRARY: u8 = 0xF5;

/// Why a payload was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadLibraries {
    Format(BadFormat),
    /// It holds something else than libraries.
    NoLibrary,
}

impl From<BadFormat> for BadLibraries {
    fn from(bad: BadFormat) -> Self {
        BadLibraries::Format(bad)
    }
}

impl fmt::Display for BadLibraries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadLibraries::Format(bad) => bad.fmt(f),
            BadLibraries::NoLibrary => f.write_str("given type is not a function"),
        }
    }
}

/// Writes the sources of libraries.
pub fn encode<'a>(sources: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut payload = Vec::new();
    for source in sources {
        let mut writer = Writer::new(LIBRARY);
        writer.string(source);
        payload.extend(writer.into_bytes());
    }
    seal_bytes(payload)
}

/// Reads the sources of libraries, checking version and checksum first.
pub fn decode(payload: &[u8], check: VersionCheck) -> Result<Vec<Vec<u8>>, BadLibraries> {
    verify(payload, check)?;
    let mut reader = Reader::new(&payload[..payload.len() - FOOTER_LEN]);
    let mut sources = Vec::new();
    while let Ok(kind) = reader.byte() {
        if kind != LIBRARY {
            return Err(BadLibraries::NoLibrary);
        }
        sources.push(reader.string()?);
    }
    Ok(sources)
}
