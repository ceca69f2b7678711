//! Errors, sorted by what the caller does next: wait, give up, stop the work, or mend the set-up.

use std::fmt;
use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Why an operation did not do what it was asked to.
///
/// That somebody else holds the lock is no error of a single attempt: [`Lock::try_acquire`]
/// answers `Ok(None)`.
///
/// [`Lock::try_acquire`]: crate::Lock::try_acquire
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The server answered with an error, or could not be reached.
    Backend {
        /// Which of several servers it was, counted from zero.
        node: usize,
        /// What the `redis` crate reported.
        source: RedisError,
    },
    /// The operating system gave no random bytes, so no safe token could be made.
    Entropy,
    /// A name must have between one and [`MAX_NAME_LEN`](crate::MAX_NAME_LEN) bytes, and must
    /// not begin with `}` when there is no prefix.
    InvalidName {
        /// Its length in bytes.
        length: usize,
    },
    /// An option that makes no sense, such as a semaphore without permits.
    InvalidOption {
        /// Which, and why.
        reason: &'static str,
    },
    /// A TTL must be longer than zero and at most [`MAX_TTL`](crate::MAX_TTL). Nothing was sent.
    InvalidTtl {
        /// What was asked for.
        ttl: Duration,
    },
    /// The lease is over: stop the work that it protected.
    Lost {
        /// How the loss was noticed.
        reason: Loss,
    },
    /// Too few of several servers granted the request; what was granted is given back.
    Quorum {
        /// Servers that granted it.
        granted: usize,
        /// Servers that had to.
        needed: usize,
        /// The errors of single servers.
        errors: Vec<Error>,
    },
    /// The wait ended before the lock was free.
    TimedOut {
        /// How long it took.
        waited: Duration,
        /// How often the server was asked.
        attempts: u32,
        /// The last error on the way, when it was not only that others held the lock.
        last: Option<Box<Error>>,
    },
    /// Fewer replicas than asked for acknowledged the lock in time, so it was given back.
    TooFewReplicas {
        /// Replicas that acknowledged it.
        acknowledged: u32,
        /// Replicas that had to.
        needed: u32,
    },
    /// The server did not answer in time, so whether it did the work is not known.
    Unanswered {
        /// Which of several servers it was, counted from zero.
        node: usize,
        /// How long the library waited.
        after: Duration,
    },
    /// The connection kind that was handed over cannot do this (e.g. it cannot subscribe).
    Unsupported {
        /// What it cannot do.
        what: &'static str,
    },
}

/// How a holder came to know that its lease is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// Its time ran out, or no renewal could be proven before it did.
    Expired,
    /// The server no longer has the key.
    Gone,
    /// The server holds the key for another.
    TakenByAnother,
    /// It was renewed up to the hard cap on its total hold.
    HeldTooLong,
}

impl Error {
    /// Whether the wait simply ended; trying again later is reasonable.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }

    /// Whether a lease ended under the caller.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Whether the same request may succeed soon without anyone's help: a lost connection, a
    /// missing answer, a server that is loading, failing over or busy.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unanswered { .. } | Self::TooFewReplicas { .. } => true,
            Self::Backend { source, .. } => transient(source),
            Self::Quorum { errors, .. } => errors.iter().all(Self::is_transient),
            _ => false,
        }
    }

    /// Whether the server may have done the work although it did not say so.
    pub(crate) fn outcome_is_unknown(&self) -> bool {
        match self {
            Self::Unanswered { .. } => true,
            Self::Backend { source, .. } => !matches!(
                source.kind(),
                ErrorKind::Server(_) | ErrorKind::Extension | ErrorKind::InvalidClientConfig
            ),
            _ => false,
        }
    }

    pub(crate) fn backend(node: usize) -> impl Fn(RedisError) -> Self {
        move |source| Self::Backend { node, source }
    }
}

fn transient(error: &RedisError) -> bool {
    use ServerErrorKind::{BusyLoading, ClusterDown, MasterDown, TryAgain};
    match error.kind() {
        ErrorKind::Io
        | ErrorKind::ClusterConnectionNotFound
        | ErrorKind::MasterNameNotFoundBySentinel
        | ErrorKind::NoValidReplicasFoundBySentinel
        | ErrorKind::Server(BusyLoading | ClusterDown | MasterDown | TryAgain) => true,
        _ => error.code() == Some("BUSY"),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backend { node, source } => write!(f, "server {node}: {source}"),
            Self::Entropy => f.write_str("the operating system gave no random bytes"),
            Self::InvalidName { length } => write!(f, "a name of {length} bytes is not allowed"),
            Self::InvalidOption { reason } => f.write_str(reason),
            Self::InvalidTtl { ttl } => write!(f, "a TTL of {ttl:?} is not allowed"),
            Self::Lost { reason } => write!(f, "the lease is lost: {reason}"),
            Self::Quorum {
                granted,
                needed,
                errors,
            } => quorum(f, *granted, *needed, errors),
            Self::TimedOut {
                waited,
                attempts,
                last,
            } => {
                write!(f, "not acquired within {waited:?} ({attempts} attempts)")?;
                last.as_ref()
                    .map_or(Ok(()), |last| write!(f, "; last error: {last}"))
            }
            Self::TooFewReplicas {
                acknowledged,
                needed,
            } => write!(
                f,
                "{acknowledged} replicas acknowledged it, {needed} are needed"
            ),
            Self::Unanswered { node, after } => {
                write!(f, "server {node} did not answer within {after:?}")
            }
            Self::Unsupported { what } => write!(f, "this connection cannot {what}"),
        }
    }
}

fn quorum(
    f: &mut fmt::Formatter<'_>,
    granted: usize,
    needed: usize,
    errors: &[Error],
) -> fmt::Result {
    write!(f, "{granted} servers granted it, {needed} are needed")?;
    errors.iter().try_for_each(|error| write!(f, "; {error}"))
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its time ran out",
            Self::Gone => "the server no longer has the key",
            Self::TakenByAnother => "another holds it",
            Self::HeldTooLong => "it reached its longest hold",
        })
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Backend { source, .. } => Some(source),
            Self::TimedOut {
                last: Some(last), ..
            } => Some(last),
            _ => None,
        }
    }
}
