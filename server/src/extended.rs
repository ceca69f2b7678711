//! Floating point with 64 bits of mantissa, as INCRBYFLOAT reckons.
//!
//! The references add in the x86 extended format and print 17 decimals. In it 0.1 + 0.2 prints
//! as 0.3, which doubles do not give. Rust has no such type, so the little that is needed, to
//! read, add and print, is done here on integers, exactly rounded.

use std::fmt::Write;

use crate::number::{Hexadecimal, parse_exponent, strip_hexadecimal};

/// A number `± mantissa × 2^exponent` with the mantissa's top bit set, or zero, or infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    negative: bool,
    mantissa: u64,
    exponent: i32,
    infinite: bool,
}

/// The largest exponent of the format, for a mantissa taken as an integer.
const EXPONENT_MAX: i32 = 16383 - 63;
/// Half of the least number of the format, which is the largest that rounds to zero. What lies
/// between it and the least normal number is kept with all bits, of which nothing shows.
const EXPONENT_MIN: i32 = -16446 - 63;
/// The longest text that is read as a number, in bytes: what can be printed can be read.
const TEXT_MAX: usize = 5 * 1024 - 1;
/// Beyond these powers of ten every number is infinite, or zero.
const POWER_MAX: i64 = 5000;

impl Extended {
    pub const ZERO: Extended = Extended {
        negative: false,
        mantissa: 0,
        exponent: 0,
        infinite: false,
    };

    /// Reads a decimal or hexadecimal number, or `inf` and `infinity` in any case with a sign.
    pub fn parse(text: &[u8]) -> Option<Extended> {
        if text.is_empty() || text.len() > TEXT_MAX {
            return None;
        }
        let (negative, rest) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] | rest => (false, rest),
        };
        if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") {
            return Some(Extended {
                negative,
                infinite: true,
                ..Extended::ZERO
            });
        }
        let (magnitude, is_zero) = if let Some(digits) = strip_hexadecimal(rest) {
            let read = Hexadecimal::parse(digits)?;
            let value = u128::from(read.mantissa);
            let magnitude = rounded(false, value, read.exponent, read.sticky);
            (magnitude, value == 0)
        } else {
            let (digits, power) = decimal(rest)?;
            let is_zero = digits.is_zero();
            (scaled(digits, power), is_zero)
        };
        // What is out of range is no number, and infinity must be asked for by name.
        let vanished = magnitude.mantissa == 0 && !is_zero;
        let value = Extended {
            negative,
            ..magnitude
        };
        (value.is_finite() && !vanished).then_some(value)
    }

    /// Seconds as milliseconds, rounded up; infinite when they are too many to count.
    pub fn to_millis_up(self) -> f64 {
        let mantissa = if self.infinite {
            f64::INFINITY
        } else {
            self.mantissa as f64
        };
        let seconds = mantissa * 2f64.powi(self.exponent.max(-200));
        let sign = if self.negative { -1.0 } else { 1.0 };
        (sign * seconds * 1000.0).ceil()
    }

    pub fn is_finite(&self) -> bool {
        !self.infinite
    }

    /// The sum, rounded to the nearest; `None` when it is not a number.
    pub fn add(self, other: Extended) -> Option<Extended> {
        if self.infinite || other.infinite {
            let opposed = self.infinite && other.infinite && self.negative != other.negative;
            return if opposed {
                None
            } else {
                Some(if self.infinite { self } else { other })
            };
        }
        if self.mantissa == 0 {
            return Some(other);
        }
        if other.mantissa == 0 {
            return Some(self);
        }
        let (large, small) = if (self.exponent, self.mantissa) >= (other.exponent, other.mantissa) {
            (self, other)
        } else {
            (other, self)
        };
        let shift = (large.exponent - small.exponent) as u32;
        let high = u128::from(large.mantissa) << 63;
        let aligned = u128::from(small.mantissa) << 63;
        // Whatever is shifted out stays as one sticky bit, enough to round rightly.
        let low = if shift >= 127 {
            1
        } else {
            aligned >> shift | u128::from(aligned & ((1 << shift) - 1) != 0)
        };
        let sum = if large.negative == small.negative {
            high + low
        } else {
            high - low
        };
        Some(rounded(large.negative, sum, large.exponent - 63, false))
    }

    /// The number with up to 17 decimals, without zeros at the end.
    pub fn to_text(self) -> String {
        const DECIMALS: usize = 17;
        let sign = if self.negative && self.mantissa != 0 {
            "-"
        } else {
            ""
        };
        if self.exponent >= 0 {
            let mut whole = Big::from_u64(self.mantissa);
            whole.shift_left(self.exponent as u32);
            return format!("{sign}{}", whole.to_decimal());
        }
        let scaled = u128::from(self.mantissa) * 10u128.pow(DECIMALS as u32);
        let units = shift_right_to_even(scaled, self.exponent.unsigned_abs());
        let digits = format!("{units:0width$}", width = DECIMALS + 1);
        let (whole, fraction) = digits.split_at(digits.len() - DECIMALS);
        let fraction = fraction.trim_end_matches('0');
        if units == 0 {
            return "0".to_owned();
        }
        let point = if fraction.is_empty() { "" } else { "." };
        format!("{sign}{whole}{point}{fraction}")
    }
}

/// Splits a decimal text into its digits as one integer and a power of ten.
fn decimal(text: &[u8]) -> Option<(Big, i64)> {
    let (mantissa, exponent) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&text[..at], parse_exponent(&text[at + 1..])?),
        None => (text, 0),
    };
    let (mut digits, mut power, mut seen, mut point) = (Big::default(), exponent, false, false);
    for &byte in mantissa {
        match byte {
            b'0'..=b'9' => {
                digits.multiply_add(10, u32::from(byte - b'0'));
                power -= i64::from(point);
                seen = true;
            }
            b'.' if !point => point = true,
            _ => return None,
        }
    }
    seen.then_some((digits, power))
}

/// The value of an integer times a power of ten.
fn scaled(digits: Big, power: i64) -> Extended {
    if digits.is_zero() {
        return Extended::ZERO;
    }
    if power > POWER_MAX {
        return Extended {
            infinite: true,
            ..Extended::ZERO
        };
    }
    // The digits may be as many as the text is long.
    if power < -POWER_MAX - TEXT_MAX as i64 {
        return Extended::ZERO;
    }
    let mut digits = digits;
    if power >= 0 {
        for _ in 0..power {
            digits.multiply_add(10, 0);
        }
        return digits.rounded(0, false);
    }
    let mut divisor = Big::from_u64(1);
    for _ in 0..-power {
        divisor.multiply_add(10, 0);
    }
    // Enough bits for the quotient to have more than the mantissa holds.
    let shift = (divisor.bits() + 66).saturating_sub(digits.bits());
    digits.shift_left(shift);
    let (quotient, remainder) = digits.divide(&divisor);
    quotient.rounded(-(shift as i32), !remainder.is_zero())
}

/// Rounds `value × 2^exponent`, with `sticky` for something more below the last bit.
fn rounded(negative: bool, value: u128, exponent: i32, sticky: bool) -> Extended {
    if value == 0 {
        return Extended::ZERO;
    }
    let excess = 64 - value.leading_zeros() as i32;
    let (mut mantissa, mut exponent) = if excess > 0 {
        let kept = value >> excess;
        let rest = value & ((1 << excess) - 1);
        let half = 1u128 << (excess - 1);
        let up = rest > half || rest == half && (sticky || kept & 1 == 1);
        (kept + u128::from(up), exponent + excess)
    } else {
        (value << -excess, exponent + excess)
    };
    if mantissa >> 64 != 0 {
        mantissa >>= 1;
        exponent += 1;
    }
    if exponent > EXPONENT_MAX {
        return Extended {
            negative,
            infinite: true,
            ..Extended::ZERO
        };
    }
    if (exponent, mantissa) <= (EXPONENT_MIN, 1 << 63) {
        return Extended::ZERO;
    }
    Extended {
        negative,
        mantissa: mantissa as u64,
        exponent,
        infinite: false,
    }
}

fn shift_right_to_even(value: u128, shift: u32) -> u128 {
    if shift > 127 {
        return 0;
    }
    let kept = value >> shift;
    let rest = value & ((1 << shift) - 1);
    let half = 1u128 << (shift - 1);
    kept + u128::from(rest > half || rest == half && kept & 1 == 1)
}

/// A natural number of any size, its least significant 32 bits first.
#[derive(Clone, Debug, Default)]
struct Big(Vec<u32>);

impl Big {
    fn from_u64(value: u64) -> Big {
        let mut big = Big(vec![value as u32, (value >> 32) as u32]);
        big.trim();
        big
    }

    fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    fn bits(&self) -> u32 {
        self.0
            .last()
            .map_or(0, |top| self.0.len() as u32 * 32 - top.leading_zeros())
    }

    fn bit(&self, at: u32) -> bool {
        self.0
            .get(at as usize / 32)
            .is_some_and(|word| word >> (at % 32) & 1 == 1)
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn multiply_add(&mut self, factor: u32, summand: u32) {
        let mut carry = u64::from(summand);
        for word in &mut self.0 {
            carry += u64::from(*word) * u64::from(factor);
            *word = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn shift_left(&mut self, by: u32) {
        if self.is_zero() {
            return;
        }
        for _ in 0..by % 32 {
            self.multiply_add(2, 0);
        }
        self.0
            .splice(0..0, std::iter::repeat_n(0, by as usize / 32));
    }

    /// Quotient and remainder, bit by bit but for those above, of which no quotient can come.
    fn divide(&self, divisor: &Big) -> (Big, Big) {
        let mut quotient = Big(vec![0; self.0.len()]);
        let (mut rest, mut from) = (Big::default(), self.bits());
        if let Some(above) = (divisor.0.len() - 1).checked_sub(1) {
            let below = self.0.len().saturating_sub(above);
            rest = Big(self.0[below..].to_vec());
            from = from.min(below as u32 * 32);
        }
        for at in (0..from).rev() {
            rest.multiply_add(2, u32::from(self.bit(at)));
            if rest.subtract(divisor) {
                quotient.0[at as usize / 32] |= 1 << (at % 32);
            }
        }
        quotient.trim();
        (quotient, rest)
    }

    /// Subtracts if the other is not larger, and tells whether it did.
    fn subtract(&mut self, other: &Big) -> bool {
        let larger = self.0.len() > other.0.len()
            || self.0.len() == other.0.len() && self.0.iter().rev().ge(other.0.iter().rev());
        if !larger {
            return false;
        }
        let mut borrow = 0;
        for (at, word) in self.0.iter_mut().enumerate() {
            let taken = i64::from(*word) - i64::from(*other.0.get(at).unwrap_or(&0)) - borrow;
            borrow = i64::from(taken < 0);
            *word = taken as u32;
        }
        self.trim();
        true
    }

    fn rounded(&self, exponent: i32, sticky: bool) -> Extended {
        let drop = self.bits().saturating_sub(120);
        let kept = (0..120).rev().fold(0u128, |kept, at| {
            kept << 1 | u128::from(self.bit(drop + at))
        });
        let below = sticky || (0..drop).any(|at| self.bit(at));
        // A sticky bit of its own at the end makes ties exact.
        rounded(
            false,
            kept << 1 | u128::from(below),
            exponent + drop as i32 - 1,
            false,
        )
    }

    fn to_decimal(&self) -> String {
        let mut rest = self.clone();
        let mut groups = Vec::new();
        while !rest.is_zero() {
            let mut remainder = 0u64;
            for word in rest.0.iter_mut().rev() {
                let value = remainder << 32 | u64::from(*word);
                *word = (value / 1_000_000_000) as u32;
                remainder = value % 1_000_000_000;
            }
            rest.trim();
            groups.push(remainder);
        }
        let mut text = groups.pop().unwrap_or(0).to_string();
        for group in groups.iter().rev() {
            let _ = write!(text, "{group:09}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(one: &str, other: &str) -> String {
        let [one, other] = [one, other].map(|text| Extended::parse(text.as_bytes()).unwrap());
        one.add(other).unwrap().to_text()
    }

    #[test]
    fn sums_print_as_the_references_print_them() {
        let cases = [
            ("0.1", "0.2", "0.3"),
            ("10.5", "0.1", "10.6"),
            ("3.0", "1.000000000000000005", "4.00000000000000001"),
            ("5.0e3", "2.0e2", "5200"),
            ("0", "1e30", "1000000000000000000024696061952"),
            ("1e15", "0.001", "1000000000000000.0009765625"),
            ("0", "0x10", "16"),
            ("0", "0x123456789abcdef01", "20988295479420645120"),
            ("0", "0x.8p-1", "0.25"),
            ("0", "0x1p-1074", "0"),
            ("0", "0x1p-16445", "0"),
            ("0", "1e-400", "0"),
            ("0", "0x0p-99999999999999999999", "0"),
            ("1", "-1", "0"),
            ("-0.5", "0.25", "-0.25"),
            ("17179869184", "1.5", "17179869185.5"),
            ("0", "1e-18", "0"),
            ("0", "-1.5e-17", "-0.00000000000000002"),
        ];
        for (one, other, expect) in cases {
            assert_eq!(sum(one, other), expect, "{one} + {other}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for bad in [
            "",
            "abc",
            " 1",
            "1 ",
            "1e",
            "--1",
            "1e5000",
            "nan",
            "0x",
            ".",
            "0x1p16384",
            "0x1p99999999999",
            "0x1p-16446",
            "0x1p-99999999999",
            "1e-5000",
            "0x1p",
        ] {
            assert_eq!(Extended::parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
