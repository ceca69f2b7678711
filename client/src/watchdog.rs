//! Renews a lease from a task of its own, up to a hard cap, and says at once when it cannot.

use std::time::{Duration, Instant};

use crate::clock::later;
use crate::lease::Lease;
use crate::ttl::Ttl;

/// The longest total hold of a lease that renews itself, unless another is asked for.
pub(crate) const DEFAULT_MAX_HOLD: Duration = Duration::from_secs(60 * 60);

/// Keeps the lease alive until it is lost; the guard ends the task when it is released.
///
/// A renewal that fails is tried again while there is time: a short loss of the connection costs
/// nothing. One that hangs ends with the lease, which is lost at that moment and not later.
pub(crate) async fn keep(lease: Lease, max_hold: Duration) {
    let cap = later(lease.acquired_at(), max_hold);
    let mut failures = 0;
    while lease.is_valid() {
        let next = next_renewal(&lease, failures);
        lease.clock().sleep_until(next).await;
        let Some(ttl) = affordable(&lease, cap) else {
            lease.ends_by_cap();
            break;
        };
        match lease.lengthen(ttl).await {
            Ok(()) => failures = 0,
            Err(error) if error.is_lost() => break,
            Err(error) => {
                failures += 1;
                tracing::warn!(?lease, %error, "renewal failed");
            }
        }
    }
    lease.clock().sleep_until(lease.valid_until()).await;
    lease.end_if_due();
}

/// Makes a lease that was handed over as long as was asked for, unless it ends first.
pub(crate) async fn complete(lease: Lease) {
    tokio::select! {
        biased;
        () = lease.over() => {}
        () = lengthen(&lease) => {}
    }
}

async fn lengthen(lease: &Lease) {
    loop {
        match lease.extend().await {
            Ok(()) => return,
            Err(error) if error.is_lost() => return,
            Err(error) => tracing::warn!(?lease, %error, "lengthening failed"),
        }
        lease.clock().sleep_until(next_renewal(lease, 1)).await;
    }
}

/// A third of the lease after it was last proven; after a failure sooner, but never in a rush.
fn next_renewal(lease: &Lease, failures: u32) -> Instant {
    let ttl = lease.ttl();
    if failures > 0 {
        let pause = (ttl.duration() / 20).clamp(MIN_PAUSE, MAX_PAUSE);
        return later(lease.clock().now(), pause).min(lease.valid_until());
    }
    let used = ttl.provable().saturating_sub(ttl.duration() / 3);
    lease
        .valid_until()
        .checked_sub(used)
        .unwrap_or_else(|| lease.valid_until())
}

const MIN_PAUSE: Duration = Duration::from_millis(1);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The lease's length, cut so that it ends at the cap; none when it already reaches it.
fn affordable(lease: &Lease, cap: Instant) -> Option<Ttl> {
    let left = cap.saturating_duration_since(lease.clock().now());
    if left >= lease.ttl().duration() {
        return Some(lease.ttl());
    }
    // Rounding up to a millisecond must not carry the hold past its cap.
    let whole = Duration::from_millis(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
    let ttl = Ttl::new(whole).ok()?;
    (ttl.provable() > lease.remaining()).then_some(ttl)
}
