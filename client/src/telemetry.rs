//! What the library tells about itself: `tracing` spans and events, and `metrics` behind a feature.

use std::time::Duration;

use tracing::Span;
use tracing::field::{Empty, display};

use crate::error::{Error, Loss};
use crate::guard::{Guard, Released};
use crate::lease::Lease;
use crate::name::Name;

/// The span of a wait; its fields are filled in when it is over.
pub(crate) fn acquiring(name: &Name) -> Span {
    tracing::debug_span!(
        "khoa.acquire",
        name = %name,
        waited_ms = Empty,
        fencing_token = Empty,
        error = Empty,
    )
}

pub(crate) fn acquired(span: &Span, waited: Duration, outcome: &Result<Guard, Error>) {
    span.record(
        "waited_ms",
        u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
    );
    match outcome {
        Ok(guard) => span.record("fencing_token", guard.fencing_token()),
        Err(error) => span.record("error", display(error)),
    };
    let result = match outcome {
        Ok(_) => "acquired",
        Err(Error::TimedOut { .. }) => "timed_out",
        Err(_) => "failed",
    };
    count("khoa_acquire_total", result);
    record("khoa_wait_seconds", waited);
}

pub(crate) fn tried(name: &Name, fence: Option<u64>) {
    tracing::debug!(%name, fencing_token = fence, acquired = fence.is_some(), "khoa.try_acquire");
    count(
        "khoa_acquire_total",
        if fence.is_some() { "acquired" } else { "busy" },
    );
}

/// The end of a hold; without a result when a guard was dropped and nobody asked for one.
pub(crate) fn released(lease: &Lease, result: Option<Released>) {
    let held = lease.held_for();
    tracing::debug!(
        name = %lease.resource().name(),
        fencing_token = lease.fencing_token(),
        held_ms = u64::try_from(held.as_millis()).unwrap_or(u64::MAX),
        ?result,
        "khoa.release",
    );
    let result = match result {
        Some(Released::Released) => "released",
        Some(Released::Expired) => "expired",
        Some(Released::TakenByAnother) => "taken_by_another",
        None => "dropped",
    };
    count("khoa_release_total", result);
    record("khoa_hold_seconds", held);
}

pub(crate) fn lost(name: &Name, fence: u64, reason: Loss) {
    tracing::warn!(%name, fencing_token = fence, %reason, "khoa.lost");
    let reason = match reason {
        Loss::Expired => "expired",
        Loss::Gone => "gone",
        Loss::TakenByAnother => "taken_by_another",
        Loss::HeldTooLong => "held_too_long",
    };
    count("khoa_lost_total", reason);
}

// Names of locks are no labels: there may be as many as there are orders.

#[cfg(feature = "metrics")]
fn count(name: &'static str, result: &'static str) {
    metrics::counter!(name, "result" => result).increment(1);
}

#[cfg(feature = "metrics")]
fn record(name: &'static str, duration: Duration) {
    metrics::histogram!(name).record(duration.as_secs_f64());
}

#[cfg(not(feature = "metrics"))]
fn count(_name: &'static str, _result: &'static str) {}

#[cfg(not(feature = "metrics"))]
fn record(_name: &'static str, _duration: Duration) {}
