//! A counting semaphore whose permits end by themselves, so a dead holder cannot keep one for ever.

use crate::error::Error;
use crate::lock::Lock;
use crate::manager::Manager;
use crate::resource::Scripted;
use crate::scripts;

impl Manager {
    /// One of `limit` permits under a name: at most that many are held at a time, each with a
    /// TTL of its own. Waiters are served in their order.
    ///
    /// All users of a name must agree on its limit; each request is judged by its own.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = khoa_server::Server::start()?;
    /// # let manager = khoa::Manager::open(server.url())?;
    /// let permit = manager.semaphore("report-workers", 3).acquire().await?;
    /// // At most three workers of the whole fleet are here.
    /// permit.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn semaphore(&self, name: impl AsRef<[u8]>, limit: u32) -> Lock {
        self.hold(self.permit(name.as_ref(), limit))
    }

    /// How many permits of a semaphore are held.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn permits_held(&self, name: impl AsRef<[u8]>) -> Result<u64, Error> {
        let name = self.name(name)?;
        let keys = [name.key().to_vec()];
        let node = self.node();
        node.read(
            node.run(&scripts::SEMAPHORE_COUNT, &keys, &[], None)
                .await?,
        )
    }

    fn permit(&self, name: &[u8], limit: u32) -> Result<Scripted, Error> {
        if limit == 0 {
            return Err(Error::InvalidOption {
                reason: "a semaphore needs at least one permit",
            });
        }
        let name = self.name(name)?;
        let (key, queue) = (name.key().to_vec(), name.helper("queue"));
        let limit = limit.to_string().into_bytes();
        Ok(Scripted {
            acquire_keys: vec![key.clone(), name.helper("fence"), queue.clone()],
            extend_keys: vec![key.clone()],
            release_keys: vec![key, queue, name.helper("fence")],
            acquire_extra: vec![limit.clone()],
            release_extra: vec![limit],
            ..self.scripted(name, &scripts::SEMAPHORE)
        })
    }
}
