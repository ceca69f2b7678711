//! The table library: the functions that would write past a proxy or call back.

use super::{add_natives, take_over};
use crate::script::{
    lua::{Outcome, Raised, Stack, Type},
    sandbox,
};

pub fn open(stack: &Stack<'_>, original: i32, table: i32) {
    take_over(
        stack,
        original,
        Some("table"),
        table,
        &["concat", "getn", "maxn"],
    );
    add_natives!(stack, table, {
        "foreachi" => for_each_index,
        "insert" => insert,
        "remove" => remove,
        "setn" => set_len,
    });
    stack.raw_get_field(original, "table");
    stack.raw_get_field(-1, "foreach");
    stack.push_closure(for_each, 1);
    stack.raw_set_field(table, "foreach");
    stack.raw_get_field(-1, "sort");
    stack.push_closure(sort, 1);
    stack.raw_set_field(table, "sort");
    stack.pop(1);
}

/// `LuaJIT`'s own walks the table, for it alone can step on from a key that went away.
fn for_each(stack: &Stack<'_>) -> Outcome {
    stack.check_table(1)?;
    stack.check_function(2)?;
    stack.set_top(2);
    if sandbox::push_real(stack, 1) {
        stack.replace(1);
    }
    stack.push_copy(stack.kept(1));
    stack.insert(1);
    stack.call(2, None)?;
    Ok(stack.top())
}

fn for_each_index(stack: &Stack<'_>) -> Outcome {
    stack.check_table(1)?;
    stack.check_function(2)?;
    let len = stack.len(1);
    for index in 1..=len {
        stack.push_copy(2);
        stack.push_number(index as f64);
        stack.raw_get_index(1, index as i32);
        stack.call(2, Some(1))?;
        if !stack.is_nil(-1) {
            return Ok(1);
        }
        stack.pop(1);
    }
    Ok(0)
}

fn insert(stack: &Stack<'_>) -> Outcome {
    stack.check_table(1)?;
    let end = stack.len(1) as i64 + 1;
    let position = match stack.top() {
        2 => end,
        3 => stack.check_integer(2)?,
        _ => return Err(stack.fail("wrong number of arguments to 'insert'")),
    };
    sandbox::check_writable(stack, 1)?;
    let Ok(position) = i32::try_from(position) else {
        return Err(stack.bad_argument(2, "position out of bounds"));
    };
    for at in (position.saturating_add(1)..=(end as i32).max(position)).rev() {
        stack.raw_get_index(1, at - 1);
        shift_into(stack, at)?;
    }
    stack.raw_set_index(1, position);
    Ok(0)
}

/// Stores the value on top at an index, without making room for nothing.
fn shift_into(stack: &Stack<'_>, at: i32) -> Result<(), Raised> {
    if at % 4096 == 0 {
        stack.look()?;
    }
    stack.raw_get_index(1, at);
    let both_nil = stack.is_nil(-1) && stack.is_nil(-2);
    stack.pop(1);
    if both_nil {
        stack.pop(1);
    } else {
        stack.raw_set_index(1, at);
    }
    Ok(())
}

fn remove(stack: &Stack<'_>) -> Outcome {
    stack.check_table(1)?;
    let len = stack.len(1) as i64;
    let position = stack.optional_integer(2, len)?;
    if position < 1 || position > len {
        return Ok(0);
    }
    sandbox::check_writable(stack, 1)?;
    let (position, len) = (position as i32, len as i32);
    stack.raw_get_index(1, position);
    for at in position..len {
        stack.raw_get_index(1, at + 1);
        stack.raw_set_index(1, at);
    }
    stack.push_nil();
    stack.raw_set_index(1, len);
    Ok(1)
}

fn set_len(stack: &Stack<'_>) -> Outcome {
    stack.check_table(1)?;
    Err(stack.fail("'setn' is obsolete"))
}

fn sort(stack: &Stack<'_>) -> Outcome {
    stack.check_table(1)?;
    if !stack.is_nil(2) {
        stack.check_function(2)?;
    }
    stack.set_top(2);
    if stack.len(1) > 0 {
        sandbox::check_writable(stack, 1)?;
    }
    stack.push_copy(stack.kept(1));
    stack.insert(1);
    if stack.type_of(3) == Type::Nil {
        stack.pop(1);
    }
    let Err(raised) = stack.call(stack.top() - 1, Some(0)) else {
        return Ok(0);
    };
    const DISORDER: &str = "invalid order function for sorting";
    if stack.bytes(-1) == Some(DISORDER.as_bytes()) {
        return Err(stack.fail(DISORDER));
    }
    Err(raised)
}
