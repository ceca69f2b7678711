//! Gives back what a dropped future, a dropped guard or a lost reply may have left on the server.

use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::clock::Clock;
use crate::resource::{SharedResource, Standing};
use crate::token::Token;

/// The first pause after a failed request; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// When to look a second time for a request that was overtaken by its own clean-up.
const SETTLE: Duration = Duration::from_millis(500);

/// A compare-and-delete that no longer depends on whoever caused it.
pub(crate) struct Cleanup {
    pub(crate) resource: SharedResource,
    pub(crate) token: Token,
    /// Its address in the queue, where its place is given up too; empty when it has none.
    pub(crate) address: Vec<u8>,
    pub(crate) clock: Clock,
    /// After this the lease has ended by itself, and there is nothing left to clean.
    pub(crate) until: Instant,
    /// Whether an earlier request may still be on its way, on a connection that was given up.
    pub(crate) may_be_overtaken: bool,
}

impl Cleanup {
    /// Runs detached on the current runtime, or on the given one when there is none here. When
    /// neither is alive the server's own expiry does the work.
    pub(crate) fn spawn(self, runtime: &Handle) {
        Handle::try_current()
            .as_ref()
            .unwrap_or(runtime)
            .spawn(self.run());
    }

    async fn run(self) {
        let found = self.release().await;
        if found != Some(Standing::Held) && self.may_be_overtaken {
            self.clock.sleep(SETTLE).await;
            self.release().await;
        }
    }

    /// Asks until the server has answered or the lease has ended by itself.
    async fn release(&self) -> Option<Standing> {
        let mut pause = FIRST_PAUSE;
        loop {
            match self
                .resource
                .release(&self.token, &self.address, self.until)
                .await
            {
                Ok(standing) => return Some(standing),
                Err(error) => tracing::debug!(%error, "clean-up was not answered"),
            }
            if self.clock.now() >= self.until {
                return None;
            }
            self.clock.sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}
