//! EVAL and SCRIPT: scripts that run as one step, and their cache.
//!
//! This is the one door to Lua: the rest of the server knows of scripts what is public here, and
//! a build without the feature `scripting` has `scripting/absent.rs` in its place.

mod held;

use std::sync::Arc;

use super::{help, *};
use crate::{
    command::spec::{Categories, Flags, KeySpec},
    engine::{OUT_OF_MEMORY, TOO_FEW_REPLICAS},
    glob,
    rdb::{VersionCheck, libraries},
    script::{self, Functions, Host, Library, LogLevel, Refusal, RestorePolicy, Running, Scripts},
};

pub use crate::script::{Control, Killer};
pub use held::Scripting;

const NOTES_RW: &str = "what the script does with them is not known: it may read and change them";
const NOTES_RO: &str = "what the script does with them is not known: it may read them";

/// The digits of the SHA1 by which a script is known.
const SHA_LEN: usize = 40;
const NO_SCRIPT: Error = Error::text("NOSCRIPT No matching script.");
const NOTHING_RUNS: Error = Error::text("NOTBUSY No scripts in execution right now.");
const HAS_WRITTEN: Error = Error::text(
    "UNKILLABLE Sorry the script already executed write commands against the dataset. \
     You can either wait the script termination or kill the server in a hard way using the \
     SHUTDOWN NOSAVE command.",
);

const RUNS: Flags = Flags::of([
    Flags::MAY_REPLICATE,
    Flags::NOSCRIPT,
    Flags::STALE,
    Flags::SKIP_MONITOR,
    Flags::NO_MANDATORY_KEYS,
    Flags::MOVABLEKEYS,
]);
const RUNS_RO: Flags = Flags::of([
    Flags::READONLY,
    Flags::NOSCRIPT,
    Flags::STALE,
    Flags::SKIP_MONITOR,
    Flags::NO_MANDATORY_KEYS,
    Flags::MOVABLEKEYS,
]);
const MANAGES: Flags = Flags::of([Flags::NOSCRIPT, Flags::STALE]);

/// What the rows of this group have in common.
const ROW: Command = Command {
    categories: Categories::SCRIPTING,
    group: "scripting",
    since: "2.6.0",
    ..Command::BASE
};

/// What the rows that run a script have in common.
const RUN: Command = Command {
    arity: -3,
    complexity: "that of the script",
    ..ROW
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "eval",
        flags: RUNS,
        keys: &[KeySpec::counted("RW access update", 2).noted(NOTES_RW)],
        summary: "Runs a Lua script.",
        args: "script:string numkeys:integer [key:key...] [arg:string...]",
        handler: eval,
        ..RUN
    },
    Command {
        name: "eval_ro",
        flags: RUNS_RO,
        keys: &[KeySpec::counted("RO access", 2).noted(NOTES_RO)],
        since: "7.0.0",
        summary: "Runs a Lua script that may only read.",
        args: "script:string numkeys:integer [key:key...] [arg:string...]",
        handler: eval_ro,
        ..RUN
    },
    Command {
        name: "evalsha",
        flags: RUNS,
        keys: &[KeySpec::counted("RW access update", 2)],
        summary: "Runs a cached Lua script by its SHA1.",
        args: "sha1:string numkeys:integer [key:key...] [arg:string...]",
        handler: evalsha,
        ..RUN
    },
    Command {
        name: "evalsha_ro",
        flags: RUNS_RO,
        keys: &[KeySpec::counted("RO access", 2)],
        since: "7.0.0",
        summary: "Runs a cached Lua script that may only read.",
        args: "sha1:string numkeys:integer [key:key...] [arg:string...]",
        handler: evalsha_ro,
        ..RUN
    },
    Command {
        name: "script",
        arity: -2,
        categories: Categories::NONE,
        summary: "Holds the commands about scripts.",
        complexity: "that of the subcommand",
        subcommands: &[
            Command {
                name: "script|debug",
                arity: -3,
                flags: Flags::of([Flags::NOSCRIPT]),
                since: "3.2.0",
                summary: "Chooses a debugging mode; there is no debugger, so it must be NO.",
                args: "mode<YES|SYNC|NO> [engine:string{9.1.0}]",
                handler: script_debug,
                ..ROW
            },
            Command {
                name: "script|exists",
                arity: -3,
                flags: MANAGES,
                tips: &[
                    "request_policy:all_shards",
                    "response_policy:agg_logical_and",
                ],
                summary: "Tells which scripts are cached.",
                complexity: "O(N) where N is the number of scripts named",
                args: "sha1:string...",
                handler: script_exists,
                ..ROW
            },
            Command {
                name: "script|flush",
                arity: -2,
                flags: MANAGES,
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                history: &[("6.2.0", "Knows `ASYNC` and `SYNC`.")],
                summary: "Forgets every cached script.",
                complexity: "O(N) where N is the number of scripts cached",
                args: "[flush-type<ASYNC|SYNC>{6.2.0}]",
                handler: script_flush,
                ..ROW
            },
            Command {
                name: "script|help",
                arity: 2,
                flags: Flags::of([Flags::LOADING, Flags::STALE]),
                since: "5.0.0",
                summary: "Lists the subcommands with a line about each.",
                handler: help::help,
                ..ROW
            },
            Command {
                name: "script|kill",
                arity: 2,
                flags: Flags::of([Flags::NOSCRIPT, Flags::ALLOW_BUSY]),
                tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
                summary: "Ends the running script, if it has not written.",
                handler: script_kill,
                ..ROW
            },
            Command {
                name: "script|load",
                arity: 3,
                flags: MANAGES,
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                summary: "Caches a script and tells its SHA1.",
                complexity: "O(N) where N is the length of the script",
                args: "script:string",
                handler: script_load,
                ..ROW
            },
            Command {
                name: "script|show",
                arity: 3,
                flags: MANAGES,
                since: "8.0.0",
                summary: "Returns the source of a cached script.",
                args: "sha1:string",
                handler: script_show,
                ..ROW
            },
        ],
        ..ROW
    },
    Command {
        name: "fcall",
        flags: RUNS,
        keys: &[KeySpec::counted("RW access update", 2).noted(NOTES_RW)],
        since: "7.0.0",
        summary: "Calls a function.",
        complexity: "that of the function",
        args: "function:string numkeys:integer [key:key...] [arg:string...]",
        handler: fcall,
        ..RUN
    },
    Command {
        name: "fcall_ro",
        flags: RUNS_RO,
        keys: &[KeySpec::counted("RO access", 2).noted(NOTES_RO)],
        since: "7.0.0",
        summary: "Calls a function that only reads.",
        complexity: "that of the function",
        args: "function:string numkeys:integer [key:key...] [arg:string...]",
        handler: fcall_ro,
        ..RUN
    },
    Command {
        name: "function",
        arity: -2,
        categories: Categories::NONE,
        since: "7.0.0",
        summary: "Holds the commands about function libraries.",
        complexity: "that of the subcommand",
        subcommands: &[
            Command {
                name: "function|delete",
                arity: 3,
                flags: Flags::of([Flags::WRITE, Flags::NOSCRIPT]),
                tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
                since: "7.0.0",
                summary: "Deletes a library and its functions.",
                args: "library-name:string",
                handler: function_delete,
                ..ROW
            },
            Command {
                name: "function|dump",
                arity: 2,
                flags: Flags::of([Flags::NOSCRIPT]),
                since: "7.0.0",
                summary: "Returns all libraries as one payload.",
                complexity: "O(N) where N is the number of functions",
                handler: function_dump,
                ..ROW
            },
            Command {
                name: "function|flush",
                arity: -2,
                flags: Flags::of([Flags::WRITE, Flags::NOSCRIPT]),
                tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
                since: "7.0.0",
                summary: "Deletes all libraries.",
                complexity: "O(N) where N is the number of functions",
                args: "[flush-type<ASYNC|SYNC>]",
                handler: function_flush,
                ..ROW
            },
            Command {
                name: "function|help",
                arity: 2,
                flags: Flags::of([Flags::LOADING, Flags::STALE]),
                since: "7.0.0",
                summary: "Lists the subcommands with a line about each.",
                handler: help::help,
                ..ROW
            },
            Command {
                name: "function|kill",
                arity: 2,
                flags: Flags::of([Flags::NOSCRIPT, Flags::ALLOW_BUSY]),
                tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
                since: "7.0.0",
                summary: "Ends the running function, if it has not written.",
                handler: function_kill,
                ..ROW
            },
            Command {
                name: "function|list",
                arity: -2,
                flags: Flags::of([Flags::NOSCRIPT]),
                tips: &["nondeterministic_output_order"],
                since: "7.0.0",
                summary: "Lists the libraries and their functions.",
                complexity: "O(N) where N is the number of functions",
                args: "[LIBRARYNAME@library-name-pattern:string] [WITHCODE]",
                handler: function_list,
                ..ROW
            },
            Command {
                name: "function|load",
                arity: -3,
                flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::NOSCRIPT]),
                tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
                since: "7.0.0",
                summary: "Loads a library from its source.",
                args: "[REPLACE] function-code:string",
                handler: function_load,
                ..ROW
            },
            Command {
                name: "function|restore",
                arity: -3,
                flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::NOSCRIPT]),
                tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
                since: "7.0.0",
                summary: "Loads the libraries of a payload.",
                complexity: "O(N) where N is the number of functions in the payload",
                args: "serialized-value:string [policy<FLUSH|APPEND|REPLACE>]",
                handler: function_restore,
                ..ROW
            },
            Command {
                name: "function|stats",
                arity: 2,
                flags: Flags::of([Flags::NOSCRIPT, Flags::ALLOW_BUSY]),
                tips: &[
                    "nondeterministic_output",
                    "request_policy:all_shards",
                    "response_policy:special",
                ],
                since: "7.0.0",
                summary: "Tells what function runs, and how many there are.",
                handler: function_stats,
                ..ROW
            },
        ],
        ..ROW
    },
];

/// What runs a script inside the engine: its commands come back to the one call path.
struct ScriptHost<'a> {
    pub engine: &'a mut Engine,
    pub session: &'a mut Session,
    pub control: &'a Control,
    /// The request that started it.
    pub request: &'a [&'a [u8]],
    /// Empty for a script.
    pub function: &'a [u8],
    pub read_only: bool,
}

impl ScriptHost<'_> {
    /// The row of a script's command, or why the script may not run it.
    fn admit(&mut self, args: &[&[u8]]) -> Result<&'static Command, Error> {
        const UNKNOWN: Error = Error::text("ERR Unknown command called from script");
        const ARITY: Error = Error::text("ERR Wrong number of args calling command from script");
        const BANNED: Error = Error::text("ERR This Valkey command is not allowed from script");
        let command = match self.engine.scripting.recent_commands.find(args) {
            Some(command) => command,
            None if by_name(args.first().copied().unwrap_or_default()).is_none() => {
                return Err(UNKNOWN);
            }
            None => lookup(args)?,
        };
        if !command.accepts(args.len()) {
            return Err(ARITY);
        }
        if command.flags.has(Flags::NOSCRIPT) {
            return Err(BANNED);
        }
        self.engine
            .permit(self.session, command, args, "lua")
            .map_err(|denied| denied.script_error(&self.session.user, command))?;
        if command.is_write() || command.flags.has(Flags::MAY_REPLICATE) {
            self.admit_write(command)?;
        }
        Ok(command)
    }

    fn admit_write(&mut self, command: &Command) -> Result<(), Error> {
        const WRITES: Error =
            Error::text("ERR Write commands are not allowed from read-only scripts.");
        // That there is no memory is said first, by the engine.
        if self.engine.script_short_of_memory && command.flags.has(Flags::DENYOOM) {
            return Ok(());
        }
        if self.read_only {
            return Err(WRITES);
        }
        if self.engine.config.hot.min_replicas > 0 && command.is_write() {
            return Err(TOO_FEW_REPLICAS);
        }
        Ok(())
    }
}

impl Host for ScriptHost<'_> {
    fn call(&mut self, args: &[&[u8]], reply: &mut dyn Reply) {
        let command = match self.admit(args) {
            Ok(command) => command,
            Err(error) => return reply.error(&error),
        };
        if command.is_write() {
            self.control.note_write();
        }
        let waits = self
            .engine
            .call(self.session, command, args, reply)
            .is_err();
        debug_assert!(!waits, "nothing waits while blocking is denied");
    }

    fn log(&mut self, level: LogLevel, message: &[u8]) {
        let message = String::from_utf8_lossy(message);
        match level {
            LogLevel::Debug => tracing::trace!(target: "khoa_server::script", "{message}"),
            LogLevel::Verbose => tracing::debug!(target: "khoa_server::script", "{message}"),
            LogLevel::Notice => tracing::info!(target: "khoa_server::script", "{message}"),
            LogLevel::Warning => tracing::warn!(target: "khoa_server::script", "{message}"),
        }
    }

    fn acl_check(&mut self, args: &[&[u8]]) -> Option<bool> {
        let command = lookup(args).ok()?;
        let request = self.engine.request(self.session, command, args);
        let checked = self.engine.users.check(&self.session.user, request);
        Some(checked.is_ok())
    }

    fn on_busy(&mut self) {
        self.engine.visits.open();
        if let Some(on_busy) = self.engine.on_busy {
            on_busy();
        }
    }

    fn on_look(&mut self) {
        self.engine.receive_visits();
    }

    fn describe(&self) -> Running {
        Running {
            name: self.function.to_vec(),
            command: self.request.iter().map(|arg| arg.to_vec()).collect(),
        }
    }
}

fn eval(call: &mut Call<'_>) -> Result<(), Stop> {
    run_script(call, By::Source, false)
}

fn eval_ro(call: &mut Call<'_>) -> Result<(), Stop> {
    run_script(call, By::Source, true)
}

fn evalsha(call: &mut Call<'_>) -> Result<(), Stop> {
    run_script(call, By::Sha, false)
}

fn evalsha_ro(call: &mut Call<'_>) -> Result<(), Stop> {
    run_script(call, By::Sha, true)
}

#[derive(Clone, Copy)]
enum By {
    Source,
    Sha,
}

/// Takes the scripts out of the engine while one of them has the engine to itself.
fn run_script(call: &mut Call<'_>, by: By, read_only: bool) -> Result<(), Stop> {
    if matches!(by, By::Sha) && call.arg(1).len() != SHA_LEN {
        return Err(NO_SCRIPT.into());
    }
    let keys = count_keys(call)?;
    let mut scripts = call.engine.scripting.take_scripts();
    let result = run_with(call, &mut scripts, by, read_only, keys);
    call.engine.scripting.scripts = Some(scripts);
    result
}

/// How many of the arguments are keys.
fn count_keys(call: &Call<'_>) -> Result<usize, Error> {
    const NEGATIVE: Error = Error::text("ERR Number of keys can't be negative");
    const TOO_MANY: Error = Error::text("ERR Number of keys can't be greater than number of args");
    let keys = call.int(2)?;
    if keys > call.args.len() as i64 - 3 {
        return Err(TOO_MANY);
    }
    usize::try_from(keys).map_err(|_| NEGATIVE)
}

fn run_with(
    call: &mut Call<'_>,
    scripts: &mut Scripts,
    by: By,
    read_only: bool,
    keys: usize,
) -> Result<(), Stop> {
    let id = match by {
        By::Source => scripts.compile(call.arg(1))?,
        By::Sha => scripts.find(call.arg(1)).ok_or(NO_SCRIPT)?,
    };
    let flags = scripts.flags(id);
    let read_only = check_flags(call, flags, read_only)?;
    let (keys, argv) = call.args[3..].split_at(keys);
    // A script that declares nothing is from the time before slots were checked.
    call.session.cross_slots = !flags.declared || flags.allow_cross_slot_keys;
    with_host(call, b"", read_only, |host, reply| {
        scripts.run(id, host, keys, argv, reply);
    });
    call.session.cross_slots = false;
    Ok(())
}

/// Whether a script may only read, or why it may not run at all: one that declares what it does
/// is checked before it runs, and the commands of any other each by itself.
fn check_flags(call: &mut Call<'_>, flags: script::Flags, read_only: bool) -> Result<bool, Error> {
    const NO_CLUSTER: Error =
        Error::text("ERR Can not run script on cluster, 'no-cluster' flag is set.");
    const MAY_WRITE: Error =
        Error::text("ERR Can not execute a script with write flag using *_ro command.");
    let engine = &mut *call.engine;
    if flags.declared && flags.no_cluster && engine.config.hot.cluster {
        return Err(NO_CLUSTER);
    }
    if flags.declared && !flags.no_writes {
        if engine.config.hot.min_replicas > 0 {
            return Err(TOO_FEW_REPLICAS);
        }
        if engine.script_short_of_memory && !flags.allow_oom {
            return Err(OUT_OF_MEMORY);
        }
        if read_only {
            return Err(MAY_WRITE);
        }
    }
    if flags.allow_oom {
        engine.script_short_of_memory = false;
    }
    Ok(read_only || flags.no_writes)
}

/// Runs `body` with the engine as its host. The script's SELECT ends with it.
fn with_host(
    call: &mut Call<'_>,
    function: &[u8],
    read_only: bool,
    body: impl FnOnce(&mut ScriptHost<'_>, &mut dyn Reply),
) {
    let control = Arc::clone(&call.engine.scripting.control);
    let db = call.session.db;
    let deny_blocking = std::mem::replace(&mut call.session.deny_blocking, true);
    let mut host = ScriptHost {
        engine: &mut *call.engine,
        session: &mut *call.session,
        control: &control,
        request: call.args,
        function,
        read_only,
    };
    body(&mut host, &mut *call.reply);
    host.engine.end_visits();
    call.session.deny_blocking = deny_blocking;
    call.session.db = db;
}

fn script_debug(call: &mut Call<'_>) -> Result<(), Stop> {
    const WRONG: Error = Error::text("ERR Use SCRIPT DEBUG YES/SYNC/NO");
    const NONE: Error = Error::text("ERR there is no script debugger");
    match call.arg(2) {
        mode if is_word(mode, "NO") => call.reply.ok(),
        mode if is_word(mode, "YES") || is_word(mode, "SYNC") => return Err(NONE.into()),
        _ => return Err(WRONG.into()),
    }
    Ok(())
}

fn script_exists(call: &mut Call<'_>) -> Result<(), Stop> {
    call.reply.array(call.args.len() - 2);
    for sha in &call.args[2..] {
        let exists = call
            .engine
            .scripting
            .scripts
            .as_ref()
            .is_some_and(|scripts| scripts.exists(sha));
        call.reply.integer(i64::from(exists));
    }
    Ok(())
}

/// The optional SYNC or ASYNC of the FLUSH subcommands.
fn check_flush_mode(call: &Call<'_>, name: &str) -> Result<(), Error> {
    let known = match &call.args[2..] {
        [] => true,
        [mode] => is_word(mode, "SYNC") || is_word(mode, "ASYNC"),
        _ => false,
    };
    let refuse = || Error::owned(format!("ERR {name} FLUSH only support SYNC|ASYNC option"));
    if known { Ok(()) } else { Err(refuse()) }
}

fn script_flush(call: &mut Call<'_>) -> Result<(), Stop> {
    check_flush_mode(call, "SCRIPT")?;
    if let Some(scripts) = &mut call.engine.scripting.scripts {
        scripts.flush();
    }
    call.reply.ok();
    Ok(())
}

fn script_kill(call: &mut Call<'_>) -> Result<(), Stop> {
    kill(call, Killer::Script)
}

fn function_kill(call: &mut Call<'_>) -> Result<(), Stop> {
    kill(call, Killer::Function)
}

/// Asks the script to end that has the engine to itself.
fn kill(call: &mut Call<'_>, killer: Killer) -> Result<(), Stop> {
    let control = &call.engine.scripting.control;
    match control.kill(killer) {
        Ok(()) => call.reply.ok(),
        Err(Refusal::NothingRuns) => return Err(NOTHING_RUNS.into()),
        Err(Refusal::HasWritten) => return Err(HAS_WRITTEN.into()),
        Err(Refusal::OtherKind) => return Err(control.busy_error().into()),
    }
    Ok(())
}

fn script_load(call: &mut Call<'_>) -> Result<(), Stop> {
    let mut scripts = call.engine.scripting.take_scripts();
    let loaded = scripts.load(call.arg(2));
    call.engine.scripting.scripts = Some(scripts);
    call.reply.bulk(loaded?.as_bytes());
    Ok(())
}

fn script_show(call: &mut Call<'_>) -> Result<(), Stop> {
    let scripts = call.engine.scripting.scripts.as_ref();
    let source = scripts
        .and_then(|scripts| scripts.show(call.arg(2)))
        .ok_or(NO_SCRIPT)?;
    call.reply.bulk(source);
    Ok(())
}

fn fcall(call: &mut Call<'_>) -> Result<(), Stop> {
    call_function(call, false)
}

fn fcall_ro(call: &mut Call<'_>) -> Result<(), Stop> {
    call_function(call, true)
}

/// Takes the functions out of the engine while one of them has the engine to itself.
fn call_function(call: &mut Call<'_>, read_only: bool) -> Result<(), Stop> {
    let mut functions = call.engine.scripting.take_functions();
    let result = call_with(call, &mut functions, read_only);
    call.engine.scripting.functions = Some(functions);
    result
}

fn call_with(call: &mut Call<'_>, functions: &mut Functions, read_only: bool) -> Result<(), Stop> {
    const NOT_FOUND: Error = Error::text("ERR Function not found");
    const BAD_NUMBER: Error = Error::text("ERR Bad number of keys provided");
    let name = call.arg(1);
    let flags = functions.flags(name).ok_or(NOT_FOUND)?;
    let keys = match count_keys(call) {
        Err(error) if error == Error::NOT_AN_INTEGER => return Err(BAD_NUMBER.into()),
        counted => counted?,
    };
    let read_only = check_flags(call, flags, read_only)?;
    let (keys, argv) = call.args[3..].split_at(keys);
    call.session.cross_slots = flags.allow_cross_slot_keys;
    with_host(call, name, read_only, |host, reply| {
        functions.call(name, host, keys, argv, reply);
    });
    call.session.cross_slots = false;
    Ok(())
}

fn function_load(call: &mut Call<'_>) -> Result<(), Stop> {
    let (mut replace, last) = (false, call.args.len() - 1);
    for option in &call.args[2..last] {
        if !is_word(option, "REPLACE") {
            return Err(unknown(b"ERR Unknown option given: ", option));
        }
        replace = true;
    }
    let mut functions = call.engine.scripting.take_functions();
    let loaded = functions.load(call.arg(last), replace);
    call.engine.scripting.functions = Some(functions);
    call.reply.bulk(&loaded?);
    Ok(())
}

fn unknown(text: &[u8], option: &[u8]) -> Stop {
    Error::quoting([text, option]).into()
}

fn function_delete(call: &mut Call<'_>) -> Result<(), Stop> {
    const NOT_FOUND: Error = Error::text("ERR Library not found");
    let name = call.arg(2);
    let functions = call.engine.scripting.functions.as_mut();
    if functions.is_some_and(|functions| functions.delete(name)) {
        call.reply.ok();
        return Ok(());
    }
    Err(NOT_FOUND.into())
}

fn function_flush(call: &mut Call<'_>) -> Result<(), Stop> {
    const MODE: Error = Error::text("ERR FUNCTION FLUSH only supports SYNC|ASYNC option");
    if call.args.len() > 3 {
        return Err(call.subcommand_syntax().into());
    }
    check_flush_mode(call, "FUNCTION").map_err(|_| MODE)?;
    if let Some(functions) = &mut call.engine.scripting.functions {
        functions.flush();
    }
    call.reply.ok();
    Ok(())
}

fn function_list(call: &mut Call<'_>) -> Result<(), Stop> {
    const NO_NAME: Error = Error::text("ERR library name argument was not given");
    let (mut pattern, mut with_code) = (None, false);
    let mut options = call.options(2);
    while !options.is_empty() {
        if !with_code && options.take("WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && options.take("LIBRARYNAME") {
            pattern = Some(options.next().ok_or(NO_NAME)?);
        } else {
            return Err(unknown(b"ERR Unknown argument ", options.value()?));
        }
    }
    let functions = call.engine.scripting.take_functions();
    let listed = |name: &[u8]| pattern.is_none_or(|pattern| glob::matches_any_case(pattern, name));
    let libraries: Vec<_> = functions
        .libraries()
        .filter(|(name, _)| listed(name))
        .collect();
    call.reply.array(libraries.len());
    for (name, library) in libraries {
        write_library(call.reply, name, library, with_code);
    }
    call.engine.scripting.functions = Some(functions);
    Ok(())
}

fn write_library(reply: &mut dyn Reply, name: &[u8], library: &Library, with_code: bool) {
    reply.map(3 + usize::from(with_code));
    reply.bulk(b"library_name");
    reply.bulk(name);
    reply.bulk(b"engine");
    reply.bulk(b"LUA");
    reply.bulk(b"functions");
    reply.array(library.functions.len());
    for function in &library.functions {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(&function.name);
        reply.bulk(b"description");
        match &function.description {
            Some(text) => reply.bulk(text),
            None => reply.null(),
        }
        reply.bulk(b"flags");
        let flags = function.flags.names();
        reply.set(flags.len());
        for flag in flags {
            reply.simple(flag);
        }
    }
    if with_code {
        reply.bulk(b"library_code");
        reply.bulk(&library.source);
    }
}

fn function_dump(call: &mut Call<'_>) -> Result<(), Stop> {
    let functions = call.engine.scripting.take_functions();
    let sources = functions
        .libraries()
        .map(|(_, library)| &library.source[..]);
    call.reply.bulk(&libraries::encode(sources));
    call.engine.scripting.functions = Some(functions);
    Ok(())
}

fn function_restore(call: &mut Call<'_>) -> Result<(), Stop> {
    const POLICY: Error = Error::text(
        "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
    );
    let policy = match &call.args[3..] {
        [] => RestorePolicy::Append,
        [word] if is_word(word, "APPEND") => RestorePolicy::Append,
        [word] if is_word(word, "FLUSH") => RestorePolicy::Flush,
        [word] if is_word(word, "REPLACE") => RestorePolicy::Replace,
        [_] => return Err(POLICY.into()),
        _ => return Err(call.subcommand_syntax().into()),
    };
    let bad = |bad: libraries::BadLibraries| Error::owned(format!("ERR {bad}"));
    let sources = libraries::decode(call.arg(2), VersionCheck::Relaxed).map_err(bad)?;
    let mut functions = call.engine.scripting.take_functions();
    let restored = functions.restore(&sources, policy);
    call.engine.scripting.functions = Some(functions);
    restored?;
    call.reply.ok();
    Ok(())
}

fn function_stats(call: &mut Call<'_>) -> Result<(), Stop> {
    let control = &call.engine.scripting.control;
    if control.is_busy() && !control.is_function() {
        return Err(control.busy_error().into());
    }
    write_stats(control, call.reply);
    Ok(())
}

/// The reply of FUNCTION STATS: what runs, and how much there is.
fn write_stats(control: &Control, reply: &mut dyn Reply) {
    reply.map(2);
    reply.bulk(b"running_script");
    match control.busy_with() {
        None => reply.null(),
        Some((running, elapsed)) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(&running.name);
            reply.bulk(b"command");
            reply.array(running.command.len());
            for arg in &running.command {
                reply.bulk(arg);
            }
            reply.bulk(b"duration_ms");
            reply.integer(elapsed.as_millis() as i64);
        }
    }
    let (libraries, functions) = control.libraries();
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.integer(libraries as i64);
    reply.bulk(b"functions_count");
    reply.integer(functions as i64);
}
