//! Clients as CLIENT LIST and INFO show them, and the filters that choose among them.

use std::{
    collections::HashSet,
    fmt::Write,
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::{
    blocking::Waiting,
    clock::Time,
    command::{Options, is_word},
    engine::Engine,
    error::Error,
    number,
    reply::Protocol,
    session::Session,
};

/// Appends the line that describes a client. `argv` is what its present request occupies.
pub fn describe(line: &mut Vec<u8>, session: &Session, engine: &Engine, argv: usize) {
    let now = engine.keys.now();
    let mut text = String::new();
    let seconds = |since: Time| now.seconds().saturating_sub(since.seconds());
    let multi = match session.queued() {
        Some(queued) => queued as i64,
        None if session.knows_transactions => 0,
        None => -1,
    };
    let argv = argv + session.waiting.as_ref().map_or(0, Waiting::args_size);
    let figures = Figures::of(session);
    let name = |name| String::from_utf8_lossy(number::before_zero(name));
    let _ = write!(
        text,
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} capa={} db={} \
        sub={} psub={} ssub={} multi={multi} watch={} qbuf={} qbuf-free={} argv-mem={argv} \
        multi-mem={} rbs={} rbp={} obl={} oll={} omem={} tot-mem={} \
        events={} cmd={} user={} redir={} resp={} lib-name={} lib-ver={} \
        tot-net-in={} tot-net-out={} tot-cmds={}",
        session.id.number,
        session.addr,
        session.laddr,
        session.handle.socket.unwrap_or(-1),
        name(&session.name),
        seconds(session.created),
        seconds(session.last_active),
        flags(session, engine),
        capabilities(session),
        session.db,
        session.channels.len(),
        session.patterns.len(),
        session.shard_channels.len(),
        session.watched.len(),
        figures.unread,
        figures.input_room,
        session.queue_size(),
        figures.output_room,
        figures.output_room,
        figures.unwritten,
        usize::from(figures.outbox > 0),
        figures.outbox,
        size_of::<Session>() + figures.sum() + session.queue_size() + argv,
        if session.unread() > 0 { "rw" } else { "r" },
        session.last_command.map_or("NULL", |command| command.name),
        session.user,
        redirection(session, engine),
        match session.protocol {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        },
        name(&session.lib_name),
        name(&session.lib_ver),
        session.bytes_in + figures.unread as u64,
        session.bytes_out,
        session.commands,
    );
    line.extend_from_slice(text.as_bytes());
    line.push(b'\n');
}

/// What a client's buffers hold and have room for, in bytes.
struct Figures {
    unread: usize,
    input_room: usize,
    output_room: usize,
    unwritten: usize,
    outbox: usize,
}

impl Figures {
    fn of(session: &Session) -> Figures {
        let handle = &session.handle;
        let read = |figure: &AtomicUsize| figure.load(Ordering::Relaxed);
        Figures {
            unread: read(&handle.unread),
            input_room: read(&handle.input_room),
            output_room: read(&handle.output_room),
            unwritten: read(&handle.unwritten),
            outbox: session.outbox.len(),
        }
    }

    fn sum(&self) -> usize {
        self.unread + self.input_room + self.output_room + self.outbox
    }
}

/// Every letter that a client may be marked with.
const FLAGS: &str = "bcdeirtuxABEIMNOPRSTU";

fn flags(session: &Session, engine: &Engine) -> String {
    let mode = engine.tracking.mode(session.id).unwrap_or_default();
    let marks = [
        ('O', session.monitor),
        ('P', session.subscriptions() > 0),
        ('x', session.queued().is_some()),
        ('b', session.waiting.is_some() || session.postponed),
        ('t', session.tracking),
        ('R', mode.broken),
        ('B', mode.broadcast),
        ('d', session.watch_tripped),
        ('c', session.closing),
        ('U', session.is_local_socket()),
        ('e', session.no_evict),
        ('T', session.no_touch),
    ];
    let text: String = marks
        .into_iter()
        .filter_map(|(letter, set)| set.then_some(letter))
        .collect();
    if text.is_empty() {
        "N".to_owned()
    } else {
        text
    }
}

/// The client that gets its tracking messages: 0 for itself, -1 when it does not track.
pub fn redirection(session: &Session, engine: &Engine) -> i64 {
    match engine.tracking.mode(session.id) {
        Some(mode) => mode.redirect.map_or(0, |number| number as i64),
        None => -1,
    }
}

fn capabilities(session: &Session) -> &'static str {
    if session.follows_redirects { "r" } else { "" }
}

/// The kinds of clients that TYPE tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Normal,
    Replica,
    Primary,
    Subscriber,
}

impl Type {
    fn parse(word: &[u8]) -> Result<Type, Error> {
        let known = [
            ("normal", Type::Normal),
            ("slave", Type::Replica),
            ("replica", Type::Replica),
            ("master", Type::Primary),
            ("primary", Type::Primary),
            ("pubsub", Type::Subscriber),
        ];
        known
            .into_iter()
            .find(|(name, _)| is_word(word, name))
            .map(|(_, found)| found)
            .ok_or_else(|| Error::owned([b"ERR Unknown client type '", word, b"'"].concat()))
    }

    fn of(session: &Session) -> Type {
        if session.subscriptions() > 0 {
            Type::Subscriber
        } else {
            Type::Normal
        }
    }
}

/// One test of a client.
enum Test {
    Ids(HashSet<u64>),
    Type(Type),
    User(Vec<u8>),
    Addr(Vec<u8>),
    LocalAddr(Vec<u8>),
    Ip(Vec<u8>),
    Name(Vec<u8>),
    LibName(Vec<u8>),
    LibVersion(Vec<u8>),
    Database(usize),
    Flags(Vec<u8>),
    Capabilities,
    /// In seconds.
    Idle(u64),
}

/// What CLIENT LIST and CLIENT KILL ask of a client: all tests must hold.
pub struct Filter {
    tests: Vec<(bool, Test)>,
    /// Leaves out clients younger than this, in seconds.
    max_age: Option<u64>,
    /// Leaves out the client that asks.
    pub skip_me: bool,
}

impl Filter {
    /// Reads pairs of a word and a value.
    pub fn parse(
        mut options: Options<'_>,
        skip_me: bool,
        engine: &Engine,
    ) -> Result<Filter, Error> {
        let mut filter = Filter {
            tests: Vec::new(),
            max_age: None,
            skip_me,
        };
        while let Some(word) = options.next() {
            if is_word(word, "SKIPME") {
                filter.skip_me = yes_or_no(options.value()?)?;
            } else if is_word(word, "MAXAGE") {
                filter.max_age = Some(at_least_one(options.value()?, "maxage")?);
            } else {
                let negated = word.len() > 4 && is_word(&word[..4], "NOT-");
                let name = if negated { &word[4..] } else { word };
                let test = parse_test(name, negated, &mut options, engine)?;
                filter.add(!negated, test);
            }
        }
        Ok(filter)
    }

    /// Ids given in several places add up; of any other test the last one holds.
    fn add(&mut self, wanted: bool, mut test: Test) {
        self.tests.retain_mut(|(other_wanted, other)| {
            let same = *other_wanted == wanted
                && std::mem::discriminant(other) == std::mem::discriminant(&test);
            if let (true, Test::Ids(ids), Test::Ids(more)) = (same, other, &mut test) {
                more.extend(ids.drain());
            }
            !same
        });
        self.tests.push((wanted, test));
    }

    /// Do all tests hold for a client?
    pub fn accepts(&self, session: &Session, engine: &Engine) -> bool {
        let now = engine.keys.now();
        let age = now.seconds().saturating_sub(session.created.seconds());
        self.max_age.is_none_or(|max_age| age >= max_age)
            && self
                .tests
                .iter()
                .all(|(wanted, test)| test.holds(session, engine) == *wanted)
    }
}

fn parse_test(
    word: &[u8],
    negated: bool,
    options: &mut Options<'_>,
    engine: &Engine,
) -> Result<Test, Error> {
    if is_word(word, "ID") {
        return parse_ids(options).map(Test::Ids);
    }
    let value = options.value()?;
    let text = || value.to_vec();
    Ok(match () {
        () if is_word(word, "TYPE") => Test::Type(Type::parse(value)?),
        () if is_word(word, "USER") => Test::User(known_user(value, engine)?),
        () if is_word(word, "ADDR") => Test::Addr(text()),
        () if is_word(word, "LADDR") => Test::LocalAddr(text()),
        () if is_word(word, "IP") => Test::Ip(text()),
        () if is_word(word, "NAME") => Test::Name(text()),
        () if is_word(word, "LIB-NAME") => Test::LibName(text()),
        () if is_word(word, "LIB-VER") => Test::LibVersion(text()),
        () if is_word(word, "DB") => Test::Database(known_database(value, engine)?),
        () if is_word(word, "FLAGS") => Test::Flags(known_letters(value, FLAGS, "flags")?),
        () if is_word(word, "CAPA") => {
            known_letters(value, "r", "capa")?;
            Test::Capabilities
        }
        () if is_word(word, "IDLE") && !negated => Test::Idle(at_least_one(value, "idle")?),
        () => return Err(Error::SYNTAX),
    })
}

/// At least one number; what follows and is none belongs to the next filter.
fn parse_ids(options: &mut Options<'_>) -> Result<HashSet<u64>, Error> {
    let mut ids = HashSet::new();
    while let Some(id) = options.peek().and_then(number::parse_i64) {
        options.next();
        if id < 1 {
            return Err(Error::text("ERR client-id should be greater than 0"));
        }
        ids.insert(id as u64);
    }
    if ids.is_empty() {
        return Err(Error::SYNTAX);
    }
    Ok(ids)
}

fn yes_or_no(word: &[u8]) -> Result<bool, Error> {
    if is_word(word, "YES") {
        Ok(true)
    } else if is_word(word, "NO") {
        Ok(false)
    } else {
        Err(Error::SYNTAX)
    }
}

fn at_least_one(value: &[u8], name: &str) -> Result<u64, Error> {
    match number::parse_i64(value) {
        Some(number @ 1..) => Ok(number as u64),
        Some(_) => Err(Error::owned(format!("ERR {name} should be greater than 0"))),
        None => Err(Error::owned(format!(
            "ERR {name} is not an integer or out of range"
        ))),
    }
}

fn known_user(name: &[u8], engine: &Engine) -> Result<Vec<u8>, Error> {
    if engine.users.get(name).is_some() {
        return Ok(name.to_vec());
    }
    Err(Error::owned([b"ERR No such user '", name, b"'"].concat()))
}

fn known_database(value: &[u8], engine: &Engine) -> Result<usize, Error> {
    const NOT_A_NUMBER: Error = Error::text("ERR DB is not an integer or out of range");
    let number = number::parse_i64(value).ok_or(NOT_A_NUMBER)?;
    let databases = engine.keys.databases();
    usize::try_from(number)
        .ok()
        .filter(|&db| db < databases)
        .ok_or_else(|| {
            let last = databases - 1;
            Error::owned(format!("ERR DB number should be between 0 and {last}"))
        })
}

fn known_letters(value: &[u8], known: &str, what: &str) -> Result<Vec<u8>, Error> {
    if value
        .iter()
        .all(|&letter| known.contains(char::from(letter)))
    {
        return Ok(value.to_vec());
    }
    let text = format!("ERR Unknown {what} found in the provided filter: ");
    Err(Error::owned([text.as_bytes(), value].concat()))
}

impl Test {
    fn holds(&self, session: &Session, engine: &Engine) -> bool {
        match self {
            Test::Ids(ids) => ids.contains(&session.id.number),
            Test::Type(kind) => Type::of(session) == *kind,
            Test::User(name) => session.user.as_bytes() == name,
            Test::Addr(addr) => session.addr.as_bytes() == addr,
            Test::LocalAddr(addr) => session.laddr.as_bytes() == addr,
            Test::Ip(ip) => session.ip().as_bytes() == ip,
            // What has no name is found under no name, not even an empty one.
            Test::Name(name) => !name.is_empty() && session.name == *name,
            Test::LibName(name) => !name.is_empty() && session.lib_name == *name,
            Test::LibVersion(version) => !version.is_empty() && session.lib_ver == *version,
            Test::Database(db) => session.db == *db,
            Test::Flags(letters) => {
                let flags = flags(session, engine);
                letters
                    .iter()
                    .all(|&letter| flags.contains(char::from(letter)))
            }
            Test::Capabilities => session.follows_redirects,
            Test::Idle(seconds) => {
                let now = engine.keys.now().seconds();
                now.saturating_sub(session.last_active.seconds()) >= *seconds
            }
        }
    }
}
