//! The string library, apart from patterns and `format`.

use super::{add_natives, format, patterns, take_over};
use crate::script::lua::{Outcome, Stack};

pub fn open(stack: &Stack<'_>, original: i32, string: i32) {
    let names = ["byte", "char", "dump", "lower", "reverse", "sub", "upper"];
    take_over(stack, original, Some("string"), string, &names);
    add_natives!(stack, string, {
        "find" => patterns::find,
        "format" => format::format,
        "gfind" => patterns::gmatch,
        "gmatch" => patterns::gmatch,
        "gsub" => patterns::gsub,
        "len" => length,
        "match" => patterns::match_,
        "rep" => repeat,
    });
}

fn length(stack: &Stack<'_>) -> Outcome {
    stack.push_number(stack.check_text(1)?.len() as f64);
    Ok(1)
}

fn repeat(stack: &Stack<'_>) -> Outcome {
    let text = stack.check_text(1)?;
    let count = usize::try_from(stack.check_integer(2)?).unwrap_or(0);
    if text.is_empty() {
        stack.push_bytes(b"");
        return Ok(1);
    }
    stack.check_memory(text.len().saturating_mul(count))?;
    stack.spend(text.len() * count)?;
    stack.push_bytes(&text.repeat(count));
    Ok(1)
}
