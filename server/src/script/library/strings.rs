//! The string library, apart from patterns and `format`.

use super::{add_natives, format, patterns, take_over};
use crate::script::lua::{Outcome, Stack};

pub fn open(stack: &Stack<'_>, original: i32, string: i32) {
    let names = [
        "byte", "char", "dump", "len", "lower", "reverse", "sub", "upper",
    ];
    take_over(stack, original, Some("string"), string, &names);
    add_natives!(stack, string, {
        "find" => patterns::find,
        "format" => format::format,
        "gfind" => patterns::gmatch,
        "gmatch" => patterns::gmatch,
        "gsub" => patterns::gsub,
        "match" => patterns::match_,
        "rep" => repeat,
    });
}

fn repeat(stack: &Stack<'_>) -> Outcome {
    let text = stack.check_text(1)?;
    let count = usize::try_from(stack.check_integer(2)?).unwrap_or(0);
    if text.is_empty() {
        stack.push_bytes(b"");
        return Ok(1);
    }
    stack.check_memory(text.len().saturating_mul(count))?;
    stack.push_bytes(&text.repeat(count));
    Ok(1)
}
