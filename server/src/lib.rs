//! An in-memory Redis-compatible server.

pub mod blocking;
pub mod bytestr;
pub mod clock;
pub mod command;
pub mod config;
pub mod connection;
pub mod deadlines;
pub mod dict;
pub mod engine;
pub mod error;
pub mod faults;
pub mod glob;
pub mod keyspace;
pub mod monitor;
pub mod number;
pub mod pubsub;
pub mod random;
pub mod rdb;
pub mod reply;
pub mod resp;
pub mod server;
pub mod session;
pub mod shared;
pub mod slowlog;
pub mod stats;
pub mod value;
