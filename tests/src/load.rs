//! What a server must bear. Each scenario starts one as a process of its own, loads it, prints its
//! figures, and sees that memory and file descriptors return to their level.

mod client;
mod figures;
mod process;

mod connections;
mod descriptors;
mod expiry;
mod large_value;
mod pipeline;
mod slow_clients;
mod stop;
mod subscriber;
mod waiters;

use std::{error::Error, path::PathBuf};

/// What a scenario comes to.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// What the scenarios run on, and how hard.
#[derive(Debug)]
pub struct Ground {
    /// The server's binary; a reference's takes the same options.
    pub server: PathBuf,
    /// Smaller numbers, and no judgement of timings: for a machine that does other things too.
    pub short: bool,
}

impl Ground {
    /// The number for the form that runs.
    fn pick<T>(&self, full: T, short: T) -> T {
        if self.short { short } else { full }
    }
}

/// A claim and what proves it.
#[derive(Debug)]
pub struct Scenario {
    /// The claim.
    pub name: &'static str,
    /// Proves it or tells what was found instead.
    pub run: fn(&Ground) -> Outcome,
}

macro_rules! scenarios {
    ($($module:ident :: $name:ident),* $(,)?) => {
        &[$(Scenario { name: stringify!($name), run: $module::$name }),*]
    };
}

/// Every scenario, in the order in which they run.
pub const SCENARIOS: &[Scenario] = scenarios![
    connections::every_one_of_many_connections_is_served,
    waiters::waiters_on_one_key_are_served_in_the_order_they_came,
    subscriber::a_subscriber_that_never_reads_costs_no_more_than_its_limit,
    expiry::keys_that_end_in_the_same_second_hold_nobody_up,
    large_value::a_large_value_is_served_or_refused_as_configured,
    pipeline::a_long_pipeline_is_answered_whole_and_in_order,
    pipeline::a_long_pipeline_may_be_sent_before_its_first_reply_is_read,
    pipeline::a_client_that_never_reads_is_not_read_from_for_ever,
    slow_clients::clients_that_send_a_byte_at_a_time_hold_nobody_up,
    descriptors::out_of_descriptors_new_clients_are_refused_and_old_ones_served,
    stop::a_stop_under_load_acknowledges_what_was_done_and_nothing_else,
];

/// Fails with what was found unless the condition holds.
fn ensure(holds: bool, found: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(found().into()) }
}
