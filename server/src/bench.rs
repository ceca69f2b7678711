//! What the benches in `server/bench` need of the inside; no part of what this crate promises.

use std::sync::Arc;

use crate::{
    clock::Time,
    config::Config,
    engine::Engine,
    keyspace::{Event, Keyspace, Ttl},
    resp,
    session::{Handle, Session},
    value::{
        StringValue, Value,
        limits::Limits,
        sorted_set::{ScoreBound, SortedSet},
    },
};

/// Milliseconds since 1970 at which everything here begins.
pub const START: u64 = 1_700_000_000_000;

/// Decodes all whole requests of the buffer as a connection does, and counts their arguments.
pub fn decode(mut buffer: &[u8]) -> usize {
    let limits = resp::Limits {
        bulk_len: 512 * 1024 * 1024,
        authenticated: true,
    };
    let mut decoder = resp::Decoder::default();
    let mut arguments = 0;
    while let Ok(Some(len)) = decoder.decode(buffer, limits) {
        arguments += decoder.args(buffer).len();
        buffer = &buffer[len..];
        decoder.next();
    }
    arguments
}

/// The keys of one database, behind their door.
pub struct Keys(Keyspace);

impl Keys {
    pub fn new() -> Keys {
        Keys(Keyspace::new(1, Time::from_millis(START)))
    }

    /// As `SET key token NX PXAT deadline`.
    pub fn take(&mut self, key: &[u8], token: &[u8], deadline: u64) -> bool {
        let value = || Value::String(StringValue::new(token));
        let ttl = Ttl::At(deadline);
        let taken = self.0.put_if(false, key, value, ttl, Event::string("set"));
        self.0.take_changes();
        taken
    }

    /// As `GET key`, but only the length of the value.
    pub fn read(&mut self, key: &[u8]) -> Option<usize> {
        match self.0.read(key) {
            Some(Value::String(value)) => Some(value.len()),
            _ => None,
        }
    }

    /// As `PEXPIREAT key deadline`.
    pub fn extend(&mut self, key: &[u8], deadline: u64) -> bool {
        let known = self
            .0
            .set_deadline(key, Some(deadline), Event::generic("expire"));
        self.0.take_changes();
        known
    }

    /// As `DEL key`.
    pub fn release(&mut self, key: &[u8]) -> bool {
        let known = self.0.delete(key, Event::generic("del"));
        self.0.take_changes();
        known
    }

    /// Lets all keys go whose deadline has passed at this moment, and tells how many are left.
    pub fn advance_to(&mut self, millis: u64) -> usize {
        self.0.set_now(Time::from_millis(millis));
        while !self.0.expire_due(1000) {}
        self.0.take_changes();
        self.0.len()
    }
}

impl Default for Keys {
    fn default() -> Keys {
        Keys::new()
    }
}

/// A sorted set by itself.
#[derive(Default)]
pub struct Scores(SortedSet);

impl Scores {
    /// As `ZADD`.
    pub fn add(&mut self, member: &[u8], score: f64) {
        self.0.insert(member, score, Limits::default());
    }

    /// As `ZREM`.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        self.0.remove(member).is_some()
    }

    /// As `ZRANK`.
    pub fn rank(&self, member: &[u8]) -> Option<usize> {
        Some(self.0.rank(member)?.0)
    }

    /// As `ZRANGE start start+count-1`, but only the sum of the scores.
    pub fn range(&self, start: usize, count: usize) -> f64 {
        self.0.range(start, count).map(|(_, score)| score).sum()
    }

    /// As `ZCOUNT min max`.
    pub fn count(&self, min: f64, max: f64) -> usize {
        let bound = |score| ScoreBound {
            score,
            exclusive: false,
        };
        self.0.ranks_by_score(bound(min), bound(max)).len()
    }
}

/// A client of an engine without a connection.
pub struct Client {
    engine: Engine,
    session: Box<Session>,
    reply: Vec<u8>,
}

impl Client {
    /// None never happens: a session that was just added is there.
    pub fn new() -> Option<Client> {
        let mut engine = Engine::new(Config::default(), Time::from_millis(START));
        let id = engine.connect(Arc::<Handle>::default(), String::new(), String::new());
        let session = engine.sessions.take(id)?;
        Some(Client {
            engine,
            session,
            reply: Vec::new(),
        })
    }

    /// Runs a request and returns its reply.
    pub fn run(&mut self, args: &[&[u8]]) -> &[u8] {
        self.reply.clear();
        self.engine
            .execute(&mut self.session, args, &mut self.reply, true);
        self.engine.end_turn();
        &self.reply
    }
}
