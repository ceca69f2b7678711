//! A read-write lock: many readers or one writer, served in the order in which they came.

use crate::error::Error;
use crate::lock::Lock;
use crate::manager::Manager;
use crate::resource::Scripted;
use crate::scripts;

/// A name that is held by many readers or by one writer.
///
/// Each reader has a lease of its own, so a short one never shortens a long one, and a dead
/// reader's ends by itself.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = khoa_server::Server::start()?;
/// # let manager = khoa::Manager::open(server.url())?;
/// let settings = manager.read_write("settings");
/// let reading = settings.read().acquire().await?;
/// reading.release().await?;
/// let writing = settings.write().acquire().await?;
/// writing.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock is not held before it is acquired"]
pub struct ReadWriteLock {
    manager: Manager,
    name: Vec<u8>,
    writers_first: bool,
}

impl Manager {
    /// A read-write lock of this name. The writer stands where the holder of a plain lock of the
    /// name would, so [`Manager::inspect`] shows it; do not use both kinds under one name, since
    /// plain locks do not see readers.
    pub fn read_write(&self, name: impl AsRef<[u8]>) -> ReadWriteLock {
        ReadWriteLock {
            manager: self.clone(),
            name: name.as_ref().to_vec(),
            writers_first: true,
        }
    }
}

impl ReadWriteLock {
    /// Whether a reader that comes while others read lets a waiting writer go first. Otherwise
    /// it joins them, and an endless stream of readers keeps writers out for ever. Default: yes.
    pub fn writers_first(mut self, writers_first: bool) -> Self {
        self.writers_first = writers_first;
        self
    }

    /// Shared access.
    pub fn read(&self) -> Lock {
        self.manager.hold(self.mode(b'r'))
    }

    /// Exclusive access.
    pub fn write(&self) -> Lock {
        self.manager.hold(self.mode(b'w'))
    }

    fn mode(&self, mode: u8) -> Result<Scripted, Error> {
        let name = self.manager.name(&self.name)?;
        let (writer, readers) = (name.key().to_vec(), name.helper("readers"));
        let queue = name.helper("rw-queue");
        let mode = vec![mode];
        let writers_first = vec![if self.writers_first { b'1' } else { b'0' }];
        Ok(Scripted {
            acquire_keys: vec![
                writer.clone(),
                name.helper("fence"),
                queue.clone(),
                readers.clone(),
            ],
            extend_keys: vec![writer.clone(), readers.clone()],
            release_keys: vec![writer, queue, readers, name.helper("fence")],
            acquire_extra: vec![mode.clone(), writers_first],
            extend_extra: vec![mode.clone()],
            release_extra: vec![mode],
            ..self.manager.scripted(name, &scripts::READ_WRITE)
        })
    }
}
