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
        stack.spend(200)?;
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
    stack.spend(20)?;
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
        stack.spend(20)?;
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

/// `LuaJIT`'s own calls a comparison that is written in Lua, which the hook sees. It would see
/// nothing of the others, and a well-chosen table takes the square of its length.
fn sort(stack: &Stack<'_>) -> Outcome {
    stack.check_table(1)?;
    if !stack.is_nil(2) {
        stack.check_function(2)?;
    }
    stack.set_top(2);
    let len = stack.len(1);
    if len > 0 {
        sandbox::check_writable(stack, 1)?;
    }
    if stack.is_nil(2) && sort_numbers(stack, len as i32)? {
        return Ok(0);
    }
    if stack.is_nil(2) || stack.is_c_function(2) {
        stack.ensure(200)?;
        sort_range(stack, 1, len as i32)?;
        return Ok(0);
    }
    stack.push_copy(stack.kept(1));
    stack.insert(1);
    let Err(raised) = stack.call(2, Some(0)) else {
        return Ok(0);
    };
    if stack.bytes(-1) == Some(DISORDER.as_bytes()) {
        return Err(stack.fail(DISORDER));
    }
    Err(raised)
}

/// Sorts a table of numbers, unless it has another value, or one whose place would show how it
/// was sorted: NaN, and zero with a sign.
fn sort_numbers(stack: &Stack<'_>, len: i32) -> Result<bool, Raised> {
    let mut numbers = Vec::new();
    for index in 1..=len {
        stack.spend(40)?;
        stack.raw_get_index(1, index);
        let number = match stack.type_of(-1) {
            Type::Number => stack.number(-1),
            _ => None,
        };
        stack.pop(1);
        match number {
            Some(value) if value == 0.0 && value.is_sign_negative() || value.is_nan() => {
                return Ok(false);
            }
            Some(value) => numbers.push(value),
            None => return Ok(false),
        }
    }
    numbers.sort_unstable_by(f64::total_cmp);
    for (index, number) in (1..).zip(numbers) {
        stack.push_number(number);
        stack.raw_set_index(1, index);
    }
    Ok(true)
}

const DISORDER: &str = "invalid order function for sorting";

/// Quicksort with the median of three as pivot, compared and moved in the references' order:
/// it shows where values are equal or the comparison is none.
fn sort_range(stack: &Stack<'_>, mut low: i32, mut high: i32) -> Result<(), Raised> {
    while low < high {
        if is_less_at(stack, high, low)? {
            swap(stack, low, high);
        }
        if high - low == 1 {
            break;
        }
        let middle = low + (high - low) / 2;
        if is_less_at(stack, middle, low)? {
            swap(stack, middle, low);
        } else if is_less_at(stack, high, middle)? {
            swap(stack, middle, high);
        }
        if high - low == 2 {
            break;
        }
        let pivot = partition(stack, low, high, middle)?;
        // The shorter part by recursion, so that it is never deep.
        if pivot - low < high - pivot {
            sort_range(stack, low, pivot - 1)?;
            low = pivot + 1;
        } else {
            sort_range(stack, pivot + 1, high)?;
            high = pivot - 1;
        }
    }
    Ok(())
}

/// Moves what is less than the middle value before it and what is greater behind it; tells
/// where it comes to stand.
fn partition(stack: &Stack<'_>, low: i32, high: i32, middle: i32) -> Result<i32, Raised> {
    stack.raw_get_index(1, middle);
    let pivot = stack.absolute(-1);
    swap(stack, middle, high - 1);
    let (mut left, mut right) = (low, high - 1);
    loop {
        left += 1;
        while is_less(stack, Place::At(left), Place::Stack(pivot))? {
            if left > high {
                return Err(stack.fail(DISORDER));
            }
            left += 1;
        }
        right -= 1;
        while is_less(stack, Place::Stack(pivot), Place::At(right))? {
            if right < low {
                return Err(stack.fail(DISORDER));
            }
            right -= 1;
        }
        if right < left {
            break;
        }
        swap(stack, left, right);
    }
    stack.pop(1);
    swap(stack, high - 1, left);
    Ok(left)
}

fn swap(stack: &Stack<'_>, one: i32, other: i32) {
    stack.raw_get_index(1, one);
    stack.raw_get_index(1, other);
    stack.raw_set_index(1, one);
    stack.raw_set_index(1, other);
}

/// Where a value to compare is: in the table or on the stack.
#[derive(Clone, Copy)]
enum Place {
    At(i32),
    Stack(i32),
}

fn is_less_at(stack: &Stack<'_>, one: i32, other: i32) -> Result<bool, Raised> {
    is_less(stack, Place::At(one), Place::At(other))
}

fn is_less(stack: &Stack<'_>, one: Place, other: Place) -> Result<bool, Raised> {
    let by_function = !stack.is_nil(2);
    if by_function {
        stack.push_copy(2);
    }
    for place in [one, other] {
        match place {
            Place::At(index) => stack.raw_get_index(1, index),
            Place::Stack(index) => stack.push_copy(index),
        }
    }
    if by_function {
        stack.spend(200)?;
        return call_comparison(stack);
    }
    stack.spend(30)?;
    let less = match (stack.type_of(-2), stack.type_of(-1)) {
        (Type::Number, Type::Number) => stack.number(-2) < stack.number(-1),
        (Type::String, Type::String) => {
            let (one, other) = (stack.bytes(-2), stack.bytes(-1));
            let common = one.map_or(0, <[u8]>::len).min(other.map_or(0, <[u8]>::len));
            stack.spend(common / 16)?;
            one < other
        }
        _ => return compare_otherwise(stack),
    };
    stack.pop(2);
    Ok(less)
}

fn call_comparison(stack: &Stack<'_>) -> Result<bool, Raised> {
    stack.call(2, Some(1))?;
    let less = stack.boolean(-1);
    stack.pop(1);
    Ok(less)
}

/// Compares the two values on top, which are popped, by the metamethod that they share.
fn compare_otherwise(stack: &Stack<'_>) -> Result<bool, Raised> {
    let (one, other) = (stack.absolute(-2), stack.absolute(-1));
    if stack.metafield(one, "__lt") {
        if stack.metafield(other, "__lt") {
            if stack.raw_equal(-1, -2) {
                stack.pop(1);
                stack.insert(one);
                return call_comparison(stack);
            }
            stack.pop(1);
        }
        stack.pop(1);
    }
    let (one, other) = (stack.type_of(one).name(), stack.type_of(other).name());
    // The references take names for the same by their third letter.
    Err(
        stack.fail_bare(&if one.as_bytes()[2] == other.as_bytes()[2] {
            format!("attempt to compare two {one} values")
        } else {
            format!("attempt to compare {one} with {other}")
        }),
    )
}
