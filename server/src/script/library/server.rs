//! The server's own table, `redis` and `server`.

use sha1_smol::Sha1;
use smallvec::SmallVec;

use super::add_natives;
use crate::{
    reply::Protocol,
    script::{
        Flags, LogLevel,
        convert::{ToLua, c_string, push_error},
        functions::Registered,
        lua::{Argument, Outcome, Raised, Stack, Type},
        numbers, sandbox,
    },
};

/// What `REDIS_VERSION` says, for scripts that choose by it.
const REDIS_VERSION: (u8, u8, u8) = (7, 2, 4);
const VALKEY_VERSION: (u8, u8, u8) = (9, 1, 2);

pub fn open(stack: &Stack<'_>, table: i32, kind: sandbox::Kind) {
    add_natives!(stack, table, {
        "acl_check_cmd" => acl_check_cmd,
        "call" => call,
        "error_reply" => error_reply,
        "log" => log,
        "pcall" => pcall,
        "set_repl" => set_repl,
        "setresp" => setresp,
        "sha1hex" => sha1hex,
        "status_reply" => status_reply,
    });
    if kind == sandbox::Kind::Script {
        add_natives!(stack, table, {
            "breakpoint" => breakpoint,
            "debug" => debug,
            "replicate_commands" => replicate_commands,
        });
    }
    let constants = [
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
    ];
    add_constants(stack, table, &constants);
    add_identity(stack, table);
}

/// What there is of the table while a library is loaded.
pub fn open_for_loading(stack: &Stack<'_>, table: i32) {
    add_natives!(stack, table, {
        "log" => log,
        "register_function" => register_function,
    });
    add_identity(stack, table);
}

fn add_constants(stack: &Stack<'_>, table: i32, constants: &[(&str, i32)]) {
    for (name, value) in constants {
        stack.push_number(f64::from(*value));
        stack.raw_set_field(table, name);
    }
}

/// The levels of the log, and what the server is.
fn add_identity(stack: &Stack<'_>, table: i32) {
    let levels = [
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
    ];
    add_constants(stack, table, &levels);
    add_version(stack, table, "REDIS", REDIS_VERSION);
    add_version(stack, table, "VALKEY", VALKEY_VERSION);
    stack.push_bytes(b"khoa");
    stack.raw_set_field(table, "SERVER_NAME");
}

fn add_version(stack: &Stack<'_>, table: i32, name: &str, (major, minor, patch): (u8, u8, u8)) {
    stack.push_bytes(format!("{major}.{minor}.{patch}").as_bytes());
    stack.raw_set_field(table, &format!("{name}_VERSION"));
    let number = u32::from(major) << 16 | u32::from(minor) << 8 | u32::from(patch);
    stack.push_number(f64::from(number));
    stack.raw_set_field(table, &format!("{name}_VERSION_NUM"));
}

/// Runs a command and raises its error.
fn call(stack: &Stack<'_>) -> Outcome {
    let failed = run_command(stack)?;
    if failed { Err(Raised) } else { Ok(1) }
}

/// Runs a command and returns its error.
fn pcall(stack: &Stack<'_>) -> Outcome {
    match run_command(stack) {
        Err(Raised) if stack.is_killed() => Err(Raised),
        // The error of an argument comes back as a table too.
        _ => Ok(1),
    }
}

/// Pushes the reply of the command that the arguments make up; tells whether it is an error.
fn run_command(stack: &Stack<'_>) -> Result<bool, Raised> {
    let mut arguments = Arguments::new();
    read_arguments(stack, &mut arguments)?;
    let mut reply = ToLua::new(stack, stack.context().session.resp.get());
    let ran = stack.with_host(|host| host.call(&arguments, &mut reply));
    let failed = reply.finish();
    if ran.is_none() {
        push_error(
            stack,
            b"ERR server.call/pcall can only be called inside a script invocation",
        );
        return Err(Raised);
    }
    if stack.context().control.take_slow() {
        stack.look()?;
    }
    Ok(failed)
}

type Arguments<'s> = SmallVec<[&'s [u8]; 12]>;

/// The arguments as byte strings; numbers are rewritten in their places on the stack.
fn read_arguments<'s>(stack: &'s Stack<'_>, out: &mut Arguments<'s>) -> Result<(), Raised> {
    let count = stack.top();
    if count == 0 {
        push_error(
            stack,
            b"ERR Please specify at least one argument for this call",
        );
        return Err(Raised);
    }
    for index in 1..=count as i32 {
        match stack.argument(index) {
            Argument::Text(bytes) => out.push(bytes),
            Argument::Number(value) => {
                let mut text = Vec::with_capacity(24);
                numbers::write_argument(value, &mut text);
                stack.push_bytes(&text);
                stack.replace(index);
                out.push(stack.bytes(index).unwrap_or_default());
            }
            Argument::Other => {
                push_error(stack, b"ERR Command arguments must be strings or integers");
                return Err(Raised);
            }
        }
    }
    Ok(())
}

fn raise(stack: &Stack<'_>, message: &[u8]) -> Outcome {
    push_error(stack, message);
    Err(Raised)
}

fn error_reply(stack: &Stack<'_>) -> Outcome {
    if stack.top() != 1 || stack.type_of(1) != Type::String {
        return push_wrong_reply(stack);
    }
    let text = stack.bytes(1).unwrap_or_default();
    // A lone word has no code of its own.
    let text = c_string(text.strip_prefix(b"-").unwrap_or(text));
    let message = if text.contains(&b' ') {
        text.to_vec()
    } else {
        [b"ERR ", text].concat()
    };
    push_error(stack, &message);
    Ok(1)
}

fn push_wrong_reply(stack: &Stack<'_>) -> Outcome {
    push_error(stack, b"ERR wrong number or type of arguments");
    Ok(1)
}

fn status_reply(stack: &Stack<'_>) -> Outcome {
    if stack.top() != 1 || stack.type_of(1) != Type::String {
        return push_wrong_reply(stack);
    }
    stack.push_table(0, 1);
    stack.push_copy(1);
    stack.raw_set_field(-2, "ok");
    Ok(1)
}

fn sha1hex(stack: &Stack<'_>) -> Outcome {
    if stack.top() != 1 {
        return raise(stack, b"ERR wrong number of arguments");
    }
    let mut sha1 = Sha1::new();
    for piece in stack.text(1).unwrap_or_default().chunks(1 << 16) {
        sha1.update(piece);
        stack.spend(piece.len() * 2)?;
    }
    stack.push_bytes(sha1.digest().to_string().as_bytes());
    Ok(1)
}

fn log(stack: &Stack<'_>) -> Outcome {
    let count = stack.top();
    if count < 2 {
        return raise(stack, b"ERR server.log() requires two arguments or more.");
    }
    let Some(level) = stack.number(1) else {
        return raise(stack, b"ERR First argument must be a number (log level).");
    };
    let level = match numbers::truncate(level) {
        0 => LogLevel::Debug,
        1 => LogLevel::Verbose,
        2 => LogLevel::Notice,
        3 => LogLevel::Warning,
        _ => return raise(stack, b"ERR Invalid log level."),
    };
    /// A line of the log is cut here, as in the references.
    const LINE_MAX: usize = 1024;
    let mut message = Vec::new();
    for index in 2..=count as i32 {
        if let Some(text) = stack.text(index) {
            if index > 2 {
                message.push(b' ');
            }
            let room = LINE_MAX.saturating_sub(message.len());
            message.extend_from_slice(&text[..text.len().min(room)]);
        }
    }
    stack.with_host(|host| host.log(level, &message));
    Ok(0)
}

fn setresp(stack: &Stack<'_>) -> Outcome {
    if stack.top() != 1 {
        return raise(stack, b"ERR server.setresp() requires one argument.");
    }
    let protocol = match stack.number(1).map(numbers::truncate) {
        Some(2) => Protocol::Resp2,
        Some(3) => Protocol::Resp3,
        _ => return raise(stack, b"ERR RESP version must be 2 or 3."),
    };
    stack.context().session.resp.set(protocol);
    Ok(0)
}

/// Every effect of a script is replicated in one way here, so this only checks its argument.
fn set_repl(stack: &Stack<'_>) -> Outcome {
    if stack.top() != 1 {
        return raise(stack, b"ERR server.set_repl() requires one argument.");
    }
    let flags = stack.number(1).map(numbers::truncate).unwrap_or_default();
    if flags & !3 != 0 {
        let message = "ERR Invalid replication flags. \
                       Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
        return raise(stack, message.as_bytes());
    }
    Ok(0)
}

fn replicate_commands(stack: &Stack<'_>) -> Outcome {
    stack.push_boolean(true);
    Ok(1)
}

/// There is no debugger to stop for.
fn breakpoint(stack: &Stack<'_>) -> Outcome {
    stack.push_boolean(false);
    Ok(1)
}

fn debug(_stack: &Stack<'_>) -> Outcome {
    Ok(0)
}

fn acl_check_cmd(stack: &Stack<'_>) -> Outcome {
    let mut arguments = Arguments::new();
    read_arguments(stack, &mut arguments)?;
    let allowed = stack.with_host(|host| host.acl_check(&arguments)).flatten();
    match allowed {
        Some(allowed) => {
            stack.push_boolean(allowed);
            Ok(1)
        }
        None => raise(
            stack,
            b"ERR Invalid command passed to server.acl_check_cmd()",
        ),
    }
}

/// Registers a function of the library that is being loaded, by position or by name.
fn register_function(stack: &Stack<'_>) -> Outcome {
    if !stack.context().session.is_loading() {
        let message = "ERR server.register_function can only be called on FUNCTION LOAD command";
        return raise(stack, message.as_bytes());
    }
    let function = match stack.top() {
        1 => register_named(stack),
        2 => register_positional(stack),
        _ => Err("wrong number of arguments to server.register_function"),
    };
    match function {
        Ok(function) => {
            stack.context().session.register(function);
            Ok(0)
        }
        Err(problem) => raise(stack, format!("ERR {problem}").as_bytes()),
    }
}

fn register_positional(stack: &Stack<'_>) -> Result<Registered, &'static str> {
    let Some(name) = stack.text(1).map(<[u8]>::to_vec) else {
        return Err("first argument to server.register_function must be a string");
    };
    if stack.type_of(2) != Type::Function {
        return Err("second argument to server.register_function must be a function");
    }
    stack.push_copy(2);
    Ok(Registered {
        name,
        callback: stack.keep(),
        ..Registered::default()
    })
}

fn register_named(stack: &Stack<'_>) -> Result<Registered, &'static str> {
    if stack.type_of(1) != Type::Table {
        return Err(
            "calling server.register_function with a single argument is only \
                    applicable to Lua table (representing named arguments).",
        );
    }
    let (mut name, mut callback) = (None, None);
    let mut function = Registered::default();
    stack.push_nil();
    while stack.next(1) {
        match stack.bytes(-2).unwrap_or_default() {
            b"function_name" => {
                name = stack.text(-1).map(<[u8]>::to_vec);
                if name.is_none() {
                    return Err(
                        "function_name argument given to server.register_function must be a string",
                    );
                }
            }
            b"description" => {
                function.description = stack.text(-1).map(<[u8]>::to_vec);
                if function.description.is_none() {
                    return Err(
                        "description argument given to server.register_function must be a string",
                    );
                }
            }
            b"callback" => {
                if stack.type_of(-1) != Type::Function {
                    return Err(
                        "callback argument given to server.register_function must be a function",
                    );
                }
                stack.push_copy(-1);
                callback = Some(stack.keep());
            }
            b"flags" => function.flags = read_flags(stack)?,
            _ => return Err("unknown argument given to server.register_function"),
        }
        stack.pop(1);
    }
    function.name = name.ok_or("server.register_function must get a function name argument")?;
    function.callback = callback.ok_or("server.register_function must get a callback argument")?;
    Ok(function)
}

/// Reads the list of flags on top of the stack.
fn read_flags(stack: &Stack<'_>) -> Result<Flags, &'static str> {
    if stack.type_of(-1) != Type::Table {
        return Err(
            "flags argument to server.register_function must be a table representing function flags",
        );
    }
    let mut flags = Flags {
        declared: true,
        ..Flags::default()
    };
    for index in 1.. {
        stack.raw_get_index(-1, index);
        if stack.is_nil(-1) {
            stack.pop(1);
            break;
        }
        if !flags.add(stack.bytes(-1).unwrap_or_default()) {
            return Err("unknown flag given");
        }
        stack.pop(1);
    }
    Ok(flags)
}
