//! Looks at locks from outside: who holds one, since when, until when, and how many wait.

use std::time::{Duration, SystemTime};

use redis::Value;

use crate::connection::Shard;
use crate::error::Error;
use crate::manager::Manager;
use crate::name::Name;
use crate::resource::{TURN_KEPT, millis};
use crate::scripts;
use crate::token::TOKEN_LEN;

/// How many keys one step of a listing asks the server to look at.
const SCAN_STEP: usize = 500;

/// What can be seen of a held lock. It is a picture of one moment on the server, for people and
/// dashboards; a program that decides by it races with the holder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The key, as it is on the server.
    pub key: Vec<u8>,
    /// What the holder calls itself; by default host name and process id.
    pub label: Vec<u8>,
    /// Its fencing token; `None` while a turn is kept for a waiter that was just woken, and for
    /// a lock that another library holds.
    pub fencing_token: Option<u64>,
    /// When it was acquired, by the server's clock, to be shown and not to be compared.
    pub since: Option<SystemTime>,
    /// How long it has been held, by the server's clock.
    pub held_for: Option<Duration>,
    /// How long the lease still lasts; `None` when it never ends (a foreign lock without TTL).
    pub remaining: Option<Duration>,
    /// How many wait in the lock's queue.
    pub waiting: u64,
}

impl Manager {
    /// Who holds a lock, if anyone does.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn inspect(&self, name: impl AsRef<[u8]>) -> Result<Option<Holder>, Error> {
        self.look(&self.name(name)?).await
    }

    /// The held locks whose names begin with these bytes, at most `limit` of them.
    ///
    /// It walks the whole keyspace in small steps, as `SCAN` does, so it misses no lock that is
    /// held all the while; one that is acquired or released meanwhile may be in the list or not.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn holders(
        &self,
        beginning: impl AsRef<[u8]>,
        limit: usize,
    ) -> Result<Vec<Holder>, Error> {
        let prefix = [self.prefix().as_bytes(), beginning.as_ref()].concat();
        let pattern = [&escape_glob(&prefix)[..], b"*"].concat();
        let node = self.node();
        let servers = node
            .link()
            .servers()
            .await
            .map_err(Error::backend(node.index()))?;
        let mut found = Vec::new();
        for server in servers {
            self.holders_on(server, &pattern, limit, &mut found).await?;
        }
        Ok(found)
    }

    async fn holders_on(
        &self,
        server: Option<Shard>,
        pattern: &[u8],
        limit: usize,
        found: &mut Vec<Holder>,
    ) -> Result<(), Error> {
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor)
                .arg("MATCH")
                .arg(pattern)
                .arg("COUNT")
                .arg(SCAN_STEP);
            let reply = self.node().send_to(server, scan.arg("TYPE").arg("string"));
            let (next, keys): (u64, Vec<Vec<u8>>) = self.node().read(reply.await?)?;
            for key in keys {
                if found.len() == limit {
                    return Ok(());
                }
                // Helper keys begin with a brace or hold no token, and a key seen twice is one lock.
                if found.iter().any(|holder: &Holder| holder.key == key) {
                    continue;
                }
                let Ok(name) = Name::new(b"", &key) else {
                    continue;
                };
                found.extend(
                    self.look(&name)
                        .await?
                        .filter(|h| h.fencing_token.is_some()),
                );
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// Takes a lock from whoever holds it; true if anyone did.
    ///
    /// The holder is not asked and learns of it only by its next renewal, so both may work at the
    /// same time: for an operator who knows that the holder is dead.
    ///
    /// # Cancel safety
    /// Dropping the future may or may not have released the lock.
    pub async fn force_release(&self, name: impl AsRef<[u8]>) -> Result<bool, Error> {
        let name = self.name(name)?;
        let keys = [
            name.key().to_vec(),
            name.helper("queue"),
            name.helper("fence"),
        ];
        let (turn, kept) = (millis(TURN_KEPT), millis(self.fence_kept()));
        let node = self.node();
        node.read(
            node.run(
                &scripts::FORCE_RELEASE,
                &keys,
                &[turn.as_bytes(), kept.as_bytes()],
                None,
            )
            .await?,
        )
    }

    async fn look(&self, name: &Name) -> Result<Option<Holder>, Error> {
        let keys = [name.key().to_vec(), name.helper("queue")];
        let node = self.node();
        let reply = node.run(&scripts::INSPECT, &keys, &[], None).await?;
        let (value, left, waiting, now): (Value, i64, u64, u64) = node.read(reply)?;
        let value: Option<Vec<u8>> = node.read(value)?;
        Ok(value.map(|value| describe(name.key(), &value, left, waiting, now)))
    }
}

/// Reads `token fence since label`; another library's value has none of it.
fn describe(key: &[u8], value: &[u8], left: i64, waiting: u64, now: u64) -> Holder {
    let mut parts = value.splitn(4, |byte| *byte == b' ');
    let ours = parts.next().is_some_and(|token| token.len() == TOKEN_LEN);
    let mut number = || {
        parts
            .next()
            .filter(|_| ours)
            .and_then(parse)
            .filter(|n| *n > 0)
    };
    let (fencing_token, since) = (number(), number());
    Holder {
        key: key.to_vec(),
        label: parts.next().filter(|_| ours).unwrap_or_default().to_vec(),
        fencing_token,
        since: since.map(|ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms)),
        held_for: since.map(|ms| Duration::from_millis(now.saturating_sub(ms))),
        remaining: u64::try_from(left).ok().map(Duration::from_millis),
        waiting,
    }
}

fn parse(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The bytes as a pattern that matches only themselves.
fn escape_glob(bytes: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(bytes.len());
    for byte in bytes {
        if b"*?[]\\^-".contains(byte) {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_lock_is_shown_without_what_its_value_does_not_say() {
        let holder = describe(b"k", b"some other library's token", -1, 0, 5);
        assert_eq!(holder.fencing_token, None);
        assert_eq!(holder.since, None);
        assert_eq!(holder.remaining, None);
        assert_eq!(holder.label, b"");
    }

    #[test]
    fn a_label_may_contain_spaces() {
        let value = [&[b'a'; 32][..], b" 7 1000 night shift, host 3"].concat();
        let holder = describe(b"k", &value, 50, 2, 1500);
        assert_eq!(holder.label, b"night shift, host 3");
        assert_eq!(holder.fencing_token, Some(7));
        assert_eq!(holder.held_for, Some(Duration::from_millis(500)));
        assert_eq!(holder.remaining, Some(Duration::from_millis(50)));
    }

    #[test]
    fn a_prefix_with_glob_characters_matches_only_itself() {
        assert_eq!(escape_glob(b"a*[b]?\\"), b"a\\*\\[b\\]\\?\\\\");
    }
}
