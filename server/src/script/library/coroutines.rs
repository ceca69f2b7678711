//! Coroutines, resumed through our own functions: they count how deeply they nest on the
//! thread's stack, and let a kill through.

use super::{add_natives, take_over};
use crate::script::lua::{Outcome, Raised, Stack, Type};

pub fn open(stack: &Stack<'_>, original: i32, coroutine: i32) {
    let names = ["running", "status", "yield"];
    take_over(stack, original, Some("coroutine"), coroutine, &names);
    add_natives!(stack, coroutine, {
        "create" => create,
        "resume" => resume,
        "wrap" => wrap,
    });
}

fn create(stack: &Stack<'_>) -> Outcome {
    if stack.type_of(1) != Type::Function || stack.is_c_function(1) {
        return Err(stack.bad_argument(1, "Lua function expected"));
    }
    stack.push_thread(1);
    Ok(1)
}

fn resume(stack: &Stack<'_>) -> Outcome {
    if stack.type_of(1) != Type::Thread {
        return Err(stack.bad_argument(1, "coroutine expected"));
    }
    match stack.resume(1, stack.top() - 1) {
        Ok(count) => {
            stack.ensure(1)?;
            stack.push_boolean(true);
            stack.insert(-(count as i32) - 1);
            Ok(count + 1)
        }
        Err(Raised) if stack.is_killed() => Err(Raised),
        Err(Raised) => {
            stack.push_boolean(false);
            stack.insert(-2);
            Ok(2)
        }
    }
}

fn wrap(stack: &Stack<'_>) -> Outcome {
    create(stack)?;
    stack.push_closure(resume_wrapped, 1);
    Ok(1)
}

fn resume_wrapped(stack: &Stack<'_>) -> Outcome {
    match stack.resume(stack.kept(1), stack.top()) {
        Ok(count) => Ok(count),
        Err(Raised) => {
            // A text gets the position of this call in front.
            match stack.text(-1).map(<[u8]>::to_vec) {
                Some(text) if !stack.is_killed() => Err(stack.fail_bytes(&text)),
                _ => Err(Raised),
            }
        }
    }
}
