//! Distributed locks over Redis, Valkey or khoa-server that say only what they can prove.
//!
//! A lock on another machine is a **lease**: it is yours until a moment that you can read, and
//! then it is not, whether or not you noticed. This library makes that visible: a [`Guard`]
//! tells how long it [remains](Lease::remaining) valid, signals its [loss](Lease::lost), and
//! carries a [fencing token](Lease::fencing_token) for the resource to check.
//!
//! ```
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = khoa_server::Server::start()?;
//! # let url = server.url(); // redis://127.0.0.1:PORT
//! let manager = khoa::Manager::open(url)?;
//! let lock = manager.lock("nightly-report").ttl(Duration::from_secs(10));
//!
//! // One attempt, or a wait with a limit. Waiters are woken in their order, they do not poll.
//! if let Some(guard) = lock.try_acquire().await? {
//!     println!("valid for {:?}, fencing token {}", guard.remaining(), guard.fencing_token());
//!     guard.release().await?;
//! }
//!
//! // Work of any length: the lease renews itself, and the work is dropped if it is lost.
//! lock.run(|lease| async move { println!("working as {}", lease.fencing_token()) }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Read [what it promises and what no lock can](guide::promises), see
//! [everything that it offers](guide::primitives), or come
//! [from another library](guide::migration).

mod acquire;
#[cfg(feature = "blocking")]
pub mod blocking;
mod borrowed;
mod cleanup;
mod clock;
#[cfg(feature = "cluster")]
mod cluster;
mod connection;
mod election;
mod error;
mod fencing;
mod guard;
pub mod guide;
mod inspect;
mod latch;
mod lease;
mod lengthener;
mod lock;
mod manager;
#[cfg(feature = "memory")]
pub mod memory;
mod multi;
mod name;
mod periodic;
mod pubsub;
mod queue;
mod rate;
mod read_write;
mod redlock;
mod reentrant;
mod resource;
mod scripts;
mod semaphore;
#[cfg(test)]
mod simulation;
mod telemetry;
mod token;
mod transaction;
mod ttl;
mod wait;
mod wakeup;
mod watchdog;

pub use clock::{Clock, ManualClock};
pub use election::{Election, Leadership, Observer};
pub use error::{Error, Loss};
pub use guard::{Guard, Released};
pub use inspect::Holder;
pub use latch::Latch;
pub use lease::Lease;
pub use lock::{Lock, MAX_LABEL_LEN};
pub use manager::{Manager, ManagerBuilder};
pub use multi::{HeldSet, LockSet, MAX_LOCKS};
pub use name::MAX_NAME_LEN;
pub use periodic::{Claimed, OncePer};
pub use pubsub::{Event, Subscription};
pub use queue::{Job, MAX_JOB_LEN, Queue, QueueStatus};
pub use rate::{MAX_SLIDING_LIMIT, RateLimiter, Verdict};
pub use read_write::ReadWriteLock;
pub use redlock::Redlock;
pub use reentrant::{ReentrantGuard, ReentrantLock};
pub use token::Token;
pub use transaction::{Committed, Transaction};
pub use ttl::MAX_TTL;
pub use wait::Wait;

pub use redis;
