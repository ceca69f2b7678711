//! What a script finds in its globals, and why it cannot change any of it.
//!
//! The references mark tables as read-only inside their Lua. `LuaJIT` knows no such mark, so
//! each shared table is reached through a *proxy*: an empty table whose metatable sends reads
//! to the real table and refuses writes. The real table never reaches a script. Functions that
//! go past metatables (`rawset`, `next`, `table.insert` …) are ours, and know a proxy by the
//! secret key in its metatable.
//!
//! A proxy costs a script two look-ups for each one. Most scripts use their globals *plainly*
//! (see `source`): they only read them by name. Such a script is given a table that it can
//! neither get hold of nor write to, with the real values in it and [`SHORTCUTS`] besides.

use super::{
    library,
    lua::{Outcome, Raised, Stack, Type},
};

pub const READONLY: &str = "Attempt to modify a readonly table";

/// Which set of globals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// For `EVAL`: with `KEYS` and `ARGV`.
    Script,
    /// For function libraries: with `redis.register_function`.
    Function,
}

/// Furnishes a fresh state and leaves the real table of globals on its stack.
pub fn furnish(stack: &Stack<'_>, kind: Kind) {
    stack.open_libraries();
    stack.push_globals();
    let original = stack.absolute(-1);
    stack.push_table(0, 64);
    let globals = stack.absolute(-1);
    library::base::open(stack, original, globals);
    if kind == Kind::Function {
        for name in ["__redis__err__handler", "__server__err__handler"] {
            stack.push_nil();
            stack.raw_set_field(globals, name);
        }
    }
    for (name, open) in library::TABLES {
        stack.push_table(0, 16);
        let opened = stack.absolute(-1);
        open(stack, original, opened);
        if *name == "string" {
            share_string_methods(stack, opened);
        }
        wrap(stack);
        if *name == "string" {
            show_string_metatable(stack);
        }
        stack.raw_set_field(globals, name);
    }
    open_server(stack, globals, kind);
    finish(stack, globals);
    stack.remove(original);
}

/// The server's own table under both of its names.
fn open_server(stack: &Stack<'_>, globals: i32, kind: Kind) {
    stack.push_table(0, 32);
    library::server::open(stack, stack.absolute(-1), kind);
    wrap(stack);
    stack.push_copy(-1);
    stack.raw_set_field(globals, "redis");
    stack.raw_set_field(globals, "server");
}

/// Pushes the little that the source of a library sees while it is loaded: the server's table,
/// with what registers functions.
pub fn push_loading_globals(stack: &Stack<'_>) {
    stack.push_table(0, 2);
    let globals = stack.absolute(-1);
    stack.push_table(0, 16);
    library::server::open_for_loading(stack, stack.absolute(-1));
    refuse_missing(stack);
    wrap_with_metatable(stack);
    stack.push_copy(-1);
    stack.raw_set_field(globals, "redis");
    stack.raw_set_field(globals, "server");
    refuse_missing(stack);
}

/// Makes it an error to read from the table on top what is not in it.
fn refuse_missing(stack: &Stack<'_>) {
    stack.push_table(0, 1);
    stack.push_native(missing_global);
    stack.raw_set_field(-2, "__index");
    stack.set_metatable(-2);
}

/// Has the proxy of the globals show another table, the one on top, which is popped.
pub fn show_globals(stack: &Stack<'_>) {
    stack.push_globals();
    stack.metatable(-1);
    stack.push_copy(-3);
    stack.raw_set_field(-2, "__index");
    stack.push_secret();
    stack.push_copy(-4);
    stack.raw_set(-3);
    stack.pop(3);
}

/// Functions of the server's table that plain scripts find among their globals.
pub const SHORTCUTS: [(&str, &str); 2] = [("call", "__khoa_call"), ("pcall", "__khoa_pcall")];

/// Pushes the globals of plain scripts, given the real ones.
pub fn push_plain_globals(stack: &Stack<'_>, globals: i32) {
    stack.push_table(0, 64);
    let plain = stack.absolute(-1);
    stack.push_nil();
    while stack.next(globals) {
        stack.push_copy(-2);
        stack.insert(-2);
        stack.raw_set(plain);
    }
    for name in ["KEYS", "ARGV"] {
        stack.push_table(0, 0);
        stack.raw_set_field(plain, name);
    }
    stack.raw_get_field(plain, "redis");
    push_real(stack, -1);
    for (name, shortcut) in SHORTCUTS {
        stack.raw_get_field(-1, name);
        stack.raw_set_field(plain, shortcut);
    }
    stack.pop(2);
    stack.push_table(0, 2);
    stack.push_native(missing_global);
    stack.raw_set_field(-2, "__index");
    stack.push_native(refuse_write);
    stack.raw_set_field(-2, "__newindex");
    stack.set_metatable(plain);
}

/// Puts the proxy of the globals in force and into itself.
fn finish(stack: &Stack<'_>, globals: i32) {
    stack.push_copy(globals);
    refuse_missing(stack);
    wrap_with_metatable(stack);
    stack.push_copy(-1);
    stack.raw_set_field(globals, "_G");
    stack.set_globals();
}

/// Lets `("x"):rep(3)` find the string functions.
fn share_string_methods(stack: &Stack<'_>, methods: i32) {
    stack.push_bytes(b"");
    stack.push_table(0, 2);
    stack.push_copy(methods);
    stack.raw_set_field(-2, "__index");
    stack.set_metatable(-2);
    stack.pop(1);
}

/// Shows scripts a proxy of the metatable of strings, given the proxy of their library on top.
fn show_string_metatable(stack: &Stack<'_>) {
    stack.push_bytes(b"");
    stack.metatable(-1);
    stack.push_table(0, 1);
    stack.push_copy(-4);
    stack.raw_set_field(-2, "__index");
    wrap(stack);
    stack.raw_set_field(-2, "face");
    stack.pop(2);
}

/// Replaces the table on top by its proxy.
pub fn wrap(stack: &Stack<'_>) {
    let real = stack.absolute(-1);
    stack.push_table(0, 0);
    stack.push_table(0, 4);
    stack.push_copy(real);
    stack.raw_set_field(-2, "__index");
    stack.push_native(refuse_write);
    stack.raw_set_field(-2, "__newindex");
    stack.push_secret();
    stack.push_copy(real);
    stack.raw_set(-3);
    stack.set_metatable(-2);
    stack.remove(real);
}

/// Replaces the table on top by its proxy, as which scripts also see its metatable.
fn wrap_with_metatable(stack: &Stack<'_>) {
    stack.metatable(-1);
    wrap(stack);
    stack.insert(-2);
    wrap(stack);
    stack.metatable(-1);
    stack.push_copy(-3);
    stack.raw_set_field(-2, "face");
    stack.pop(1);
    stack.remove(-2);
}

/// Pushes the real table behind a proxy; says no, and pushes nothing, for any other value.
pub fn push_real(stack: &Stack<'_>, index: i32) -> bool {
    if stack.type_of(index) != Type::Table || !stack.metatable(index) {
        return false;
    }
    stack.push_secret();
    stack.raw_get(-2);
    if stack.type_of(-1) == Type::Table {
        stack.remove(-2);
        return true;
    }
    stack.pop(2);
    false
}

/// Is the value a table that scripts may only read?
pub fn is_readonly(stack: &Stack<'_>, index: i32) -> bool {
    let readonly = push_real(stack, index);
    if readonly {
        stack.pop(1);
    }
    readonly
}

/// Refuses a change past metatables, in the words of the references.
pub fn check_writable(stack: &Stack<'_>, index: i32) -> Result<(), Raised> {
    if is_readonly(stack, index) {
        Err(stack.fail_bare(READONLY))
    } else {
        Ok(())
    }
}

fn refuse_write(stack: &Stack<'_>) -> Outcome {
    Err(stack.fail(READONLY))
}

fn missing_global(stack: &Stack<'_>) -> Outcome {
    let name = stack.text(2).unwrap_or_default();
    let mut message = b"Script attempted to access nonexistent global variable '".to_vec();
    message.extend_from_slice(name);
    message.push(b'\'');
    Err(stack.fail_bytes(&message))
}
