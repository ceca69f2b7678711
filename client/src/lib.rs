//! Distributed locks over Redis, Valkey or khoa-server that say only what they can prove.
//!
//! A lock on another machine is a **lease**: it is yours until a moment that you can read, and
//! then it is not, whether or not you noticed. This library makes that visible: a [`Guard`]
//! tells how long it [remains](Lease::remaining) valid, signals its [loss](Lease::lost), and
//! carries a [fencing token](Lease::fencing_token) for the resource to check.

mod acquire;
mod cleanup;
mod clock;
mod connection;
mod error;
mod guard;
mod inspect;
mod lease;
mod lock;
mod manager;
mod name;
mod resource;
mod scripts;
mod token;
mod transaction;
mod ttl;
mod wait;
mod wakeup;
mod watchdog;

pub use clock::{Clock, ManualClock};
pub use error::{Error, Loss};
pub use guard::{Guard, Released};
pub use inspect::Holder;
pub use lease::Lease;
pub use lock::{Lock, MAX_LABEL_LEN};
pub use manager::{Manager, ManagerBuilder};
pub use name::MAX_NAME_LEN;
pub use token::Token;
pub use transaction::{Committed, Transaction};
pub use ttl::MAX_TTL;
pub use wait::Wait;

pub use redis;
