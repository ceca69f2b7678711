//! A lease's length as the server takes it: whole milliseconds, never zero, never overflowing.

use std::time::Duration;

use crate::error::Error;

/// The longest lease: about 31 years. Servers refuse deadlines near the end of a signed 64-bit
/// number of milliseconds, and such a lease could only be a mistake.
pub const MAX_TTL: Duration = Duration::from_secs(1_000_000_000);

/// Milliseconds between one and [`MAX_TTL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ttl(u64);

impl Ttl {
    /// Rounds up to whole milliseconds, so a lease is never shorter than what was asked for.
    pub(crate) fn new(length: Duration) -> Result<Self, Error> {
        if length.is_zero() || length > MAX_TTL {
            return Err(Error::InvalidTtl { ttl: length });
        }
        Ok(Self(millis_rounded_up(length)))
    }

    pub(crate) const SHORTEST: Self = Self(1);

    pub(crate) fn millis(self) -> u64 {
        self.0
    }

    pub(crate) fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// What a client may count on when the request began `elapsed` ago: the lease less the time
    /// since then, less a hundredth and two milliseconds for clocks that run at other speeds.
    pub(crate) fn provable(self) -> Duration {
        let drift = self.duration() / 100 + Duration::from_millis(2);
        self.duration().saturating_sub(drift)
    }
}

pub(crate) fn millis_rounded_up(length: Duration) -> u64 {
    u64::try_from(length.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(length: Duration) -> Option<u64> {
        Ttl::new(length).ok().map(Ttl::millis)
    }

    #[test]
    fn a_ttl_is_rounded_up_to_whole_milliseconds() {
        assert_eq!(millis(Duration::from_nanos(1)), Some(1));
        assert_eq!(millis(Duration::from_micros(999)), Some(1));
        assert_eq!(millis(Duration::from_millis(1)), Some(1));
        assert_eq!(millis(Duration::from_micros(1400)), Some(2));
    }

    #[test]
    fn zero_and_overflowing_ttls_are_refused() {
        assert_eq!(millis(Duration::ZERO), None);
        assert_eq!(millis(Duration::from_millis(u64::MAX)), None);
        assert_eq!(millis(Duration::MAX), None);
        assert_eq!(millis(MAX_TTL), Some(1_000_000_000_000));
    }

    #[test]
    fn a_lease_shorter_than_the_drift_proves_nothing() {
        assert_eq!(
            Ttl::new(Duration::from_millis(2)).unwrap().provable(),
            Duration::ZERO
        );
        assert_eq!(
            Ttl::new(Duration::from_secs(10)).unwrap().provable(),
            Duration::from_millis(9898)
        );
    }
}
