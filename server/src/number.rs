//! Numbers as the references read and print them: strict integers, shortest doubles.

/// Reads a signed decimal integer as the references do: no sign but `-`, no leading zeros, no
/// white space.
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let canonical = match digits {
        [b'0'] => !negative,
        [b'1'..=b'9', ..] => digits.len() <= 19,
        _ => false,
    };
    if !canonical {
        return None;
    }
    let mut value: i64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        let digit = i64::from(digit - b'0');
        // Built downwards, since the least integer has no positive twin.
        value = value.checked_mul(10)?.checked_sub(digit)?;
    }
    if negative {
        Some(value)
    } else {
        value.checked_neg()
    }
}

/// Reads the integer that a text begins with, as C's `atoi` does: after white space, with either
/// sign, up to whatever is no digit; 0 when there is none. What is too large stays at the limit.
pub fn leading_int(text: &[u8]) -> i64 {
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let spaces = text.iter().take_while(|byte| is_space(byte)).count();
    let (negative, digits) = match &text[spaces..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let value = digits.fold(0i64, |value, digit| {
        value
            .saturating_mul(10)
            .saturating_add(i64::from(digit - b'0'))
    });
    if negative { -value } else { value }
}

/// Reads an unsigned decimal integer, digits only.
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Reads an unsigned integer as the references read cursors and IDs of entries: white space, a
/// sign and zeros may stand before it, and a zero byte ends it.
pub fn parse_lenient_u64(text: &[u8]) -> Option<u64> {
    let text = before_zero(text);
    if let Some(number) = parse_i64(text) {
        return number.try_into().ok();
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|byte| !is_space(byte))?;
    match &text[start..] {
        [b'-', digits @ ..] => parse_u64(digits).map(u64::wrapping_neg),
        [b'+', digits @ ..] | digits => parse_u64(digits),
    }
}

/// What a text is to a C function.
pub fn before_zero(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Reads a double: decimal or hexadecimal, `inf` and `infinity` in any case; not a number, white
/// space and anything behind the number are refused.
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    if text.is_empty() {
        return None;
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if let Some(digits) = strip_hexadecimal(unsigned.as_bytes()) {
        let magnitude = Hexadecimal::parse(digits)?.to_f64();
        let value = if text.starts_with('-') {
            -magnitude
        } else {
            magnitude
        };
        return value.is_finite().then_some(value);
    }
    let value: f64 = text.parse().ok()?;
    // A text that overflows is out of range, not infinite.
    let infinite_by_name = unsigned.starts_with(['i', 'I']);
    (!value.is_nan() && (value.is_finite() || infinite_by_name)).then_some(value)
}

/// Reads a double as scores and places are given: decimal, and neither too large nor too small.
pub fn parse_decimal(text: &[u8]) -> Option<f64> {
    if text.iter().any(|byte| byte.eq_ignore_ascii_case(&b'x')) {
        return None;
    }
    let number = parse_f64(text)?;
    let mut mantissa = text
        .iter()
        .take_while(|byte| !byte.eq_ignore_ascii_case(&b'e'));
    let vanished = number == 0.0 && mantissa.any(|byte| (b'1'..=b'9').contains(byte));
    (!vanished).then_some(number)
}

/// What follows the `0x` of a hexadecimal number.
pub fn strip_hexadecimal(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b"0x").or(text.strip_prefix(b"0X"))
}

/// A number `mantissa × 2^exponent`, as hexadecimal digits give it, before any rounding.
#[derive(Clone, Copy, Debug)]
pub struct Hexadecimal {
    pub mantissa: u64,
    pub exponent: i32,
    /// Were there digits that are not zero behind those of the mantissa?
    pub sticky: bool,
}

impl Hexadecimal {
    /// Beyond such exponents every number is infinite, or zero.
    const EXPONENT_MAX: i64 = 1_000_000;

    /// Reads digits with an optional point, and an exponent behind a `p`.
    pub fn parse(text: &[u8]) -> Option<Hexadecimal> {
        let at = text.iter().position(|byte| matches!(byte, b'p' | b'P'));
        let (digits, exponent) = match at {
            Some(at) => (&text[..at], parse_exponent(&text[at + 1..])?),
            None => (text, 0),
        };
        let (mut mantissa, mut sticky, mut seen, mut point) = (0u64, false, false, false);
        // Each digit that does not fit is worth four powers, and so is each behind the point.
        let mut powers = 0i64;
        for &byte in digits {
            if byte == b'.' && !point {
                point = true;
                continue;
            }
            let digit = char::from(byte).to_digit(16)?;
            seen = true;
            powers -= 4 * i64::from(point);
            if mantissa >> 60 == 0 {
                mantissa = mantissa << 4 | u64::from(digit);
            } else {
                sticky |= digit != 0;
                powers += 4;
            }
        }
        let exponent = exponent.saturating_add(powers);
        let exponent = exponent.clamp(-Self::EXPONENT_MAX, Self::EXPONENT_MAX) as i32;
        seen.then_some(Hexadecimal {
            mantissa,
            exponent,
            sticky,
        })
    }

    /// The nearest double, the even one of two; infinite when there is none.
    pub fn to_f64(self) -> f64 {
        const EXPONENT_MIN: i32 = -1074;
        if self.mantissa == 0 {
            return 0.0;
        }
        let bits = 64 - self.mantissa.leading_zeros() as i32;
        // The power of two of the last bit that a double of this size holds.
        let last = (self.exponent + bits - 53).max(EXPONENT_MIN);
        let dropped = last - self.exponent;
        if last > 1023 {
            return f64::INFINITY;
        }
        let kept = match dropped {
            ..=0 => u128::from(self.mantissa) << -dropped,
            1..=65 => {
                let value = u128::from(self.mantissa);
                let (kept, rest) = (value >> dropped, value & ((1 << dropped) - 1));
                let half = 1 << (dropped - 1);
                let up = rest > half || rest == half && (self.sticky || kept & 1 == 1);
                kept + u128::from(up)
            }
            _ => 0,
        };
        kept as f64 * power_of_two(last)
    }
}

/// A power of two that a double can hold.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(match exponent {
        -1022.. => ((exponent + 1023) as u64) << 52,
        _ => 1 << (exponent + 1074),
    })
}

/// Reads an exponent: an optional sign and digits; those too large to matter are cut short.
pub fn parse_exponent(text: &[u8]) -> Option<i64> {
    let digits = text
        .strip_prefix(b"-")
        .or(text.strip_prefix(b"+"))
        .unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0i64, |value, digit| {
        value
            .saturating_mul(10)
            .saturating_add(i64::from(digit - b'0'))
    });
    Some(if text[0] == b'-' { -value } else { value })
}

/// Room for the text of a double.
pub struct DoubleBuffer {
    text: String,
}

impl DoubleBuffer {
    /// Empty room.
    pub fn new() -> DoubleBuffer {
        DoubleBuffer {
            text: String::new(),
        }
    }

    /// The shortest text that reads back as the same double, in the references' layout.
    pub fn format(&mut self, value: f64) -> &str {
        self.text.clear();
        if value.is_nan() {
            self.text.push_str("nan");
        } else if value.is_infinite() {
            self.text.push_str(if value > 0.0 { "inf" } else { "-inf" });
        } else if value == 0.0 {
            let negative = value.is_sign_negative();
            self.text.push_str(if negative { "-0" } else { "0" });
        } else if value.fract() == 0.0 && value.abs() <= WHOLE_MAX {
            self.text.push_str(itoa::Buffer::new().format(value as i64));
        } else {
            self.finite(value);
        }
        &self.text
    }

    /// As C prints with `%.17g`: up to 17 significant digits, none of them a trailing zero.
    pub fn format_precise(&mut self, value: f64) -> &str {
        use std::fmt::Write;
        const DIGITS: i32 = 17;
        if !value.is_finite() || value == 0.0 {
            return self.format(value);
        }
        let scientific = format!("{:.*e}", DIGITS as usize - 1, value);
        let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        self.text.clear();
        if (-4..DIGITS).contains(&exponent) {
            let decimals = (DIGITS - 1 - exponent) as usize;
            self.text
                .push_str(without_trailing_zeros(&format!("{value:.decimals$}")));
        } else {
            let sign = if exponent < 0 { '-' } else { '+' };
            self.text.push_str(without_trailing_zeros(mantissa));
            let _ = write!(self.text, "e{sign}{:02}", exponent.abs());
        }
        &self.text
    }

    /// Lays the shortest digits out: plain while that costs few zeros, with an exponent beyond.
    fn finite(&mut self, value: f64) {
        use std::fmt::Write;
        if value < 0.0 {
            self.text.push('-');
        }
        let scientific = format!("{:e}", value.abs());
        let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let digits = mantissa.len() as i32 - i32::from(mantissa.contains('.'));
        // The power of ten of the last digit.
        let last = exponent - digits + 1;
        let plain = if last >= 0 {
            exponent.abs() < digits + 7
        } else {
            last > -7 || exponent.abs() < 4
        };
        if plain {
            let _ = write!(self.text, "{}", value.abs());
        } else {
            let sign = if exponent < 0 { '-' } else { '+' };
            let _ = write!(self.text, "{mantissa}e{sign}{}", exponent.abs());
        }
    }
}

/// A number with decimals, without those at its end that say nothing.
fn without_trailing_zeros(number: &str) -> &str {
    if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    }
}

/// Up to here a whole double prints as an integer: half of what 64 bits hold.
const WHOLE_MAX: f64 = (i64::MAX / 2) as f64;

impl Default for DoubleBuffer {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_is_read_up_to_what_is_none() {
        for (text, value) in [
            ("1e", 1),
            (" \t+07x", 7),
            ("-3", -3),
            ("x1", 0),
            ("", 0),
            ("- 1", 0),
            ("99999999999999999999", i64::MAX),
        ] {
            assert_eq!(leading_int(text.as_bytes()), value, "{text}");
        }
    }

    #[test]
    fn cursors_are_read_leniently() {
        for (text, number) in [
            (&b"7"[..], Some(7)),
            (b"007", Some(7)),
            (b" \t+5", Some(5)),
            (b"-0", Some(0)),
            (b"-1", None),
            (b" -1", Some(u64::MAX)),
            (b"1\0x", Some(1)),
            (b"1 ", None),
            (b"0x10", None),
            (b"", None),
            (b"+", None),
            (b"18446744073709551615", Some(u64::MAX)),
            (b"18446744073709551616", None),
        ] {
            assert_eq!(parse_lenient_u64(text), number, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn only_canonical_integers_are_integers() {
        for good in [
            "0",
            "1",
            "-1",
            "9223372036854775807",
            "-9223372036854775808",
        ] {
            assert_eq!(parse_i64(good.as_bytes()), good.parse().ok());
        }
        for bad in [
            "",
            "-",
            "+1",
            "01",
            "-0",
            " 1",
            "1 ",
            "9223372036854775808",
            "1a",
            "1.0",
        ] {
            assert_eq!(parse_i64(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn hexadecimal_digits_are_rounded_once() {
        let cases = [
            ("0x10", Some(16.0)),
            ("-0X1.8p+1", Some(-3.0)),
            ("0x1p-1074", Some(5e-324)),
            ("0x1.8p-1075", Some(5e-324)),
            ("0x1p-1075", Some(0.0)),
            ("0x.0000000000001p-1022", Some(5e-324)),
            ("0x0p99999", Some(0.0)),
            ("0x1p-99999999999999999999", Some(0.0)),
            ("0x123456789abcdef012345", Some(1.375_488_932_539_311_4e24)),
            ("0x20000000000001", Some(9_007_199_254_740_992.0)),
            (
                "0x20000000000001000000000000001",
                Some(9_007_199_254_740_994.0 * 1_152_921_504_606_846_976.0),
            ),
            ("0x1.fffffffffffffp1023", Some(f64::MAX)),
            ("0x1.fffffffffffffffffp1023", None),
            ("0x1p99999999999999999999", None),
            ("0x", None),
            ("0x1p", None),
            ("0x.p1", None),
            ("0x1.2.3", None),
        ];
        for (text, value) in cases {
            assert_eq!(parse_f64(text.as_bytes()), value, "{text}");
        }
    }

    #[test]
    fn doubles_print_shortest() {
        let cases = [
            (1.1, "1.1"),
            (3.0, "3"),
            (1e20, "1e+20"),
            (1e17, "100000000000000000"),
            (12_345_678_901_234_567_890.0, "12345678901234567000"),
            (1.25e-9, "1.25e-9"),
            (0.000_001, "0.000001"),
            (0.000_012_345, "1.2345e-5"),
            (12_345.678_901_234_5, "1.23456789012345e+4"),
        ];
        for (value, text) in cases {
            assert_eq!(DoubleBuffer::new().format(value), text);
        }
    }

    #[test]
    fn precise_doubles_print_as_c_does() {
        let cases = [
            (-0.6, "-0.59999999999999998"),
            (-6.18e17, "-6.18e+17"),
            (24.72, "24.719999999999999"),
            (7.194, "7.194"),
            (3.0, "3"),
            (1e-5, "1.0000000000000001e-05"),
            (0.0001, "0.0001"),
            (1e16, "10000000000000000"),
            (1e300, "1.0000000000000001e+300"),
            (-0.0, "-0"),
            (f64::INFINITY, "inf"),
        ];
        for (value, text) in cases {
            assert_eq!(DoubleBuffer::new().format_precise(value), text);
        }
    }
}
