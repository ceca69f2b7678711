//! Runs Lua scripts for the engine: the cache of compiled scripts and the life of one run.
//!
//! The engine lends itself to a run as a [`Host`]; the script's commands go through it and
//! write their replies straight onto the Lua stack. Nothing here knows of keys or clients.
//! The Lua state is made when the first script comes.

mod control;
mod convert;
mod functions;
mod library;
mod lua;
mod numbers;
mod sandbox;
mod source;

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    fmt,
    sync::Arc,
};

use foldhash::quality::RandomState;
use sha1_smol::Sha1;

pub use control::{Control, Killer, Refusal, Running};
pub use functions::{Functions, Library, RestorePolicy};
use lua::{Machine, Position, Stack, Type};

use crate::{
    error::Error,
    reply::{Protocol, Reply},
    resp::split_words,
};

/// The default limit of what one Lua state may occupy, in bytes.
pub const MEMORY_LIMIT: usize = 512 << 20;

/// How many scripts that only `EVAL` brought stay cached.
pub const EVAL_SCRIPTS_MAX: usize = 500;

/// What a running script may ask of the server.
pub trait Host {
    /// Runs one command at the script's frozen time through the engine's one call path and
    /// writes exactly one reply, errors through [`Reply::error`].
    fn call(&mut self, args: &[&[u8]], reply: &mut dyn Reply);

    /// Writes a line to the server's log.
    fn log(&mut self, level: LogLevel, message: &[u8]);

    /// May the script's user run this command? None when there is no such command or its
    /// arguments are wrong.
    fn acl_check(&mut self, args: &[&[u8]]) -> Option<bool>;

    /// Called once, from within the run, when it has passed the busy threshold.
    fn on_busy(&mut self) {}

    /// Called time and again from within a run that has passed it.
    fn on_look(&mut self) {}

    /// What runs, for `FUNCTION STATS`; asked for once, when the run is long.
    fn describe(&self) -> Running {
        Running::default()
    }
}

/// The levels of `redis.log`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    Debug,
    Verbose,
    Notice,
    Warning,
}

/// What natives keep between their calls.
#[derive(Default)]
pub struct Session {
    /// What `redis.setresp` chose for this run.
    resp: Protocol2,
    random: library::maths::Random,
    /// What the run set in `cjson`.
    json: library::json::Settings,
    /// The functions of the library that is being loaded; none at other times.
    registered: RefCell<Option<Vec<functions::Registered>>>,
}

impl Session {
    fn begin_load(&self) {
        self.registered.replace(Some(Vec::new()));
    }

    fn is_loading(&self) -> bool {
        self.registered.borrow().is_some()
    }

    fn register(&self, function: functions::Registered) {
        if let Some(registered) = &mut *self.registered.borrow_mut() {
            registered.push(function);
        }
    }

    fn end_load(&self) -> Vec<functions::Registered> {
        self.registered.take().unwrap_or_default()
    }
}

/// The protocol of a run, RESP2 unless the script chooses otherwise.
struct Protocol2(Cell<Protocol>);

impl Default for Protocol2 {
    fn default() -> Self {
        Protocol2(Cell::new(Protocol::Resp2))
    }
}

impl std::ops::Deref for Protocol2 {
    type Target = Cell<Protocol>;

    fn deref(&self) -> &Cell<Protocol> {
        &self.0
    }
}

/// The SHA-1 of a script's source, in lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha([u8; 40]);

impl Sha {
    pub fn of(source: &[u8]) -> Sha {
        let mut hex = [0; 40];
        let digest = Sha1::from(source).digest().bytes();
        for (pair, byte) in hex.chunks_exact_mut(2).zip(digest) {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        Sha(hex)
    }

    /// Reads hexadecimal digits of either case.
    pub fn parse(text: &[u8]) -> Option<Sha> {
        let mut hex: [u8; 40] = text.try_into().ok()?;
        hex.make_ascii_lowercase();
        Some(Sha(hex))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// What the first line of a script, `#!lua flags=…`, says of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Is there such a line? Without one a script is taken as in old times: it may write, and
    /// each of its commands is checked by itself.
    pub declared: bool,
    pub no_writes: bool,
    pub allow_oom: bool,
    pub allow_stale: bool,
    pub no_cluster: bool,
    pub allow_cross_slot_keys: bool,
}

impl Flags {
    /// The names of those that are set.
    pub fn names(self) -> Vec<&'static str> {
        [
            (self.no_writes, "no-writes"),
            (self.allow_oom, "allow-oom"),
            (self.allow_stale, "allow-stale"),
            (self.no_cluster, "no-cluster"),
            (self.allow_cross_slot_keys, "allow-cross-slot-keys"),
        ]
        .into_iter()
        .filter(|(is_set, _)| *is_set)
        .map(|(_, name)| name)
        .collect()
    }

    /// Adds a flag by its name; says no to an unknown one.
    fn add(&mut self, name: &[u8]) -> bool {
        let flag = match name {
            b"no-writes" => &mut self.no_writes,
            b"allow-oom" => &mut self.allow_oom,
            b"allow-stale" => &mut self.allow_stale,
            b"no-cluster" => &mut self.no_cluster,
            b"allow-cross-slot-keys" => &mut self.allow_cross_slot_keys,
            _ => return false,
        };
        *flag = true;
        true
    }
}

/// A cached script, good until the cache changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptId(u32);

/// The cached scripts and the Lua state that they run in.
pub struct Scripts {
    control: Arc<Control>,
    memory_limit: usize,
    room: Option<Room>,
    entries: Vec<Entry>,
    by_sha: HashMap<Sha, u32, RandomState>,
    by_source: HashMap<Arc<[u8]>, u32, RandomState>,
    /// The entry that was used last, which the next look-up is likely to be after.
    recent: u32,
    /// Counts uses, to find the script that was not used for longest.
    clock: u64,
    evicted: u64,
}

struct Entry {
    sha: Sha,
    source: Arc<[u8]>,
    script: Compiled,
    flags: Flags,
    /// Only `EVAL` brought it, so it may be evicted.
    from_eval: bool,
    used: u64,
}

/// A furnished Lua state. Its stack holds the real globals, those of plain scripts, those of
/// plain scripts that only read their arguments, and the names `KEYS` and `ARGV`.
///
/// What only reads its arguments finds them in the same two tables each time, which saves
/// making them. They lie on the stack too.
struct Room {
    machine: Machine,
    /// How many values the two tables hold.
    filled: [usize; 2],
}

const GLOBALS: i32 = 2;
const PLAIN_GLOBALS: i32 = 3;
const READERS_GLOBALS: i32 = 4;
const KEYS: i32 = 5;
const ARGV: i32 = 6;
const READERS_KEYS: i32 = 7;
const READERS_ARGV: i32 = 8;

/// The tables of arguments that are read only are made anew once they held more than this.
const ARGUMENTS_KEPT: usize = 64;

/// A compiled script.
#[derive(Clone, Copy)]
struct Compiled {
    /// Where Lua keeps its function.
    function: i32,
    /// Where it finds its globals.
    globals: i32,
}

impl Room {
    fn new(control: &Arc<Control>, memory_limit: usize) -> Result<Room, Error> {
        let Some(mut machine) = Machine::new(Arc::clone(control), memory_limit) else {
            return Err(Error::text("ERR not enough memory for a Lua state"));
        };
        let stack = machine.stack();
        sandbox::furnish(&stack, sandbox::Kind::Script);
        sandbox::push_plain_globals(&stack, GLOBALS);
        sandbox::push_plain_globals(&stack, GLOBALS);
        stack.push_bytes(b"KEYS");
        stack.push_bytes(b"ARGV");
        for (name, table) in [(KEYS, READERS_KEYS), (ARGV, READERS_ARGV)] {
            stack.push_nil();
            renew_arguments(&stack, name, table);
        }
        let filled = [0; 2];
        Ok(Room { machine, filled })
    }

    /// Compiles a script and keeps its function.
    fn compile(&mut self, text: &[u8]) -> Result<Compiled, Error> {
        let stack = self.machine.stack();
        if let Some(globals) = load_plain(&stack, text) {
            let function = stack.keep();
            return Ok(Compiled { function, globals });
        }
        let result = load_chunk(&stack, text, b"@user_script");
        result.map_err(|message| {
            Error::owned([b"ERR Error compiling script (new function): ", &message[..]].concat())
        })?;
        let (function, globals) = (stack.keep(), GLOBALS);
        Ok(Compiled { function, globals })
    }

    fn run(
        &mut self,
        script: Compiled,
        host: &mut dyn Host,
        keys: &[&[u8]],
        argv: &[&[u8]],
        reply: &mut dyn Reply,
    ) {
        let stack = self.machine.stack();
        let session = &stack.context().session;
        session.resp.set(Protocol::Resp2);
        session.json.reset();
        for (at, (name, values)) in [(KEYS, keys), (ARGV, argv)].into_iter().enumerate() {
            if script.globals == READERS_GLOBALS {
                let table = [READERS_KEYS, READERS_ARGV][at];
                if self.filled[at] > ARGUMENTS_KEPT {
                    renew_arguments(&stack, name, table);
                    self.filled[at] = 0;
                }
                fill_arguments(&stack, table, values, &mut self.filled[at]);
            } else {
                stack.push_copy(name);
                push_list(&stack, values);
                stack.raw_set(script.globals);
            }
        }
        stack.push_kept(script.function);
        self.machine.run(Some(host), 0, |stack, result| {
            finish_run(stack, result, reply);
        });
    }
}

/// Puts a new table in the place of one that holds arguments to be read only.
fn renew_arguments(stack: &Stack<'_>, name: i32, table: i32) {
    stack.push_table(ARGUMENTS_KEPT / 8, 0);
    stack.replace(table);
    stack.push_copy(name);
    stack.push_copy(table);
    stack.raw_set(READERS_GLOBALS);
}

/// Has a table hold these values instead of those that it was filled with.
fn fill_arguments(stack: &Stack<'_>, table: i32, values: &[&[u8]], filled: &mut usize) {
    for (index, value) in values.iter().enumerate() {
        stack.push_bytes(value);
        stack.raw_set_index(table, index as i32 + 1);
    }
    for index in values.len()..*filled {
        stack.push_nil();
        stack.raw_set_index(table, index as i32 + 1);
    }
    *filled = values.len();
}

/// Pushes a compiled script that may have globals of the plain kind, and tells which; pushes
/// nothing for any other.
fn load_plain(stack: &Stack<'_>, text: &[u8]) -> Option<i32> {
    let is_shared = |name: &[u8]| {
        stack.push_bytes(name);
        stack.raw_get(PLAIN_GLOBALS);
        let shared = !stack.is_nil(-1);
        stack.pop(1);
        shared
    };
    let plain = source::adapt_plain(text, is_shared)?;
    if stack.load(&plain.text, b"@user_script").is_err() {
        stack.pop(1);
        return None;
    }
    let globals = if plain.only_reads_arguments {
        READERS_GLOBALS
    } else {
        PLAIN_GLOBALS
    };
    stack.set_environment(globals);
    Some(globals)
}

/// Pushes a compiled chunk or returns the message that says what is wrong with it.
fn load_chunk(stack: &Stack<'_>, text: &[u8], name: &[u8]) -> Result<(), Vec<u8>> {
    if text.first() == Some(&0x1B) {
        return Err(b"user_script: bad binary format".to_vec());
    }
    if stack.load(&source::adapt_chunk(text).text, name).is_ok() {
        return Ok(());
    }
    stack.pop(1);
    // The message must speak of the text as it was given.
    load_source(stack, text, name)
}

/// Pushes a compiled source or returns the message that says what is wrong with it.
fn load_source(stack: &Stack<'_>, text: &[u8], name: &[u8]) -> Result<(), Vec<u8>> {
    let adapted = source::adapt(text);
    if stack.load(&adapted.text, name).is_ok() {
        return Ok(());
    }
    let message = adapted.restore(stack.text(-1).unwrap_or_default());
    stack.pop(1);
    Err(message)
}

fn push_list(stack: &Stack<'_>, values: &[&[u8]]) {
    stack.push_table(values.len(), 0);
    for (index, value) in values.iter().enumerate() {
        stack.push_bytes(value);
        stack.raw_set_index(-2, index as i32 + 1);
    }
}

/// Turns the value or the error on top of the stack into the reply, and pops it.
fn finish_run(stack: &Stack<'_>, result: Result<(), Option<Position>>, reply: &mut dyn Reply) {
    match result {
        Ok(()) => convert::write_result(stack, reply),
        Err(position) => {
            reply.error(&describe_error(stack, position));
            stack.pop(1);
        }
    }
}

/// The text of the error value on top, and where it was raised.
fn describe_error(stack: &Stack<'_>, position: Option<Position>) -> Error {
    let mut message = convert::c_string(&error_text(stack)).to_vec();
    if let Some(position) = position {
        message.extend_from_slice(b" script: on ");
        message.extend_from_slice(&position.source);
        message.extend_from_slice(format!(":{}.", position.line).as_bytes());
    }
    Error::owned(message)
}

fn error_text(stack: &Stack<'_>) -> Vec<u8> {
    let mut message = Vec::new();
    if stack.type_of(-1) == Type::Table {
        stack.raw_get_field(-1, "err");
        message.extend_from_slice(stack.text(-1).unwrap_or(b"ERR unknown error"));
    } else {
        message.extend_from_slice(b"ERR ");
        if stack.bytes(-1) == Some(b"stack overflow") {
            message.extend_from_slice(b"user_script:1: ");
        }
        library::base::push_string_of(stack, -1);
        message.extend_from_slice(stack.bytes(-1).unwrap_or_default());
    }
    stack.pop(1);
    message
}

impl Scripts {
    pub fn new(control: Arc<Control>) -> Scripts {
        Scripts {
            control,
            memory_limit: MEMORY_LIMIT,
            room: None,
            entries: Vec::new(),
            by_sha: HashMap::default(),
            by_source: HashMap::default(),
            recent: 0,
            clock: 0,
            evicted: 0,
        }
    }

    /// The block through which other threads see and end a running script.
    pub fn control(&self) -> &Arc<Control> {
        &self.control
    }

    /// Limits what the Lua state may occupy, in bytes.
    pub fn set_memory_limit(&mut self, bytes: usize) {
        self.memory_limit = bytes;
        if let Some(room) = &mut self.room {
            room.machine.set_memory_limit(bytes);
        }
    }

    /// What the Lua state occupies, in bytes.
    pub fn used_memory(&self) -> usize {
        self.room
            .as_ref()
            .map_or(0, |room| room.machine.used_memory())
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many scripts have been evicted since the start.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Finds a cached script by the digits of its SHA-1, in either case.
    pub fn find(&mut self, sha: &[u8]) -> Option<ScriptId> {
        let at = match self.entries.get(self.recent as usize) {
            Some(recent) if recent.sha.as_bytes() == sha => self.recent,
            _ => *self.by_sha.get(&Sha::parse(sha)?)?,
        };
        self.touch(at);
        Some(ScriptId(at))
    }

    pub fn exists(&self, sha: &[u8]) -> bool {
        Sha::parse(sha).is_some_and(|sha| self.by_sha.contains_key(&sha))
    }

    /// The source of a cached script.
    pub fn show(&self, sha: &[u8]) -> Option<&[u8]> {
        let at = *self.by_sha.get(&Sha::parse(sha)?)?;
        Some(&self.entries[at as usize].source)
    }

    /// Compiles a script for `SCRIPT LOAD`, to be kept until the cache is flushed.
    pub fn load(&mut self, source: &[u8]) -> Result<Sha, Error> {
        let at = self.find_or_compile(source)?;
        let entry = &mut self.entries[at as usize];
        entry.from_eval = false;
        Ok(entry.sha)
    }

    /// Compiles a script for `EVAL`, or finds it by its very text without hashing it to SHA-1.
    pub fn compile(&mut self, source: &[u8]) -> Result<ScriptId, Error> {
        self.find_or_compile(source).map(ScriptId)
    }

    pub fn sha(&self, id: ScriptId) -> Option<Sha> {
        self.entries.get(id.0 as usize).map(|entry| entry.sha)
    }

    pub fn flags(&self, id: ScriptId) -> Flags {
        self.entries
            .get(id.0 as usize)
            .map(|entry| entry.flags)
            .unwrap_or_default()
    }

    /// Forgets every script and begins with a fresh Lua state.
    pub fn flush(&mut self) {
        self.room = None;
        self.entries.clear();
        self.by_sha.clear();
        self.by_source.clear();
    }

    /// Runs a cached script and writes its one reply.
    pub fn run(
        &mut self,
        id: ScriptId,
        host: &mut dyn Host,
        keys: &[&[u8]],
        argv: &[&[u8]],
        reply: &mut dyn Reply,
    ) {
        let (Some(entry), Some(room)) = (self.entries.get(id.0 as usize), &mut self.room) else {
            return reply.error(&Error::text("NOSCRIPT No matching script."));
        };
        self.control.begin(false);
        room.run(entry.script, host, keys, argv, reply);
        self.control.end();
    }

    fn touch(&mut self, at: u32) {
        self.recent = at;
        self.clock += 1;
        self.entries[at as usize].used = self.clock;
    }

    fn find_or_compile(&mut self, source: &[u8]) -> Result<u32, Error> {
        let at = match self.entries.get(self.recent as usize) {
            Some(recent) if *recent.source == *source => self.recent,
            _ => match self.by_source.get(source) {
                Some(&at) => at,
                None => self.add(source)?,
            },
        };
        self.touch(at);
        Ok(at)
    }

    fn add(&mut self, source: &[u8]) -> Result<u32, Error> {
        let (flags, body) = parse_shebang(source)?;
        let room = match &mut self.room {
            Some(room) => room,
            empty => empty.insert(Room::new(&self.control, self.memory_limit)?),
        };
        let script = room.compile(body)?;
        self.make_room();
        let (sha, at) = (Sha::of(source), self.entries.len() as u32);
        let source: Arc<[u8]> = source.into();
        self.by_sha.insert(sha, at);
        self.by_source.insert(Arc::clone(&source), at);
        self.entries.push(Entry {
            sha,
            source,
            script,
            flags,
            from_eval: true,
            used: 0,
        });
        Ok(at)
    }

    /// Evicts the script of `EVAL` that was not used for longest, once they are too many.
    fn make_room(&mut self) {
        let of_eval = || {
            self.entries
                .iter()
                .enumerate()
                .filter(|(_, entry)| entry.from_eval)
        };
        if of_eval().count() < EVAL_SCRIPTS_MAX {
            return;
        }
        if let Some((at, _)) = of_eval().min_by_key(|(_, entry)| entry.used) {
            self.remove(at);
            self.evicted += 1;
        }
    }

    /// The last entry takes the place of the removed one.
    fn remove(&mut self, at: usize) {
        let removed = self.entries.swap_remove(at);
        self.by_sha.remove(&removed.sha);
        self.by_source.remove(&removed.source);
        if let Some(moved) = self.entries.get(at) {
            self.by_sha.insert(moved.sha, at as u32);
            self.by_source.insert(Arc::clone(&moved.source), at as u32);
        }
        if let Some(room) = &mut self.room {
            room.machine.stack().forget(removed.script.function);
        }
    }
}

/// Splits the first line off and reads it; the rest keeps its line numbers.
fn parse_shebang(source: &[u8]) -> Result<(Flags, &[u8]), Error> {
    let mut flags = Flags::default();
    if !source.starts_with(b"#!") {
        return Ok((flags, source));
    }
    let (line, body) = split_first_line(source).ok_or(Error::text("ERR Invalid script shebang"))?;
    let mut words = split_words(line)
        .ok_or(Error::text("ERR Invalid engine in script shebang"))?
        .into_iter();
    let engine = words.next().unwrap_or_default();
    flags.declared = true;
    for word in words {
        let Some(names) = word.strip_prefix(b"flags=") else {
            return Err(about(b"ERR Unknown lua shebang option: ", &word, b""));
        };
        let names = names
            .split(|&byte| byte == b',')
            .filter(|_| !names.is_empty());
        for name in names {
            if !flags.add(name) {
                return Err(about(b"ERR Unexpected flag in script shebang: ", name, b""));
            }
        }
    }
    let engine = engine.strip_prefix(b"#!").unwrap_or(&engine);
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err(about(
            b"ERR Could not find scripting engine '",
            engine,
            b"'",
        ));
    }
    Ok((flags, body))
}

/// The first line and what follows it; none when a zero byte comes before the line's end.
fn split_first_line(source: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr2(b'\n', 0, source)?;
    (source[end] == b'\n').then(|| source.split_at(end))
}

fn about(before: &[u8], name: &[u8], after: &[u8]) -> Error {
    Error::quoting([before, name, after])
}

#[cfg(test)]
mod tests;
