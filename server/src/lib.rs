//! An in-memory Redis-compatible server.

pub mod bytestr;
pub mod clock;
pub mod deadlines;
pub mod dict;
pub mod error;
pub mod number;
pub mod rdb;
pub mod reply;
pub mod resp;
pub mod value;
