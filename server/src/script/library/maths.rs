//! The mathematical library, with the references' own random numbers.

use std::cell::Cell;

use super::{add_natives, take_over};
use crate::script::lua::{Outcome, Raised, Stack};

pub fn open(stack: &Stack<'_>, original: i32, math: i32) {
    let names = [
        "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "exp", "floor", "frexp", "huge",
        "log10", "max", "min", "modf", "pi", "sin", "sinh", "sqrt", "tan", "tanh",
    ];
    take_over(stack, original, Some("math"), math, &names);
    add_natives!(stack, math, {
        "atan2" => atan2,
        "deg" => degrees,
        "fmod" => remainder,
        "ldexp" => load_exponent,
        "log" => log,
        "mod" => remainder,
        "pow" => power,
        "rad" => radians,
        "random" => random,
        "randomseed" => random_seed,
    });
}

/// Both arguments, of which the references look at the second first.
fn two_numbers(stack: &Stack<'_>) -> Result<(f64, f64), Raised> {
    let second = stack.check_number(2)?;
    Ok((stack.check_number(1)?, second))
}

fn atan2(stack: &Stack<'_>) -> Outcome {
    let (y, x) = two_numbers(stack)?;
    stack.push_number(y.atan2(x));
    Ok(1)
}

fn remainder(stack: &Stack<'_>) -> Outcome {
    let (dividend, divisor) = two_numbers(stack)?;
    stack.push_number(dividend % divisor);
    Ok(1)
}

fn power(stack: &Stack<'_>) -> Outcome {
    let (base, exponent) = two_numbers(stack)?;
    stack.push_number(base.powf(exponent));
    Ok(1)
}

/// In steps that neither overflow too early nor round twice among the smallest numbers.
fn load_exponent(stack: &Stack<'_>) -> Outcome {
    let mut exponent = stack.check_integer(2)? as i32;
    let mut value = stack.check_number(1)?;
    for _ in 0..2 {
        if exponent > 1023 {
            value *= 2.0_f64.powi(1023);
            exponent -= 1023;
        } else if exponent < -1022 {
            value *= 2.0_f64.powi(-969);
            exponent += 969;
        }
    }
    stack.push_number(value * 2.0_f64.powi(exponent.clamp(-1022, 1023)));
    Ok(1)
}

fn degrees(stack: &Stack<'_>) -> Outcome {
    stack.push_number(stack.check_number(1)? / RADIANS_PER_DEGREE);
    Ok(1)
}

fn radians(stack: &Stack<'_>) -> Outcome {
    stack.push_number(stack.check_number(1)? * RADIANS_PER_DEGREE);
    Ok(1)
}

const RADIANS_PER_DEGREE: f64 = std::f64::consts::PI / 180.0;

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
        1 => (1, stack.check_integer(1)? as i32),
        2 => {
            let low = stack.check_integer(1)? as i32;
            (low, stack.check_integer(2)? as i32)
        }
        _ => return Err(stack.fail("wrong number of arguments")),
    };
    if low > high {
        return Err(stack.bad_argument(stack.top(), "interval is empty"));
    }
    let span = f64::from(high.wrapping_sub(low).wrapping_add(1));
    stack.push_number((fraction * span).floor() + f64::from(low));
    Ok(1)
}

fn random_seed(stack: &Stack<'_>) -> Outcome {
    let seed = stack.check_integer(1)?;
    stack.context().session.random.seed(seed as i32);
    Ok(0)
}
