//! Once per period in the whole fleet: a cron job that many machines start and one machine runs.

use std::future::Future;
use std::time::Duration;

use crate::error::Error;
use crate::manager::Manager;
use crate::name::Name;
use crate::scripts;
use crate::token::Token;
use crate::ttl::Ttl;

/// A job that at most one caller may run in each period of the server's clock.
///
/// A period is claimed before the job runs, so a runner that dies leaves it undone until the
/// next one: **at most once**. For a job that must be done, use [`Manager::queue`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = khoa_server::Server::start()?;
/// # let manager = khoa::Manager::open(server.url())?;
/// use std::time::Duration;
///
/// let hourly = manager.once_per("mail-digest", Duration::from_secs(3600));
/// if hourly.run(|period| async move { println!("digest {period}") }).await?.is_none() {
///     println!("another machine does it");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct OncePer {
    manager: Manager,
    name: Vec<u8>,
    period: Duration,
    offset: Duration,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claimed {
    /// Whether this caller is to run the job.
    pub mine: bool,
    /// The period's number since the epoch.
    pub period: i64,
    /// How long it is until the next period begins.
    pub next_in: Duration,
}

impl Manager {
    /// A job of this name that runs once in each period. Periods are counted from the epoch, so
    /// one of a day begins at midnight UTC.
    pub fn once_per(&self, name: impl AsRef<[u8]>, period: Duration) -> OncePer {
        let name = name.as_ref().to_vec();
        OncePer {
            manager: self.clone(),
            name,
            period,
            offset: Duration::ZERO,
        }
    }
}

impl OncePer {
    /// Lets periods begin this much later. Default: zero.
    #[must_use]
    pub fn offset(mut self, offset: Duration) -> Self {
        self.offset = offset;
        self
    }

    /// Claims the present period.
    ///
    /// # Cancel safety
    /// When the future is dropped the period may have been claimed, and nobody runs the job.
    pub async fn claim(&self) -> Result<Claimed, Error> {
        let name = Name::new(self.manager.prefix().as_bytes(), &self.name)?;
        let token = Token::random()?;
        let period = Ttl::new(self.period)?.millis().to_string();
        let offset = crate::resource::millis(self.offset);
        let args: [&[u8]; 4] = [
            token.as_str().as_bytes(),
            period.as_bytes(),
            offset.as_bytes(),
            self.manager.label().as_bytes(),
        ];
        let node = self.manager.node();
        let reply = node
            .run(&scripts::PERIODIC, &[name.helper("period")], &args, None)
            .await?;
        let (mine, period, next_in): (bool, i64, u64) = node.read(reply)?;
        Ok(Claimed {
            mine,
            period,
            next_in: Duration::from_millis(next_in),
        })
    }

    /// Runs the job if nobody has run it in this period; it is told the period's number.
    ///
    /// # Cancel safety
    /// As [`OncePer::claim`]; the job is dropped with the future.
    pub async fn run<F, W>(&self, job: F) -> Result<Option<W::Output>, Error>
    where
        F: FnOnce(i64) -> W,
        W: Future,
    {
        let claimed = self.claim().await?;
        if !claimed.mine {
            return Ok(None);
        }
        Ok(Some(job(claimed.period).await))
    }
}
