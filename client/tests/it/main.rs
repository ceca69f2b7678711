//! The lock library against a server whose clock and faults the tests hold in their hands.

mod cancel;
mod connections;
mod election;
mod extension;
mod features;
mod fencing;
mod inspect;
mod latch;
mod lock;
mod multi;
mod periodic;
mod pubsub;
mod queue;
mod rate;
mod read_write;
mod redlock;
mod reentrant;
mod renewal;
mod replicas;
mod semaphore;
mod support;
mod transaction;
mod values;
mod waiting;
