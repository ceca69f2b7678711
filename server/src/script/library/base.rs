//! The base library: what is different about it in a sandbox, and what `LuaJIT` does otherwise.

use super::{add_natives, take_over};
use crate::script::{
    convert::c_string,
    lua::{Outcome, Raised, Stack, Type},
    numbers, sandbox, source,
};

pub fn open(stack: &Stack<'_>, original: i32, globals: i32) {
    let names = ["error", "gcinfo", "rawequal", "select", "type", "unpack"];
    take_over(stack, original, None, globals, &names);
    add_natives!(stack, globals, {
        "__redis__err__handler" => pass_error,
        "__server__err__handler" => pass_error,
        "assert" => assert,
        "collectgarbage" => collect_garbage,
        "getmetatable" => get_metatable,
        "load" => load,
        "loadstring" => load_string,
        "pcall" => protected_call,
        "rawget" => raw_get,
        "rawset" => raw_set,
        "setmetatable" => set_metatable,
        "tonumber" => to_number,
        "tostring" => to_string,
        "xpcall" => handled_call,
    });
    stack.push_next_function();
    stack.raw_set_field(globals, "next");
    stack.raw_get_field(original, "next");
    stack.push_closure(pairs, 1);
    stack.raw_set_field(globals, "pairs");
    stack.raw_get_field(original, "ipairs");
    stack.push_table(0, 0);
    // The function that steps, which it gives to every loop.
    if stack.call(1, Some(1)).is_ok() {
        stack.push_closure(ipairs, 1);
        stack.raw_set_field(globals, "ipairs");
    }
    stack.push_bytes(b"Lua 5.1");
    stack.raw_set_field(globals, "_VERSION");
}

/// Makes an error table of a text and lets one pass.
fn pass_error(stack: &Stack<'_>) -> Outcome {
    stack.set_top(1);
    if stack.type_of(1) != Type::Table {
        let text = [b"ERR ", stack.text(1).unwrap_or_default()].concat();
        stack.push_table(0, 1);
        stack.push_bytes(&text);
        stack.raw_set_field(-2, "err");
    }
    Ok(1)
}

fn assert(stack: &Stack<'_>) -> Outcome {
    stack.check_any(1)?;
    if stack.boolean(1) {
        return Ok(stack.top());
    }
    let message = if stack.is_nil(2) {
        &b"assertion failed!"[..]
    } else {
        stack.check_text(2)?
    };
    Err(stack.fail_bytes(message))
}

/// The options that would change how the state collects do nothing, for it is shared.
fn collect_garbage(stack: &Stack<'_>) -> Outcome {
    let option = if stack.is_nil(1) {
        &b"collect"[..]
    } else {
        stack.check_text(1)?
    };
    let result = match option {
        b"collect" => {
            collect_all(stack)?;
            0.0
        }
        b"count" => stack.used_memory() as f64 / 1024.0,
        b"step" => {
            let size = stack.optional_integer(2, 0)?;
            let done = stack.collect((size > 0).then_some(size)) || size <= 0;
            stack.push_boolean(done);
            return Ok(1);
        }
        b"setpause" | b"setstepmul" => 200.0,
        b"stop" | b"restart" => 0.0,
        other => {
            let option = String::from_utf8_lossy(other);
            return Err(stack.bad_argument(1, &format!("invalid option '{option}'")));
        }
    };
    stack.push_number(result);
    Ok(1)
}

/// Where there is much to collect, it is done in steps, so that the script can be ended.
fn collect_all(stack: &Stack<'_>) -> Result<(), Raised> {
    const MUCH: usize = 64 << 20;
    const STEP: usize = 2000;
    if stack.used_memory() < MUCH {
        stack.collect(None);
        return Ok(());
    }
    // What the cycle at hand takes for alive only the next one can free.
    for _ in 0..2 {
        while !stack.collect(Some(0)) {
            stack.spend(STEP)?;
        }
    }
    Ok(())
}

fn get_metatable(stack: &Stack<'_>) -> Outcome {
    stack.check_any(1)?;
    if !stack.metatable(1) {
        stack.push_nil();
        return Ok(1);
    }
    // A proxy shows no metatable, or the face that was made for it.
    stack.push_secret();
    stack.raw_get(-2);
    let shown = if stack.is_nil(-1) {
        "__metatable"
    } else {
        "face"
    };
    stack.pop(1);
    if stack.type_of(1) == Type::String {
        stack.raw_get_field(-1, "face");
    } else if stack.raw_get_field(-1, shown) == Type::Nil && shown == "__metatable" {
        stack.pop(1);
    }
    Ok(1)
}

fn set_metatable(stack: &Stack<'_>) -> Outcome {
    stack.check_table(1)?;
    if !matches!(stack.type_of(2), Type::Nil | Type::Table) {
        return Err(stack.bad_argument(2, "nil or table expected"));
    }
    if stack.metatable(1) {
        stack.pop(1);
        sandbox::check_writable(stack, 1)?;
        if stack.metafield(1, "__metatable") {
            return Err(stack.fail("cannot change a protected metatable"));
        }
    }
    stack.set_top(2);
    stack.set_metatable(1);
    Ok(1)
}

fn raw_get(stack: &Stack<'_>) -> Outcome {
    stack.check_table(1)?;
    stack.check_any(2)?;
    stack.set_top(2);
    if sandbox::push_real(stack, 1) {
        stack.replace(1);
    }
    stack.raw_get(1);
    Ok(1)
}

fn raw_set(stack: &Stack<'_>) -> Outcome {
    stack.check_table(1)?;
    stack.check_any(2)?;
    stack.check_any(3)?;
    sandbox::check_writable(stack, 1)?;
    check_key(stack, 2)?;
    stack.set_top(3);
    stack.raw_set(1);
    Ok(1)
}

fn check_key(stack: &Stack<'_>, index: i32) -> Result<(), Raised> {
    match stack.type_of(index) {
        Type::Nil => Err(stack.fail_bare("table index is nil")),
        Type::Number if stack.number(index).is_some_and(f64::is_nan) => {
            Err(stack.fail_bare("table index is NaN"))
        }
        _ => Ok(()),
    }
}

/// `LuaJIT` walks a table fastest by its own `next`; only a proxy needs ours.
fn pairs(stack: &Stack<'_>) -> Outcome {
    stack.check_table(1)?;
    if sandbox::is_readonly(stack, 1) {
        stack.push_next_function();
    } else {
        stack.push_copy(stack.kept(1));
    }
    stack.push_copy(1);
    stack.push_nil();
    Ok(3)
}

fn ipairs(stack: &Stack<'_>) -> Outcome {
    stack.check_table(1)?;
    stack.push_copy(stack.kept(1));
    stack.push_copy(1);
    stack.push_number(0.0);
    Ok(3)
}

/// The error of a command, a table, reaches the caller of `pcall` as its text.
fn protected_call(stack: &Stack<'_>) -> Outcome {
    if stack.top() == 0 {
        stack.push_bytes(b"attempt to call a boolean value");
        return failed(stack);
    }
    if let Ok(()) = stack.call(stack.top() - 1, None) {
        succeeded(stack)
    } else {
        if stack.is_killed() {
            return Err(Raised);
        }
        if stack.type_of(-1) == Type::Table {
            stack.raw_get_field(-1, "err");
            if stack.text(-1).is_none() {
                stack.pop(1);
            }
        }
        failed(stack)
    }
}

fn handled_call(stack: &Stack<'_>) -> Outcome {
    stack.check_any(2)?;
    stack.set_top(2);
    stack.push_closure(handle, 1);
    stack.insert(1);
    let outcome = stack.call_handled(0, 1);
    stack.remove(1);
    match outcome {
        Ok(()) => succeeded(stack),
        Err(Raised) if stack.is_killed() => Err(Raised),
        Err(Raised) => failed(stack),
    }
}

/// Stands before a script's error handler. The error of a kill is raised within the hook,
/// where no hook could end a handler that loops.
fn handle(stack: &Stack<'_>) -> Outcome {
    if stack.is_killed() {
        return Ok(1);
    }
    stack.set_top(1);
    stack.push_copy(stack.kept(1));
    stack.insert(1);
    // The handler's own error takes the place of the first.
    let _result = stack.call(1, Some(1));
    Ok(1)
}

fn succeeded(stack: &Stack<'_>) -> Outcome {
    stack.ensure(1)?;
    stack.push_boolean(true);
    stack.insert(1);
    Ok(stack.top())
}

fn failed(stack: &Stack<'_>) -> Outcome {
    stack.push_boolean(false);
    stack.insert(-2);
    Ok(2)
}

fn load_string(stack: &Stack<'_>) -> Outcome {
    let text = stack.check_text(1)?;
    let name = if stack.is_nil(2) {
        text
    } else {
        stack.check_text(2)?
    };
    compile(stack, text, name)
}

/// Loads the pieces that a function gives until it gives nothing.
fn load(stack: &Stack<'_>) -> Outcome {
    stack.check_function(1)?;
    let name = if stack.is_nil(2) {
        b"=(load)".to_vec()
    } else {
        stack.check_text(2)?.to_vec()
    };
    let mut text = Vec::new();
    loop {
        stack.look()?;
        stack.push_copy(1);
        if stack.call(0, Some(1)).is_err() {
            if stack.is_killed() {
                return Err(Raised);
            }
            stack.push_nil();
            stack.insert(-2);
            return Ok(2);
        }
        match stack.text(-1) {
            Some(b"") => break,
            Some(piece) => {
                stack.check_memory(text.len() + piece.len())?;
                text.extend_from_slice(piece);
            }
            None if stack.is_nil(-1) => break,
            None => return Err(stack.fail("reader function must return a string")),
        }
        stack.pop(1);
    }
    compile(stack, &text, &name)
}

/// Pushes the compiled function, or nil and what is wrong. Only text is loaded: bytecode could
/// do anything.
pub fn compile(stack: &Stack<'_>, text: &[u8], name: &[u8]) -> Outcome {
    if text.first() == Some(&0x1B) {
        stack.push_nil();
        let message = [&chunk_name(name), &b": bad binary format"[..]].concat();
        stack.push_bytes(&message);
        return Ok(2);
    }
    let adapted = source::adapt(text);
    if stack.load(&adapted.text, name).is_ok() {
        return Ok(1);
    }
    if stack.is_killed() {
        return Err(Raised);
    }
    let message = adapted.restore(stack.bytes(-1).unwrap_or_default());
    stack.push_nil();
    stack.push_bytes(&message);
    Ok(2)
}

fn chunk_name(name: &[u8]) -> Vec<u8> {
    name.strip_prefix(b"@")
        .or(name.strip_prefix(b"="))
        .unwrap_or(b"[string]")
        .to_vec()
}

fn to_number(stack: &Stack<'_>) -> Outcome {
    let base = stack.optional_integer(2, 10)?;
    stack.check_any(1)?;
    let number = if base == 10 {
        stack.number(1)
    } else {
        let text = stack.check_text(1)?;
        if !(2..=36).contains(&base) {
            return Err(stack.bad_argument(2, "base out of range"));
        }
        parse_in_base(text, base as u32)
    };
    match number {
        Some(number) => stack.push_number(number),
        None => stack.push_nil(),
    }
    Ok(1)
}

/// Reads an unsigned integer as C's `strtoul` does: a sign and, in base 16, `0x` may lead.
fn parse_in_base(text: &[u8], base: u32) -> Option<f64> {
    let text = std::str::from_utf8(c_string(text))
        .ok()?
        .trim_matches([' ', '\t', '\n', '\r', '\x0B', '\x0C']);
    let (negative, mut digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if base == 16 {
        digits = digits
            .strip_prefix("0x")
            .or(digits.strip_prefix("0X"))
            .unwrap_or(digits);
    }
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(base)) {
        return None;
    }
    let value = u64::from_str_radix(digits, base).unwrap_or(u64::MAX);
    Some(if negative {
        value.wrapping_neg() as f64
    } else {
        value as f64
    })
}

fn to_string(stack: &Stack<'_>) -> Outcome {
    stack.check_any(1)?;
    if stack.metatable(1) {
        stack.pop(1);
        if stack.metafield(1, "__tostring") {
            stack.push_copy(1);
            stack.call(1, Some(1))?;
            return Ok(1);
        }
    }
    push_string_of(stack, 1);
    Ok(1)
}

/// Pushes what `tostring` makes of a value without a metamethod of its own.
pub fn push_string_of(stack: &Stack<'_>, index: i32) {
    match stack.type_of(index) {
        Type::String => stack.push_copy(index),
        Type::Number => {
            let number = stack.number(index).unwrap_or_default();
            if let Some(name) = numbers::name_of_special(number) {
                stack.push_bytes(name.as_bytes());
            } else {
                stack.push_copy(index);
                stack.text(-1);
            }
        }
        Type::Boolean => {
            stack.push_bytes(if stack.boolean(index) {
                b"true"
            } else {
                b"false"
            });
        }
        Type::Nil | Type::None => stack.push_bytes(b"nil"),
        kind => {
            let text = match stack.address(index) {
                0 => format!("{}: (nil)", kind.name()),
                address => format!("{}: {address:#x}", kind.name()),
            };
            stack.push_bytes(text.as_bytes());
        }
    }
}
