//! A write that a late holder cannot make: the protected resource checks the fencing token.

use redis::ToRedisArgs;

use crate::error::{Error, Loss};
use crate::lease::Lease;
use crate::manager::Manager;
use crate::scripts;

impl Manager {
    /// Sets a string, unless a holder with a higher fencing token has set it before: the check
    /// that turns a lease into safety, made by the resource itself, in one step with the write.
    ///
    /// The key is used under this manager's prefix. Every writer of it must write this way. The
    /// highest token seen is kept beside it, without a TTL, for as long as the value matters.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = khoa_server::Server::start()?;
    /// # let manager = khoa::Manager::open(server.url())?;
    /// let guard = manager.lock("balance").acquire().await?;
    /// // … a long pause, in which the lease ends and another takes over …
    /// match manager.set_fenced("balance-value", "100", &guard.lease()).await {
    ///     Err(error) if error.is_lost() => println!("another was here meanwhile"),
    ///     written => written?,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Lost`] when a later holder has written, whether or not this lease still seems
    /// valid here.
    ///
    /// # Cancel safety
    /// When the future is dropped the value may have been written.
    pub async fn set_fenced(
        &self,
        key: impl AsRef<[u8]>,
        value: impl ToRedisArgs,
        lease: &Lease,
    ) -> Result<(), Error> {
        let name = self.name(key)?;
        let keys = [name.key().to_vec(), name.helper("fence-seen")];
        let token = lease.fencing_token().to_string();
        let value = value.to_redis_args().concat();
        let node = self.node();
        let reply = node
            .run(
                &scripts::FENCED_SET,
                &keys,
                &[token.as_bytes(), &value],
                None,
            )
            .await?;
        if node.read(reply)? {
            Ok(())
        } else {
            Err(Error::Lost {
                reason: Loss::TakenByAnother,
            })
        }
    }
}
