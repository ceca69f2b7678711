//! What a test may do directly: commands without a client, faults, subscribers, counters.
//!
//! Everything goes through the same engine and the same call path as the wire, so what a test
//! sets up here is what a client finds, and a waiting client is served by it.

use std::{
    fmt::Write,
    sync::{Arc, mpsc},
    time::Duration,
};

use tokio::io::DuplexStream;

use crate::{
    answer::Answer,
    bytestr::ByteStr,
    connection,
    faults::{Fault, Rule},
    pubsub::Message,
    reply::Protocol,
    server::Server,
    session::{ClientId, Handle},
    shared::Shared,
};

/// How much an in-memory stream holds in either direction before its writer waits, in bytes.
const STREAM_BUFFER: usize = 64 * 1024;

impl Server {
    /// A connection that never leaves the process. Its other end is served by a task of the
    /// caller's Tokio runtime if there is one, so that both may share one paused runtime, and by
    /// the server's own threads otherwise.
    pub fn stream(&self) -> DuplexStream {
        let (near, far) = tokio::io::duplex(STREAM_BUFFER);
        let serve = |handle: Handle| {
            let shared = self.shared.clone();
            connection::serve(far, shared, Arc::new(handle), String::new(), String::new())
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(serve(self.shared.new_handle(true)))),
            Err(_) => self.spawn(serve(self.shared.new_handle(false))),
        }
        near
    }

    /// Runs a command in database 0 as a client would, without a connection. A blocking command
    /// answers at once, as in a transaction. No fault strikes it.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let server = khoa_server::Server::start()?;
    /// server.run(["SET", "order:7", "paid"]);
    /// assert_eq!(server.run(["GET", "order:7"]), "paid");
    /// # Ok(())
    /// # }
    /// ```
    pub fn run<A: AsRef<[u8]>>(&self, args: impl IntoIterator<Item = A>) -> Answer {
        self.db(0).run(args)
    }

    /// Direct access to one of the databases. One that does not exist answers with errors.
    pub fn db(&self, number: usize) -> Db<'_> {
        Db {
            shared: &self.shared,
            number,
        }
    }

    /// Every command of every client fails with this error from now on; the code comes first,
    /// such as `LOADING try again`. See [`Server::clear_faults`].
    pub fn fail_with(&self, error: &str) {
        self.inject(Fault::Error(error.to_owned()));
    }

    /// Lets a fault strike all commands, until [`Server::clear_faults`].
    pub fn inject(&self, fault: Fault) {
        self.add_rule(Rule {
            command: None,
            fault,
            times: None,
        });
    }

    /// Lets a fault strike one command, by its name in any case, for so many calls.
    pub fn inject_on(&self, command: &str, fault: Fault, times: u64) {
        self.add_rule(Rule {
            command: Some(command.to_owned()),
            fault,
            times: Some(times),
        });
    }

    /// Ends all faults.
    pub fn clear_faults(&self) {
        self.shared.lock().faults.clear();
    }

    /// Cuts every connection; new ones are taken as before.
    pub fn kill_clients(&self) {
        if let Some(mut engine) = self.shared.lock_unless_busy() {
            self.shared.kill_clients(&mut engine);
            return self.shared.unlock(engine);
        }
        // A script has the engine to itself.
        for client in &self.shared.clients {
            client.kill();
        }
    }

    /// New connections must give this password first; `None` takes it away.
    pub fn require_auth(&self, password: Option<&str>) {
        let mut engine = self.shared.lock();
        let password = password.unwrap_or_default();
        // Any text is a password, so this cannot be refused.
        let _ = engine.config.set("requirepass", password);
        engine.users.set_default_password(password.as_bytes());
    }

    /// Makes what is random (RANDOMKEY, SPOP …) go on in a way that repeats.
    pub fn seed(&self, seed: u64) {
        self.shared.lock().random = crate::random::Random::seeded(seed);
    }

    /// Subscribes to channels without a connection.
    pub fn subscribe<A: AsRef<[u8]>>(&self, channels: impl IntoIterator<Item = A>) -> Subscriber {
        self.subscriber(channels, |session| &mut session.channels)
    }

    /// Subscribes to patterns without a connection.
    pub fn psubscribe<A: AsRef<[u8]>>(&self, patterns: impl IntoIterator<Item = A>) -> Subscriber {
        self.subscriber(patterns, |session| &mut session.patterns)
    }

    /// Sends a message and tells how many received it.
    pub fn publish(&self, channel: impl AsRef<[u8]>, payload: impl AsRef<[u8]>) -> usize {
        let mut engine = self.shared.lock();
        let receivers = engine.publish(channel.as_ref(), payload.as_ref());
        self.shared.unlock(engine);
        receivers
    }

    /// Commands run since the start, those of scripts and transactions included.
    pub fn commands_processed(&self) -> u64 {
        self.shared.lock().stats.commands.total()
    }

    /// How often a command ran, by its name in lower case.
    pub fn calls_of(&self, command: &str) -> u64 {
        let engine = self.shared.lock();
        let stats = engine
            .stats
            .by_command()
            .find(|(row, _)| row.name == command);
        stats.map_or(0, |(_, stats)| stats.calls)
    }

    /// Connections that are open now.
    pub fn connected_clients(&self) -> usize {
        self.shared.clients.len()
    }

    /// Connections that were ever accepted.
    pub fn connections_received(&self) -> u64 {
        self.shared.lock().stats.connections
    }

    /// Clients that wait in a blocking command now.
    pub fn blocked_clients(&self) -> usize {
        self.shared.lock().waiters.len()
    }

    fn add_rule(&self, rule: Rule) {
        self.shared.lock().faults.add(rule);
    }

    fn subscriber<A: AsRef<[u8]>>(
        &self,
        names: impl IntoIterator<Item = A>,
        kind: impl Fn(&mut crate::session::Session) -> &mut std::collections::HashSet<ByteStr>,
    ) -> Subscriber {
        let (sender, messages) = mpsc::channel();
        let mut engine = self.shared.lock();
        let id = engine.connect(Arc::default(), String::new(), String::new());
        let engine = &mut *engine;
        if let Some(session) = engine.sessions.get_mut(id) {
            session.local = Some(sender);
            kind(session).extend(names.into_iter().map(|name| ByteStr::new(name.as_ref())));
            for channel in &session.channels {
                engine.pubsub.channels.add(channel, id);
            }
            for pattern in &session.patterns {
                engine.pubsub.patterns.add(pattern, id);
            }
        }
        Subscriber {
            shared: self.shared.clone(),
            id,
            messages,
        }
    }
}

/// Direct access to a database.
pub struct Db<'a> {
    shared: &'a Arc<Shared>,
    number: usize,
}

impl Db<'_> {
    /// As [`Server::run`], in this database.
    pub fn run<A: AsRef<[u8]>>(&self, args: impl IntoIterator<Item = A>) -> Answer {
        let args: Vec<A> = args.into_iter().collect();
        let args: Vec<&[u8]> = args.iter().map(AsRef::as_ref).collect();
        let mut out = Vec::new();
        let mut engine = self.shared.lock();
        if self.number >= engine.keys.databases() {
            return Answer::Error("ERR DB index is out of range".to_owned());
        }
        let id = engine.connect(Arc::<Handle>::default(), String::new(), String::new());
        engine.stats.connections -= 1;
        if let Some(mut session) = engine.sessions.take(id) {
            session.authenticated = true;
            session.protocol = Protocol::Resp3;
            session.db = self.number;
            session.deny_blocking = true;
            engine.execute(&mut session, &args, &mut out, true);
            engine.sessions.put(session);
        }
        engine.disconnect(id);
        self.shared.unlock(engine);
        Answer::parse(&out).map_or_else(|| Answer::Error("ERR no reply".to_owned()), |(it, _)| it)
    }

    /// The string at a key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        self.run([b"GET".as_slice(), key.as_ref()]).into_bytes()
    }

    /// Stores a string, without a deadline.
    pub fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.run([b"SET".as_slice(), key.as_ref(), value.as_ref()]);
    }

    /// Deletes a key and tells whether there was one.
    pub fn del(&self, key: impl AsRef<[u8]>) -> bool {
        self.run([b"DEL".as_slice(), key.as_ref()]) == 1
    }

    /// Is there such a key?
    pub fn exists(&self, key: impl AsRef<[u8]>) -> bool {
        self.run([b"EXISTS".as_slice(), key.as_ref()]) == 1
    }

    /// The time that a key has left; `None` when it has no deadline or does not exist.
    pub fn ttl(&self, key: impl AsRef<[u8]>) -> Option<Duration> {
        let millis = self
            .run([b"PTTL".as_slice(), key.as_ref()])
            .into_integer()?;
        u64::try_from(millis).ok().map(Duration::from_millis)
    }

    /// Gives a key a deadline so far away, in whole milliseconds; false when there is no key.
    pub fn set_ttl(&self, key: impl AsRef<[u8]>, ttl: Duration) -> bool {
        let millis = ttl.as_millis().to_string();
        self.run([b"PEXPIRE".as_slice(), key.as_ref(), millis.as_bytes()]) == 1
    }

    /// All keys, sorted.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let mut keys = self.run(["KEYS", "*"]).into_list();
        keys.sort();
        keys
    }

    /// The name of a key's type as TYPE gives it; `None` when there is no such key.
    pub fn type_of(&self, key: impl AsRef<[u8]>) -> Option<String> {
        let name = self.run([b"TYPE".as_slice(), key.as_ref()]).into_bytes()?;
        (name != b"none").then(|| String::from_utf8_lossy(&name).into_owned())
    }

    /// Adds an element at the end of a list.
    pub fn push(&self, key: impl AsRef<[u8]>, element: impl AsRef<[u8]>) {
        self.run([b"RPUSH".as_slice(), key.as_ref(), element.as_ref()]);
    }

    /// All elements of a list.
    pub fn list(&self, key: impl AsRef<[u8]>) -> Vec<Vec<u8>> {
        self.run([b"LRANGE".as_slice(), key.as_ref(), b"0", b"-1"])
            .into_list()
    }

    /// Deletes every key of the database.
    pub fn flush(&self) {
        self.run(["FLUSHDB"]);
    }

    /// The whole database as text, a line a key in order, for looking at when a test fails.
    pub fn dump(&self) -> String {
        let mut text = String::new();
        for key in self.keys() {
            let kind = self.type_of(&key).unwrap_or_default();
            let content = match kind.as_str() {
                "string" => self.run([b"GET".as_slice(), &key]),
                "list" => self.run([b"LRANGE".as_slice(), &key, b"0", b"-1"]),
                "hash" => self.run([b"HGETALL".as_slice(), &key]),
                "set" => self.run([b"SMEMBERS".as_slice(), &key]),
                "zset" => self.run([b"ZRANGE".as_slice(), &key, b"0", b"-1", b"WITHSCORES"]),
                _ => self.run([b"XRANGE".as_slice(), &key, b"-", b"+"]),
            };
            let _ = write!(text, "{} ({kind}", key.escape_ascii());
            if let Some(ttl) = self.ttl(&key) {
                let _ = write!(text, ", {} ms left", ttl.as_millis());
            }
            let _ = writeln!(text, ") {content}");
        }
        text
    }
}

/// Receives messages without a connection. Dropping it ends the subscription.
pub struct Subscriber {
    shared: Arc<Shared>,
    id: ClientId,
    messages: mpsc::Receiver<Message>,
}

impl Subscriber {
    /// The next message that has arrived already.
    pub fn try_next(&self) -> Option<Message> {
        self.messages.try_recv().ok()
    }

    /// The next message, waiting for it at most so long, by the real clock.
    pub fn next_within(&self, timeout: Duration) -> Option<Message> {
        self.messages.recv_timeout(timeout).ok()
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.shared.lock().disconnect(self.id);
    }
}
