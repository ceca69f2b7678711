//! The functions that scripts may call: a file for each table of the globals.
//!
//! Where `LuaJIT`'s own function does what the references' does, it is taken over by name;
//! where it differs, or could run for ever, it is written anew.

pub mod base;
pub mod coroutines;
pub mod format;
pub mod json;
pub mod maths;
pub mod msgpack;
pub mod patterns;
pub mod server;
pub mod strings;
pub mod structs;
pub mod tables;

use super::lua::{Outcome, Stack, Type};

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
    ("cjson", json::open),
    ("cmsgpack", msgpack::open),
    ("struct", structs::open),
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
        "tobit",
    ];
    take_over(stack, original, Some("bit"), bit, &names);
    add_natives!(stack, bit, { "tohex" => to_hex });
}

/// A number's lowest 32 bits, as the library takes them.
fn to_bits(value: f64) -> u32 {
    /// Adding this leaves them at the end of the double.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    (value + SHIFT).to_bits() as u32
}

/// At most eight digits, in upper case for a negative count: `LuaJIT`'s own pads much further.
fn to_hex(stack: &Stack<'_>) -> Outcome {
    let value = to_bits(stack.check_number(1)?);
    let count = match stack.type_of(2) {
        Type::None => 8,
        _ => to_bits(stack.check_number(2)?) as i32,
    };
    let digits = if count < 0 {
        format!("{value:08X}")
    } else {
        format!("{value:08x}")
    };
    let len = count.unsigned_abs().min(8) as usize;
    stack.push_bytes(&digits.as_bytes()[8 - len..]);
    Ok(1)
}
