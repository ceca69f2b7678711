//! The functions that scripts may call: a file for each table of the globals.
//!
//! Where `LuaJIT`'s own function does what the references' does, it is taken over by name;
//! where it differs, or could run for ever, it is written anew.

pub mod base;
pub mod coroutines;
pub mod format;
pub mod maths;
pub mod patterns;
pub mod server;
pub mod strings;
pub mod tables;

use super::lua::Stack;

/// Fills the new table at the second index, given `LuaJIT`'s own globals at the first.
type Open = fn(&Stack<'_>, i32, i32);

/// The tables of the globals and what fills them.
pub const TABLES: &[(&str, Open)] = &[
    ("string", strings::open),
    ("table", tables::open),
    ("math", maths::open),
    ("coroutine", coroutines::open),
    ("os", open_os),
    ("bit", open_bit),
];

/// Takes functions over from `LuaJIT`'s table of the name, or from its globals.
fn take_over(stack: &Stack<'_>, original: i32, table: Option<&str>, target: i32, names: &[&str]) {
    match table {
        Some(table) => {
            stack.raw_get_field(original, table);
        }
        None => stack.push_copy(original),
    }
    for name in names {
        stack.raw_get_field(-1, name);
        stack.raw_set_field(target, name);
    }
    stack.pop(1);
}

/// Adds natives to the table at `target`.
macro_rules! add_natives {
    ($stack:expr, $target:expr, { $($name:literal => $native:path),* $(,)? }) => {
        $(
            $stack.push_native($native);
            $stack.raw_set_field($target, $name);
        )*
    };
}
use add_natives;

fn open_os(stack: &Stack<'_>, original: i32, os: i32) {
    take_over(stack, original, Some("os"), os, &["clock"]);
}

fn open_bit(stack: &Stack<'_>, original: i32, bit: i32) {
    let names = [
        "arshift", "band", "bnot", "bor", "bswap", "bxor", "lshift", "rol", "ror", "rshift",
        "tobit", "tohex",
    ];
    take_over(stack, original, Some("bit"), bit, &names);
}
