//! An in-memory Redis-compatible server.

pub mod bytestr;
pub mod dict;
pub mod error;
pub mod reply;
pub mod value;
