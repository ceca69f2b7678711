//! The whole library without a socket: every primitive, against a server inside the process whose
//! clock stands still until the test moves it.
//!
//! ```
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let memory = khoa::memory::Memory::start()?;
//! let lock = memory.manager()?.lock("orders").ttl(Duration::from_secs(10));
//! let guard = lock.acquire().await?;
//! memory.advance(Duration::from_secs(11));
//! assert!(guard.is_lost());
//! assert!(lock.try_acquire().await?.is_some());
//! # Ok(())
//! # }
//! ```

use std::io;
use std::sync::Arc;
use std::time::Duration;

use khoa_server::Server;

use crate::clock::ManualClock;
use crate::error::Error;
use crate::manager::{Manager, ManagerBuilder};

/// How long a request may take by the clock that the test moves: it may jump by hours while a
/// request is really on its way.
const PATIENCE: Duration = Duration::from_secs(60 * 60 * 24);

/// A server in memory and a clock, which move together.
pub struct Memory {
    server: Arc<Server>,
    clock: ManualClock,
}

impl Memory {
    /// An empty server, its clock stopped at the present time. It listens on no port.
    pub fn start() -> io::Result<Self> {
        let server = Server::builder().no_port().frozen().start()?;
        Ok(Self {
            server: Arc::new(server),
            clock: ManualClock::new(),
        })
    }

    /// A manager of its own, as another process would have it.
    pub fn manager(&self) -> Result<Manager, Error> {
        self.open(Manager::builder())
    }

    /// A manager with other settings; its clock is set to this one's.
    pub fn open(&self, settings: ManagerBuilder) -> Result<Manager, Error> {
        let server = Arc::clone(&self.server);
        let settings = settings.clock(self.clock.clock()).request_timeout(PATIENCE);
        settings.streams(move || server.stream())
    }

    /// Moves time forward: the server's first, so that whoever wakes finds what is over gone.
    pub fn advance(&self, by: Duration) {
        self.server.advance(by);
        self.clock.advance(by);
    }

    /// The server, to look into it and to let it fail.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The clock of this memory's managers.
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}
