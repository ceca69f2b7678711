//! Rate limiters: a fixed window, cheap but soft at its edges, and a sliding one that is exact.

use std::time::Duration;

use crate::clock::later;
use crate::error::Error;
use crate::manager::Manager;
use crate::name::Name;
use crate::scripts::{self, Script};
use crate::ttl::Ttl;

/// The highest limit of a sliding window, which remembers each single request.
pub const MAX_SLIDING_LIMIT: u32 = 100_000;

/// At most a number of requests per window of time, for everyone who uses the same name.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = khoa_server::Server::start()?;
/// # let manager = khoa::Manager::open(server.url())?;
/// use std::time::Duration;
///
/// let per_client = manager.sliding_window(100, Duration::from_secs(60))?;
/// let verdict = per_client.hit("client:203.0.113.9").await?;
/// if !verdict.allowed {
///     println!("try again in {:?}", verdict.retry_after);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RateLimiter {
    manager: Manager,
    limit: u32,
    window: Ttl,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Fixed,
    Sliding,
}

/// What a limiter says to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// Whether the request may go on. A refused request costs nothing.
    pub allowed: bool,
    /// How many more requests are allowed now.
    pub remaining: u32,
    /// After which time the same request is worth trying again; zero when it was allowed.
    pub retry_after: Duration,
}

impl Manager {
    /// A counter that begins with the first request and is forgotten a window later: one small
    /// key per name. Around the end of a window it lets through up to twice its limit within
    /// one window's length; [`Manager::sliding_window`] does not.
    pub fn fixed_window(&self, limit: u32, window: Duration) -> Result<RateLimiter, Error> {
        self.limiter(limit, window, Kind::Fixed)
    }

    /// Never more than `limit` requests in any stretch of time of the window's length. It
    /// remembers each request, so it takes memory in proportion to its limit.
    pub fn sliding_window(&self, limit: u32, window: Duration) -> Result<RateLimiter, Error> {
        if limit > MAX_SLIDING_LIMIT {
            return Err(Error::InvalidOption {
                reason: "the limit of a sliding window is too high",
            });
        }
        self.limiter(limit, window, Kind::Sliding)
    }

    fn limiter(&self, limit: u32, window: Duration, kind: Kind) -> Result<RateLimiter, Error> {
        if limit == 0 {
            return Err(Error::InvalidOption {
                reason: "a limiter must allow something",
            });
        }
        Ok(RateLimiter {
            manager: self.clone(),
            limit,
            window: Ttl::new(window)?,
            kind,
        })
    }
}

impl RateLimiter {
    /// Counts one request under a name.
    ///
    /// # Cancel safety
    /// When the future is dropped the request may have been counted.
    pub async fn hit(&self, name: impl AsRef<[u8]>) -> Result<Verdict, Error> {
        self.take(name, 1).await
    }

    /// Counts a request that costs as much as several, all or nothing.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] when the cost is zero or above the limit: it could never pass.
    ///
    /// # Cancel safety
    /// As [`RateLimiter::hit`].
    pub async fn take(&self, name: impl AsRef<[u8]>, cost: u32) -> Result<Verdict, Error> {
        if cost == 0 || cost > self.limit {
            return Err(Error::InvalidOption {
                reason: "a cost between one and the limit",
            });
        }
        let name = self.manager.name(name)?;
        let (script, keys) = self.script(&name);
        let args = [
            self.limit.to_string(),
            self.window.millis().to_string(),
            cost.to_string(),
        ];
        let args = args.each_ref().map(String::as_bytes);
        let node = self.manager.node();
        let reply = node.run_once(script, &keys, &args, None).await?;
        let (allowed, remaining, left): (bool, u32, u64) = node.read(reply)?;
        let retry_after = Duration::from_millis(if allowed { 0 } else { left });
        Ok(Verdict {
            allowed,
            remaining,
            retry_after,
        })
    }

    /// Counts one request as soon as it is allowed.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when it would not be allowed in time; it says so at once.
    ///
    /// # Cancel safety
    /// As [`RateLimiter::hit`].
    pub async fn wait_within(
        &self,
        name: impl AsRef<[u8]>,
        limit: Duration,
    ) -> Result<Verdict, Error> {
        let clock = self.manager.node().clock();
        let started = clock.now();
        let deadline = later(started, limit);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let verdict = self.hit(name.as_ref()).await?;
            if verdict.allowed {
                return Ok(verdict);
            }
            let next = later(
                clock.now(),
                verdict.retry_after.max(Duration::from_millis(1)),
            );
            if next > deadline {
                let waited = clock.now().saturating_duration_since(started);
                return Err(Error::TimedOut {
                    waited,
                    attempts,
                    last: None,
                });
            }
            clock.sleep_until(next).await;
        }
    }

    fn script(&self, name: &Name) -> (&'static Script, Vec<Vec<u8>>) {
        match self.kind {
            Kind::Fixed => (&scripts::FIXED_WINDOW, vec![name.helper("rate")]),
            Kind::Sliding => (
                &scripts::SLIDING_WINDOW,
                vec![name.helper("rate-log"), name.helper("rate-seq")],
            ),
        }
    }
}

impl std::fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateLimiter")
            .field("limit", &self.limit)
            .field("window", &self.window.duration())
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}
