//! Numbers between text and doubles, as C's library and the references print and read them.

use std::{ffi::CStr, io::Write};

use super::{convert::c_string, lua::print_float};
use crate::number::Hexadecimal;

/// Reads a number as C's `strtod` does, white space around it allowed and nothing else but what
/// follows a zero byte.
pub fn parse(text: &[u8]) -> Option<f64> {
    let text = trim(c_string(text));
    let (negative, digits) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, text),
    };
    let magnitude = match digits {
        [b'0', b'x' | b'X', hex @ ..] => Hexadecimal::parse(hex)?.to_f64(),
        _ => parse_decimal(digits)?,
    };
    Some(if negative { -magnitude } else { magnitude })
}

fn trim(text: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text
        .iter()
        .position(|byte| !is_space(byte))
        .unwrap_or(text.len());
    let end = text
        .iter()
        .rposition(|byte| !is_space(byte))
        .map_or(start, |at| at + 1);
    &text[start..end]
}

fn parse_decimal(digits: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(digits).ok()?;
    match digits.first()? {
        b'0'..=b'9' | b'.' => text.parse().ok(),
        _ if text.eq_ignore_ascii_case("inf") || text.eq_ignore_ascii_case("infinity") => {
            Some(f64::INFINITY)
        }
        _ if text.eq_ignore_ascii_case("nan") => Some(f64::NAN.copysign(1.0)),
        _ => None,
    }
}

/// Cuts a double to an integer as the processor of the references does it: what does not fit
/// becomes the least integer.
pub fn truncate(value: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&value) {
        value as i64
    } else {
        i64::MIN
    }
}

/// Writes a number as an argument of a command: whole ones in full, others in the shortest
/// digits that read back as the same.
pub fn write_argument(value: f64, out: &mut Vec<u8>) {
    const WHOLE_MAX: f64 = 4_611_686_018_427_387_904.0;
    if value.trunc() == value && value.abs() <= WHOLE_MAX {
        out.extend_from_slice(itoa::Buffer::new().format(value as i64).as_bytes());
    } else if let Some(name) = name_of_special(value) {
        out.extend_from_slice(name.as_bytes());
    } else {
        write_shortest(value, out);
    }
}

/// How C prints what is no finite number.
pub fn name_of_special(value: f64) -> Option<&'static str> {
    match (
        value.is_nan(),
        value.is_infinite(),
        value.is_sign_negative(),
    ) {
        (true, _, true) => Some("-nan"),
        (true, _, false) => Some("nan"),
        (_, true, true) => Some("-inf"),
        (_, true, false) => Some("inf"),
        _ => None,
    }
}

fn write_shortest(value: f64, out: &mut Vec<u8>) {
    let text = format!("{:e}", value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let count = digits.len() as i32;
    // The power of ten of the last digit.
    let scale = exponent - (count - 1);
    if scale >= 0 && exponent.abs() < count + 7 {
        out.extend_from_slice(&digits);
        out.resize(out.len() + scale as usize, b'0');
    } else if scale < 0 && (scale > -7 || exponent.abs() < 4) {
        write_with_point(&digits, count + scale, out);
    } else {
        out.push(digits[0]);
        if count > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.extend_from_slice(format!("e{exponent:+}").as_bytes());
    }
}

/// Writes digits of which so many, perhaps less than none, stand before the point.
fn write_with_point(digits: &[u8], before: i32, out: &mut Vec<u8>) {
    if before <= 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + before.unsigned_abs() as usize, b'0');
        out.extend_from_slice(digits);
    } else {
        let (whole, fraction) = digits.split_at(before as usize);
        out.extend_from_slice(whole);
        out.push(b'.');
        out.extend_from_slice(fraction);
    }
}

/// Writes a number in so many significant digits, as `%.14g` does for 14.
pub fn write_general(value: f64, digits: u8, out: &mut Vec<u8>) {
    let is_plain = (1e-4..10_f64.powi(digits.into())).contains(&value.abs());
    if !(is_plain && write_short(value, digits, out)) {
        write_by_format(value, digits, out);
    }
}

/// Writes a number that needs no exponent in the fewest digits that mean it, if those are not
/// too many: there are no others within half a unit of the last digit asked for.
fn write_short(value: f64, digits: u8, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    if value.fract() == 0.0 {
        out.extend_from_slice(itoa::Buffer::new().format(value as i64).as_bytes());
        return true;
    }
    // Writing to a vector does not fail.
    let _ = write!(out, "{value}");
    let written = out[start..].iter().filter(|byte| byte.is_ascii_digit());
    let significant = written.skip_while(|&&digit| digit == b'0').count();
    if significant > usize::from(digits) {
        out.truncate(start);
        return false;
    }
    true
}

fn write_by_format(value: f64, digits: u8, out: &mut Vec<u8>) {
    let format = [
        b'%',
        b'.',
        b'0' + digits / 10 % 10,
        b'0' + digits % 10,
        b'g',
        0,
    ];
    if let Ok(format) = CStr::from_bytes_with_nul(&format) {
        out.extend_from_slice(&print_float(format, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_argument(value: f64, expected: &str) {
        let mut out = Vec::new();
        write_argument(value, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[test]
    fn arguments_print_as_the_reference_prints_them() {
        check_argument(1e18, "1000000000000000000");
        check_argument(1e19, "1e+19");
        check_argument(9_223_372_036_854_775_808.0, "9223372036854776000");
        check_argument(-9_223_372_036_854_775_808.0, "-9223372036854776000");
        check_argument(1e22, "1e+22");
        check_argument(0.1, "0.1");
        check_argument(0.005, "0.005");
        check_argument(1e-5, "0.00001");
        check_argument(1e-7, "1e-7");
        check_argument(123_456.789, "123456.789");
        check_argument(1.0 / 3.0, "0.3333333333333333");
        check_argument(-0.0, "0");
        check_argument(5e-324, "5e-324");
        check_argument(1.5e300, "1.5e+300");
        check_argument(f64::NEG_INFINITY, "-inf");
    }

    #[test]
    fn text_reads_as_c_reads_it() {
        assert_eq!(parse(b" 5 "), Some(5.0));
        assert_eq!(parse(b"0x10"), Some(16.0));
        assert_eq!(parse(b"-0x1p4"), Some(-16.0));
        assert_eq!(parse(b"5."), Some(5.0));
        assert_eq!(parse(b".5e1"), Some(5.0));
        assert_eq!(parse(b"-INF"), Some(f64::NEG_INFINITY));
        for refused in [
            &b""[..],
            b"5x",
            b"1 2",
            b"1e",
            b"0x",
            b"0b11",
            b"1LL",
            b"--1",
            b"infx",
        ] {
            assert_eq!(parse(refused), None, "{}", refused.escape_ascii());
        }
    }

    #[test]
    fn general_numbers_print_as_the_format_of_c_does() {
        let mut random = crate::random::Random::seeded(7);
        let edges = [
            0.0,
            -0.0,
            1e-4,
            9.9999e-5,
            1e13,
            1e14,
            99_999_999_999_999.9,
            0.1,
            -2.5,
            1e300,
        ];
        let decimals = |random: &mut crate::random::Random| {
            let scale = 10_f64.powi(random.below(20) as i32);
            (random.next_u64() >> random.below(64)) as f64 / scale
        };
        let bits = |random: &mut crate::random::Random| f64::from_bits(random.next_u64());
        let mut values = edges.to_vec();
        for _ in 0..2000 {
            values.extend([
                decimals(&mut random),
                -decimals(&mut random),
                bits(&mut random),
            ]);
        }
        for value in values.into_iter().filter(|value| value.is_finite()) {
            for digits in [1, 5, 14] {
                let (mut quick, mut exact) = (Vec::new(), Vec::new());
                write_general(value, digits, &mut quick);
                write_by_format(value, digits, &mut exact);
                assert_eq!(
                    String::from_utf8_lossy(&quick),
                    String::from_utf8_lossy(&exact),
                    "{value:e} in {digits} digits"
                );
            }
        }
    }

    #[test]
    fn what_does_not_fit_an_integer_is_the_least_one() {
        assert_eq!(truncate(-3.99), -3);
        assert_eq!(truncate(f64::NAN), i64::MIN);
        assert_eq!(truncate(1e30), i64::MIN);
        assert_eq!(truncate(9_007_199_254_740_993.0), 9_007_199_254_740_992);
    }
}
