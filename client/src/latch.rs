//! A count-down latch: some wait until others have counted it down to zero.

use std::time::Duration;

use crate::clock::later;
use crate::error::Error;
use crate::manager::Manager;
use crate::name::Name;
use crate::resource::{QUEUE_KEPT, millis};
use crate::scripts;
use crate::token::Token;
use crate::ttl::Ttl;
use crate::wait::Wait;
use crate::wakeup::Seat;

/// A latch under a name. It is set once, counted down, and stays open until its time is over.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = khoa_server::Server::start()?;
/// # let manager = khoa::Manager::open(server.url())?;
/// use std::time::Duration;
///
/// let ready = manager.latch("shards-loaded")?;
/// ready.set(3, Duration::from_secs(3600)).await?;
/// ready.count_down(1).await?; // by each of three loaders
/// # ready.count_down(2).await?;
/// ready.wait_within(Duration::from_secs(60)).await?; // by those who need all of them
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Latch {
    manager: Manager,
    name: Name,
    wait: Wait,
}

impl Manager {
    /// The latch of this name.
    pub fn latch(&self, name: impl AsRef<[u8]>) -> Result<Latch, Error> {
        Ok(Latch {
            manager: self.clone(),
            name: self.name(name)?,
            wait: Wait::notified(),
        })
    }
}

impl Latch {
    /// Sets the count, unless it is set already; whether it was set by this call. The latch, open
    /// or not, is forgotten after `kept`.
    ///
    /// # Cancel safety
    /// When the future is dropped the latch may or may not be set.
    pub async fn set(&self, count: u32, kept: Duration) -> Result<bool, Error> {
        let kept = Ttl::new(kept)?.millis().to_string();
        let set = self
            .call(&[b"set", count.to_string().as_bytes(), kept.as_bytes()])
            .await?;
        Ok(set == 1)
    }

    /// Counts down and tells what is left; `None` when the latch is not set.
    ///
    /// The request is sent once: when its answer is lost, whether it counted is not known.
    ///
    /// # Cancel safety
    /// When the future is dropped it may or may not have counted.
    pub async fn count_down(&self, by: u32) -> Result<Option<u64>, Error> {
        let by = by.to_string();
        let args: [&[u8]; 2] = [b"down", by.as_bytes()];
        let node = self.manager.node();
        let reply = node
            .run_once(&scripts::LATCH, &self.keys(), &args, None)
            .await?;
        Ok(u64::try_from(node.read::<i64>(reply)?).ok())
    }

    /// What is left to count; `None` when the latch is not set.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn left(&self) -> Result<Option<u64>, Error> {
        Ok(u64::try_from(self.call(&[b"wait", b"", b""]).await?).ok())
    }

    /// Waits until the count is zero, also when the latch is not set yet.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when the time is over.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing but a place in a queue, which ends by itself.
    pub async fn wait_within(&self, limit: Duration) -> Result<(), Error> {
        let clock = self.manager.node().clock();
        let started = clock.now();
        let deadline = later(started, limit);
        let token = Token::random()?;
        let seat = self.listen(&token).await;
        let waiter = seat
            .as_ref()
            .map(|seat| [token.as_str().as_bytes(), &seat.address(None)].concat());
        let waiter = waiter.unwrap_or_default();
        let kept = millis(QUEUE_KEPT);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let left = self.call(&[b"wait", &waiter, kept.as_bytes()]).await?;
            if left == 0 {
                return Ok(());
            }
            if clock.now() >= deadline {
                if seat.is_some() {
                    self.call(&[b"leave", &waiter]).await?;
                }
                let waited = clock.now().saturating_duration_since(started);
                return Err(Error::TimedOut {
                    waited,
                    attempts,
                    last: None,
                });
            }
            if let Some(seat) = &seat {
                let look = later(clock.now(), self.wait.patience(1, None)).min(deadline);
                let _ = clock.before(look, seat.woken()).await;
            } else {
                let look = later(clock.now(), self.wait.pause(attempts));
                clock.sleep_until(look.min(deadline)).await;
            }
        }
    }

    async fn listen(&self, token: &Token) -> Option<Seat> {
        let hub = self.manager.hub()?;
        let seat = hub.seat(token, &self.name);
        seat.open(None).await.ok().map(|()| seat)
    }

    async fn call(&self, args: &[&[u8]]) -> Result<i64, Error> {
        let node = self.manager.node();
        node.read(node.run(&scripts::LATCH, &self.keys(), args, None).await?)
    }

    fn keys(&self) -> [Vec<u8>; 2] {
        [self.name.helper("latch"), self.name.helper("latch-queue")]
    }
}
