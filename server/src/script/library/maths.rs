//! The mathematical library, with the references' own random numbers.

use std::cell::Cell;

use super::{add_natives, take_over};
use crate::script::lua::{Outcome, Stack};

pub fn open(stack: &Stack<'_>, original: i32, math: i32) {
    let names = [
        "abs", "acos", "asin", "atan", "atan2", "ceil", "cos", "cosh", "deg", "exp", "floor",
        "fmod", "frexp", "huge", "ldexp", "log10", "max", "min", "modf", "pi", "pow", "rad", "sin",
        "sinh", "sqrt", "tan", "tanh",
    ];
    take_over(stack, original, Some("math"), math, &names);
    stack.raw_get_field(math, "fmod");
    stack.raw_set_field(math, "mod");
    add_natives!(stack, math, {
        "log" => log,
        "random" => random,
        "randomseed" => random_seed,
    });
}

fn log(stack: &Stack<'_>) -> Outcome {
    stack.push_number(stack.check_number(1)?.ln());
    Ok(1)
}

/// The 48-bit linear congruential generator of `drand48`, which begins as C's does.
pub struct Random(Cell<u64>);

impl Default for Random {
    fn default() -> Self {
        Random(Cell::new(0x1234_ABCD_330E))
    }
}

impl Random {
    pub fn seed(&self, seed: i32) {
        self.0.set(u64::from(seed as u32) << 16 | 0x330E);
    }

    /// The next number of 31 bits.
    fn next(&self) -> i32 {
        let state = self.0.get().wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & 0xFFFF_FFFF_FFFF;
        self.0.set(state);
        (state >> 17) as i32
    }
}

fn random(stack: &Stack<'_>) -> Outcome {
    const RANGE: i32 = i32::MAX;
    let random = &stack.context().session.random;
    let fraction = f64::from(random.next() % RANGE) / f64::from(RANGE);
    let (low, high) = match stack.top() {
        0 => {
            stack.push_number(fraction);
            return Ok(1);
        }
        1 => (1, stack.check_integer(1)?),
        2 => (stack.check_integer(1)?, stack.check_integer(2)?),
        _ => return Err(stack.fail("wrong number of arguments")),
    };
    if low > high {
        return Err(stack.bad_argument(stack.top(), "interval is empty"));
    }
    let span = high.wrapping_sub(low).wrapping_add(1) as f64;
    stack.push_number((fraction * span).floor() + low as f64);
    Ok(1)
}

fn random_seed(stack: &Stack<'_>) -> Outcome {
    let seed = stack.check_integer(1)?;
    stack.context().session.random.seed(seed as i32);
    Ok(0)
}
