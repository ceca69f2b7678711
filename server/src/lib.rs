//! An in-memory Redis-compatible server.

mod acl;
mod ahead;
mod answer;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
mod blocking;
mod bytestr;
mod client_list;
mod clock;
mod cluster;
#[doc(hidden)]
pub mod command;
#[doc(hidden)]
pub mod config;
mod connection;
mod deadlines;
mod dict;
mod embed;
mod engine;
mod errand;
mod error;
mod eviction;
mod extended;
mod faults;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod geohash;
mod glob;
mod histogram;
mod info;
mod keyspace;
mod latency;
mod lcs;
mod machine;
mod monitor;
mod number;
mod pubsub;
mod random;
mod rdb;
mod reply;
mod resp;
#[cfg(feature = "scripting")]
mod script;
mod server;
mod session;
#[doc(hidden)]
pub mod settings_file;
mod sha256;
mod shared;
mod slots;
mod slowlog;
mod stats;
mod tracking;
mod value;
mod visits;

pub use answer::Answer;
pub use embed::{Db, Subscriber};
pub use faults::Fault;
pub use info::VERSION;
pub use pubsub::Message;
pub use server::{Builder, Server};
