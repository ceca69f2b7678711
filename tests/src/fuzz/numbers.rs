//! Numbers: what is read is what the text says, and what is written reads back the same.

use std::fmt::Write;

use khoa_server::fuzzing::{DoubleBuffer, parse_decimal, parse_f64, parse_i64, parse_u64};

/// Beyond this power of two a double is zero or infinite, whatever its 600 digits say.
const EXPONENT_MAX: i64 = 5000;

/// The text of a number; eight bytes are also taken as the double that they are.
pub fn run(input: &[u8]) {
    let text = std::str::from_utf8(input).ok();
    let as_written = |text: &&str| {
        text.parse::<i64>()
            .ok()
            .filter(|value| value.to_string() == **text)
    };
    assert_eq!(parse_i64(input), text.as_ref().and_then(as_written));
    let digits = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    assert_eq!(
        parse_u64(input),
        digits.and_then(|digits| digits.parse().ok())
    );
    let double = parse_f64(input);
    let hexadecimal = text.and_then(hexadecimal_body);
    if let Some(body) = hexadecimal {
        let sign = if input[0] == b'-' { -1.0 } else { 1.0 };
        let expected = hexadecimal_magnitude(body).map(|value| sign * value);
        assert_eq!(double.map(f64::to_bits), expected.map(f64::to_bits));
    }
    if let Some(value) = double {
        assert!(!value.is_nan());
        reads_back(value);
    }
    if let Some(value) = parse_decimal(input) {
        assert!(hexadecimal.is_none());
        assert_eq!(double.map(f64::to_bits), Some(value.to_bits()));
    }
    if let Ok(bytes) = input.try_into() {
        reads_back(f64::from_le_bytes(bytes));
    }
}

fn reads_back(value: f64) {
    let (mut shortest, mut precise) = (DoubleBuffer::new(), DoubleBuffer::new());
    for text in [shortest.format(value), precise.format_precise(value)] {
        assert!(text.len() <= 32, "{text}");
        let back = parse_f64(text.as_bytes());
        if value.is_nan() {
            assert_eq!((text, back), ("nan", None));
        } else {
            assert_eq!(back.map(f64::to_bits), Some(value.to_bits()), "{text}");
        }
    }
}

/// What a hexadecimal text has behind its sign and `0x`.
fn hexadecimal_body(text: &str) -> Option<&str> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    unsigned
        .strip_prefix("0x")
        .or_else(|| unsigned.strip_prefix("0X"))
}

/// The value of a hexadecimal number, unless it is none or too large. It goes by way of the exact
/// decimal digits, which the standard library reads correctly.
fn hexadecimal_magnitude(body: &str) -> Option<f64> {
    let (mantissa, exponent) = match body.split_once(['p', 'P']) {
        Some((mantissa, exponent)) => (mantissa, whole_number(exponent)?),
        None => (body, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let is_hex = |byte: u8| byte.is_ascii_hexdigit();
    if digits.is_empty() || !digits.bytes().all(is_hex) {
        return None;
    }
    let mut number = Big::default();
    for digit in digits.chars() {
        number.multiply_add(16, digit.to_digit(16)?);
    }
    if number.0.is_empty() {
        return Some(0.0);
    }
    let power = (exponent - 4 * fraction.len() as i64).clamp(-EXPONENT_MAX, EXPONENT_MAX);
    // Two to a negative power is five to the power, and as many decimals.
    let factor = if power < 0 { 5 } else { 2 };
    for _ in 0..power.unsigned_abs() {
        number.multiply_add(factor, 0);
    }
    let decimals = power.min(0);
    let value: f64 = format!("{}e{decimals}", number.decimal()).parse().ok()?;
    value.is_finite().then_some(value)
}

/// An optional sign and digits, cut to what makes a difference.
fn whole_number(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value = digits.parse().unwrap_or(i64::MAX).min(100_000);
    Some(if text.starts_with('-') { -value } else { value })
}

/// A natural number of any size: base 10^9, the least digit first.
#[derive(Default)]
struct Big(Vec<u32>);

impl Big {
    const BASE: u64 = 1_000_000_000;

    fn multiply_add(&mut self, factor: u32, addend: u32) {
        let mut carry = u64::from(addend);
        for digit in &mut self.0 {
            carry += u64::from(*digit) * u64::from(factor);
            *digit = (carry % Self::BASE) as u32;
            carry /= Self::BASE;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn decimal(&self) -> String {
        let mut text = String::new();
        for digit in self.0.iter().rev() {
            let _ = write!(text, "{digit:09}");
        }
        text
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let all = [
        "0",
        "-9223372036854775808",
        "18446744073709551615",
        "1.5",
        "-1.7976931348623157e308",
        "4.9e-324",
        "0x1.8p-3",
        "-0xFFFFFFFFFFFFF8",
        "0x.00001p+1000",
        "inf",
        "-Infinity",
        "nan",
        "3.0000000000000000000000001e+17",
        "123456789012345678",
    ];
    let mut all = all.map(|text| text.as_bytes().to_vec()).to_vec();
    all.extend([0.1, 1e21, -5e-324, 6.02e23].map(|double: f64| double.to_le_bytes().to_vec()));
    all
}

pub fn words() -> Vec<Vec<u8>> {
    let all = [
        "0x",
        "0X",
        "p",
        "p-",
        "p+1023",
        "p-1074",
        "e",
        "e-",
        "e308",
        "e-324",
        ".",
        "-",
        "+",
        "inf",
        "nan",
        "00000000",
        "99999999",
        "ffffffff",
        "9223372036854775807",
    ];
    all.map(|text| text.as_bytes().to_vec()).to_vec()
}
