//! Function libraries: loaded by their source, kept with their state, called by name.
//!
//! They have a Lua state of their own. While a library is loaded its globals show only what
//! registers functions; the same globals show everything when a function is called.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Control, Error, Flags, Host, MEMORY_LIMIT, Position, Reply, about, error_text, finish_run,
    load_chunk, lua::Machine, push_list, sandbox, split_first_line, split_words,
};
use crate::reply::Protocol;

/// How long the libraries of one FUNCTION RESTORE may take, each of which has its own limit too.
const RESTORE_TIME_MAX: Duration = Duration::from_secs(5);

/// A function as its library registers it.
#[derive(Clone, Debug, Default)]
pub struct Registered {
    pub name: Vec<u8>,
    pub description: Option<Vec<u8>>,
    pub flags: Flags,
    /// Where Lua keeps it.
    pub callback: i32,
}

/// A loaded library.
#[derive(Debug)]
pub struct Library {
    pub source: Vec<u8>,
    pub functions: Vec<Registered>,
}

/// What FUNCTION RESTORE does about libraries that are there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePolicy {
    Append,
    Flush,
    Replace,
}

/// The libraries and the Lua state that they live in.
pub struct Functions {
    control: Arc<Control>,
    memory_limit: usize,
    room: Option<Room>,
    libraries: BTreeMap<Vec<u8>, Arc<Library>>,
    /// The library of each function and its place there, by the name in lower case.
    by_name: HashMap<Vec<u8>, (Arc<Library>, usize)>,
}

/// The state's stack holds the globals of calls and those of loading.
struct Room {
    machine: Machine,
}

const CALL_GLOBALS: i32 = 2;
const LOAD_GLOBALS: i32 = 3;

impl Room {
    fn new(control: &Arc<Control>, memory_limit: usize) -> Result<Room, Error> {
        let Some(mut machine) = Machine::new(Arc::clone(control), memory_limit) else {
            return Err(Error::text("ERR not enough memory for a Lua state"));
        };
        let stack = machine.stack();
        sandbox::furnish(&stack, sandbox::Kind::Function);
        sandbox::push_loading_globals(&stack);
        Ok(Room { machine })
    }

    fn show(&mut self, globals: i32) {
        let stack = self.machine.stack();
        stack.push_copy(globals);
        sandbox::show_globals(&stack);
    }

    /// Runs the source of a library and returns what it registers.
    fn load(&mut self, body: &[u8], control: &Control) -> Result<Vec<Registered>, Error> {
        let stack = self.machine.stack();
        load_chunk(&stack, body, b"@user_function").map_err(|message| {
            Error::owned([b"ERR Error compiling function: ", &message[..]].concat())
        })?;
        stack.context().session.begin_load();
        self.show(LOAD_GLOBALS);
        control.begin_load();
        let problem = self.machine.run(None, 0, |stack, result| {
            result
                .err()
                .map(|_position: Option<Position>| error_text(stack))
        });
        let stack = self.machine.stack();
        control.end();
        let registered = stack.context().session.end_load();
        stack.set_top(LOAD_GLOBALS as usize);
        self.show(CALL_GLOBALS);
        match problem {
            None => Ok(registered),
            Some(message) => {
                self.forget(&registered);
                Err(Error::owned(
                    [b"ERR Error registering functions: ", &message[..]].concat(),
                ))
            }
        }
    }

    fn forget(&mut self, functions: &[Registered]) {
        let stack = self.machine.stack();
        for function in functions {
            stack.forget(function.callback);
        }
    }
}

impl Functions {
    pub fn new(control: Arc<Control>) -> Functions {
        Functions {
            control,
            memory_limit: MEMORY_LIMIT,
            room: None,
            libraries: BTreeMap::new(),
            by_name: HashMap::new(),
        }
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

    /// All libraries by name.
    pub fn libraries(&self) -> impl Iterator<Item = (&[u8], &Library)> {
        self.libraries
            .iter()
            .map(|(name, library)| (&name[..], &**library))
    }

    /// The flags of a function, by its name in any case.
    pub fn flags(&self, name: &[u8]) -> Option<Flags> {
        let (library, at) = self.by_name.get(&name.to_ascii_lowercase())?;
        Some(Flags {
            declared: true,
            ..library.functions[*at].flags
        })
    }

    /// Loads a library and returns its name.
    pub fn load(&mut self, source: &[u8], replace: bool) -> Result<Vec<u8>, Error> {
        let (name, body) = parse_metadata(source)?;
        if !replace && self.libraries.contains_key(&name) {
            return Err(about(b"ERR Library '", &name, b"' already exists"));
        }
        let room = match &mut self.room {
            Some(room) => room,
            empty => empty.insert(Room::new(&self.control, self.memory_limit)?),
        };
        let functions = room.load(body, &self.control)?;
        if let Err(error) = self.check(&name, &functions) {
            if let Some(room) = &mut self.room {
                room.forget(&functions);
            }
            return Err(error);
        }
        self.remove(&name);
        self.add(
            &name,
            Arc::new(Library {
                source: source.to_vec(),
                functions,
            }),
        );
        Ok(name)
    }

    /// Is there anything against these functions becoming the library's?
    fn check(&self, library: &[u8], functions: &[Registered]) -> Result<(), Error> {
        const NAME: Error = Error::text(
            "ERR Function names can only contain letters, numbers, or underscores(_) and must \
             be at least one character long",
        );
        const TWICE: Error = Error::text("ERR Function already exists in the library");
        const NONE: Error = Error::text("ERR No functions registered");
        for (at, function) in functions.iter().enumerate() {
            if !is_name(&function.name) {
                return Err(NAME);
            }
            let same = |other: &Registered| other.name.eq_ignore_ascii_case(&function.name);
            if functions[..at].iter().any(same) {
                return Err(TWICE);
            }
        }
        if functions.is_empty() {
            return Err(NONE);
        }
        let own = self.libraries.get(library);
        for function in functions {
            let there = self.by_name.get(&function.name.to_ascii_lowercase());
            let is_own = |other: &Arc<Library>| own.is_some_and(|own| Arc::ptr_eq(own, other));
            if there.is_some_and(|(other, _)| !is_own(other)) {
                return Err(about(b"ERR Function ", &function.name, b" already exists"));
            }
        }
        Ok(())
    }

    fn add(&mut self, name: &[u8], library: Arc<Library>) {
        for (at, function) in library.functions.iter().enumerate() {
            let key = function.name.to_ascii_lowercase();
            self.by_name.insert(key, (Arc::clone(&library), at));
        }
        self.libraries.insert(name.to_vec(), library);
        self.control
            .set_libraries(self.libraries.len(), self.by_name.len());
    }

    fn remove(&mut self, name: &[u8]) -> bool {
        let Some(library) = self.libraries.remove(name) else {
            return false;
        };
        for function in &library.functions {
            self.by_name.remove(&function.name.to_ascii_lowercase());
        }
        if let Some(room) = &mut self.room {
            room.forget(&library.functions);
        }
        self.control
            .set_libraries(self.libraries.len(), self.by_name.len());
        true
    }

    /// Deletes a library; says no when there is none of the name.
    pub fn delete(&mut self, name: &[u8]) -> bool {
        self.remove(name)
    }

    /// Deletes all libraries and begins with a fresh Lua state.
    pub fn flush(&mut self) {
        self.room = None;
        self.libraries.clear();
        self.by_name.clear();
        self.control.set_libraries(0, 0);
    }

    /// Loads many libraries, or none of them when there is anything against one.
    pub fn restore(&mut self, sources: &[Vec<u8>], policy: RestorePolicy) -> Result<(), Error> {
        let mut restored = Functions::new(Arc::clone(&self.control));
        restored.set_memory_limit(self.memory_limit);
        if policy != RestorePolicy::Flush {
            for library in self.libraries.values() {
                restored.load(&library.source, false)?;
            }
        }
        let began = Instant::now();
        let result = sources.iter().try_for_each(|source| {
            if began.elapsed() > RESTORE_TIME_MAX {
                return Err(Error::text(
                    "ERR Error registering functions: ERR FUNCTION LOAD timeout",
                ));
            }
            let (name, _) = parse_metadata(source)?;
            if policy == RestorePolicy::Append && restored.libraries.contains_key(&name) {
                return Err(about(b"ERR Library ", &name, b" already exists"));
            }
            restored
                .load(source, policy == RestorePolicy::Replace)
                .map(drop)
        });
        match result {
            Ok(()) => *self = restored,
            Err(_) => self
                .control
                .set_libraries(self.libraries.len(), self.by_name.len()),
        }
        result
    }

    /// Calls a function and writes its one reply. It is there: its flags were asked for.
    pub fn call(
        &mut self,
        name: &[u8],
        host: &mut dyn Host,
        keys: &[&[u8]],
        argv: &[&[u8]],
        reply: &mut dyn Reply,
    ) {
        let found = self.by_name.get(&name.to_ascii_lowercase());
        let (Some((library, at)), Some(room)) = (found, &mut self.room) else {
            return reply.error(&Error::text("ERR Function not found"));
        };
        let stack = room.machine.stack();
        let session = &stack.context().session;
        session.resp.set(Protocol::Resp2);
        session.json.reset();
        stack.push_kept(library.functions[*at].callback);
        push_list(&stack, keys);
        push_list(&stack, argv);
        self.control.begin(true);
        room.machine.run(Some(host), 2, |stack, result| {
            finish_run(stack, result, reply);
        });
        self.control.end();
    }
}

fn is_name(name: &[u8]) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    !name.is_empty() && name.iter().all(allowed)
}

/// Reads the first line, `#!lua name=…`, and splits it off; the rest keeps its line numbers.
fn parse_metadata(source: &[u8]) -> Result<(Vec<u8>, &[u8]), Error> {
    const MISSING: Error = Error::text("ERR Missing library metadata");
    const INVALID: Error = Error::text("ERR Invalid library metadata");
    const UNNAMED: Error = Error::text("ERR Library name was not given");
    const TWICE: Error =
        Error::text("ERR Invalid metadata value, name argument was given multiple times");
    const NAME: Error = Error::text(
        "ERR Library names can only contain letters, numbers, or underscores(_) and must be at \
         least one character long",
    );
    if !source.starts_with(b"#!") {
        return Err(MISSING);
    }
    let (line, body) = split_first_line(source).ok_or(INVALID)?;
    let mut words = split_words(line).ok_or(INVALID)?.into_iter();
    let engine = words.next().unwrap_or_default();
    let mut name = None;
    for word in words {
        let gives_name = word
            .get(..5)
            .is_some_and(|key| key.eq_ignore_ascii_case(b"name="));
        if !gives_name {
            return Err(about(b"ERR Invalid metadata value given: ", &word, b""));
        }
        if name.is_some() {
            return Err(TWICE);
        }
        name = Some(word[5..].to_vec());
    }
    let name = name.ok_or(UNNAMED)?;
    if !is_name(&name) {
        return Err(NAME);
    }
    let engine = engine.strip_prefix(b"#!").unwrap_or(&engine);
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err(about(b"ERR Engine '", engine, b"' not found"));
    }
    Ok((name, body))
}
