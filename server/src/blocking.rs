//! Requests that wait for a key: a waiting client is its own request, run again.
//!
//! Waiters of a key are served oldest first and keep their place and their deadline while they
//! wait. The engine runs them again after whole commands, scripts and transactions only.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::{
    bytestr::ByteStr, clock::Time, command::Command, error::Error, keyspace::Touch, reply::Reply,
    session::ClientId,
};

/// What a handler returns instead of a reply.
#[derive(Clone, Debug)]
pub struct Wait {
    /// Any of these may end the wait when it changes; none for a wait that only time ends.
    pub keys: Vec<ByteStr>,
    /// `None` waits for ever.
    pub until: Option<Time>,
    pub on_timeout: OnTimeout,
    /// Does the request also end when a key goes away or changes its type (XREADGROUP)?
    pub on_loss: bool,
    /// The request to run again, where the one that came would then mean something else: the
    /// `$` of XREAD is the end of the stream as it was.
    pub args: Option<Vec<Vec<u8>>>,
}

/// The reply when time is up, or when the request may not wait at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTimeout {
    Null,
    NullArray,
    Integer(i64),
    Pair(i64, i64),
}

impl OnTimeout {
    pub fn write(self, reply: &mut dyn Reply) {
        match self {
            OnTimeout::Null => reply.null(),
            OnTimeout::NullArray => reply.null_array(),
            OnTimeout::Integer(value) => reply.integer(value),
            OnTimeout::Pair(one, other) => {
                reply.array(2);
                reply.integer(one);
                reply.integer(other);
            }
        }
    }
}

/// A request that waits, kept by its session.
pub struct Waiting {
    pub command: &'static Command,
    pub args: Vec<Vec<u8>>,
    pub db: usize,
    pub wait: Wait,
    pub since: Time,
}

impl Waiting {
    /// Bytes of the request's arguments.
    pub fn args_size(&self) -> usize {
        self.args.iter().map(Vec::len).sum()
    }

    /// The type of value that can end the wait, as TYPE names it.
    pub fn awaited(&self) -> &'static str {
        match self.command.group {
            "sorted-set" => "zset",
            group => group,
        }
    }
}

/// A key that changed, and who waits for it.
pub struct Ready {
    pub db: usize,
    pub key: ByteStr,
    pub touch: Touch,
    pub waiting: Vec<ClientId>,
}

/// Who waits for what.
#[derive(Default)]
pub struct Waiters {
    queues: HashMap<(usize, ByteStr), VecDeque<ClientId>>,
    deadlines: BTreeSet<(Time, ClientId)>,
    /// Keys that changed and are waited for, in the order of their changes.
    ready: VecDeque<(usize, ByteStr)>,
    /// The same keys, each once, and how they changed.
    noted: HashMap<(usize, ByteStr), Touch>,
    len: usize,
}

impl Waiters {
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many clients wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many wait with a deadline.
    pub fn timed(&self) -> usize {
        self.deadlines.len()
    }

    /// How many keys are waited for.
    pub fn keys(&self) -> usize {
        self.queues.len()
    }

    pub fn add(&mut self, id: ClientId, db: usize, wait: &Wait) {
        self.len += 1;
        for key in &wait.keys {
            let queue = self.queues.entry((db, key.clone())).or_default();
            // The same key may be named twice.
            if queue.back() != Some(&id) {
                queue.push_back(id);
            }
        }
        if let Some(until) = wait.until {
            self.deadlines.insert((until, id));
        }
    }

    pub fn remove(&mut self, id: ClientId, waiting: &Waiting) {
        self.len -= 1;
        for key in &waiting.wait.keys {
            let key = (waiting.db, key.clone());
            if let Some(queue) = self.queues.get_mut(&key) {
                queue.retain(|&other| other != id);
                if queue.is_empty() {
                    self.queues.remove(&key);
                }
            }
        }
        if let Some(until) = waiting.wait.until {
            self.deadlines.remove(&(until, id));
        }
    }

    /// Notes that a key changed, if anybody waits for it.
    pub fn key_touched(&mut self, db: usize, key: &ByteStr, touch: Touch) {
        let named = (db, key.clone());
        if self.queues.contains_key(&named) {
            self.note(named, touch);
        }
    }

    fn note(&mut self, named: (usize, ByteStr), touch: Touch) {
        match self.noted.get_mut(&named) {
            Some(noted) if touch == Touch::Changed => *noted = touch,
            Some(_) => {}
            None => {
                self.noted.insert(named.clone(), touch);
                self.ready.push_back(named);
            }
        }
    }

    /// Notes that all keys of a database may have changed.
    pub fn database_changed(&mut self, db: usize) {
        let mut named: Vec<_> = self
            .queues
            .keys()
            .filter(|(waited, _)| *waited == db)
            .cloned()
            .collect();
        named.sort();
        for key in named {
            self.note(key, Touch::Changed);
        }
    }

    /// The next changed key with those who wait for it, oldest first.
    pub fn next_ready(&mut self) -> Option<Ready> {
        loop {
            let named = self.ready.pop_front()?;
            let touch = self.noted.remove(&named).unwrap_or(Touch::Changed);
            if let Some(queue) = self.queues.get(&named) {
                let waiting = queue.iter().copied().collect();
                let (db, key) = named;
                return Some(Ready {
                    db,
                    key,
                    touch,
                    waiting,
                });
            }
        }
    }

    /// The earliest deadline of a wait.
    pub fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|&(until, _)| until)
    }

    /// A client whose wait is over at `now`, the longest overdue first.
    pub fn overdue(&self, now: Time) -> Option<ClientId> {
        self.deadlines
            .first()
            .filter(|&&(until, _)| until <= now)
            .map(|&(_, id)| id)
    }
}

/// Reads the timeout of a blocking command: seconds with a fraction, 0 for no end.
pub fn parse_timeout(arg: &[u8], now: Time) -> Result<Option<Time>, Error> {
    const NOT_A_FLOAT: Error = Error::text("ERR timeout is not a float or out of range");
    const NEGATIVE: Error = Error::text("ERR timeout is negative");
    const TOO_FAR: Error = Error::text("ERR timeout is out of range");
    let seconds = crate::extended::Extended::parse(arg).ok_or(NOT_A_FLOAT)?;
    let millis = seconds.to_millis_up();
    if millis < 0.0 {
        return Err(NEGATIVE);
    }
    if millis > i64::MAX as f64 / 1000.0 - now.millis() as f64 {
        return Err(TOO_FAR);
    }
    if millis == 0.0 {
        return Ok(None);
    }
    Ok(Some(Time(now.0 + millis as u64 * 1000)))
}

/// Reads the timeout of a blocking command in milliseconds, 0 for no end.
pub fn parse_timeout_ms(arg: &[u8], now: Time) -> Result<Option<Time>, Error> {
    const NOT_AN_INTEGER: Error = Error::text("ERR timeout is not an integer or out of range");
    let millis = crate::number::parse_i64(arg).ok_or(NOT_AN_INTEGER)?;
    let millis = u64::try_from(millis).map_err(|_| Error::text("ERR timeout is negative"))?;
    if millis == 0 {
        return Ok(None);
    }
    let until = millis
        .checked_mul(1000)
        .and_then(|micros| micros.checked_add(now.0));
    until
        .map(|until| Some(Time(until)))
        .ok_or(Error::text("ERR timeout is out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_that_is_hardly_more_than_none_still_is_one() {
        let now = Time::from_millis(1000);
        let soon = Some(Time::from_millis(1001));
        for text in ["0.001", "1e-9", "1e-400", "0x1p-16000"] {
            assert_eq!(parse_timeout(text.as_bytes(), now), Ok(soon), "{text}");
        }
        for text in ["0", "0x0p-99999", "-0.0001"] {
            assert_eq!(parse_timeout(text.as_bytes(), now), Ok(None), "{text}");
        }
    }
}
