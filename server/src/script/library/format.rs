//! `string.format` as Lua 5.1 has it.

use std::ffi::CString;

use super::msgpack::to_bits;
use crate::script::lua::{Outcome, Raised, Stack, print_float};

/// A conversion: what stands between `%` and its letter.
#[derive(Default)]
struct Spec {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
}

pub fn format(stack: &Stack<'_>) -> Outcome {
    let template = stack.check_text(1)?;
    let (mut out, mut argument, mut rest) = (Vec::new(), 1, template);
    while let Some(plain) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(&rest[..plain]);
        rest = &rest[plain + 1..];
        if rest.first() == Some(&b'%') {
            out.push(b'%');
            rest = &rest[1..];
        } else {
            argument += 1;
            if argument > stack.top() {
                return Err(stack.bad_argument(argument, "no value"));
            }
            let (spec, after) = parse(stack, rest)?;
            let letter = after.first().copied().unwrap_or(0);
            rest = after.get(1..).unwrap_or_default();
            let before = out.len();
            convert(stack, &spec, letter, argument, &mut out)?;
            stack.check_memory(out.len())?;
            stack.spend(out.len() - before)?;
        }
    }
    out.extend_from_slice(rest);
    stack.push_bytes(&out);
    Ok(1)
}

fn parse<'t>(stack: &Stack<'_>, text: &'t [u8]) -> Result<(Spec, &'t [u8]), Raised> {
    let mut spec = Spec::default();
    let flags = text
        .iter()
        .take_while(|byte| b"-+ #0".contains(byte))
        .count();
    if flags > 5 {
        return Err(stack.fail("invalid format (repeated flags)"));
    }
    for flag in &text[..flags] {
        match flag {
            b'-' => spec.left = true,
            b'+' => spec.plus = true,
            b' ' => spec.space = true,
            b'#' => spec.alternate = true,
            _ => spec.zero = true,
        }
    }
    let (width, mut rest) = two_digits(&text[flags..]);
    spec.width = width;
    if let [b'.', after @ ..] = rest {
        let (precision, after) = two_digits(after);
        spec.precision = Some(precision);
        rest = after;
    }
    if rest.first().is_some_and(u8::is_ascii_digit) {
        return Err(stack.fail("invalid format (width or precision too long)"));
    }
    Ok((spec, rest))
}

fn two_digits(text: &[u8]) -> (usize, &[u8]) {
    let len = text
        .iter()
        .take(2)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let value = text[..len]
        .iter()
        .fold(0, |value, digit| value * 10 + usize::from(digit - b'0'));
    (value, &text[len..])
}

fn convert(
    stack: &Stack<'_>,
    spec: &Spec,
    letter: u8,
    argument: usize,
    out: &mut Vec<u8>,
) -> Result<(), Raised> {
    match letter {
        b'c' => {
            let value = stack.check_number(argument)?;
            // Cut to 32 bits, of which what does not fit is the least number.
            let byte = if value.abs() < 2_147_483_648.0 {
                value as i32 as u8
            } else {
                0
            };
            spec.pad(&[byte], out);
            // C's strings end at a zero byte.
            if byte == 0 {
                let from = out.len() - spec.width.max(1);
                let len = out[from..].iter().position(|&byte| byte == 0).unwrap_or(0);
                out.truncate(from + len);
            }
        }
        b'd' | b'i' => {
            let value = stack.check_integer(argument)?;
            spec.write_integer(
                sign_of(value < 0, spec),
                &value.unsigned_abs().to_string(),
                out,
            );
        }
        b'u' => {
            let value = to_bits(stack.check_number(argument)?);
            spec.write_integer("", &value.to_string(), out);
        }
        b'o' | b'x' | b'X' => {
            let value = to_bits(stack.check_number(argument)?);
            spec.write_radix(letter, value, out);
        }
        b'e' | b'E' | b'f' | b'g' | b'G' => {
            spec.write_float(letter, stack.check_number(argument)?, out);
        }
        b'q' => quote(stack.check_text(argument)?, out),
        b's' => write_text(spec, stack.check_text(argument)?, out),
        other => {
            let letter = if other == 0 {
                String::new()
            } else {
                (other as char).to_string()
            };
            return Err(stack.fail(&format!("invalid option '%{letter}' to 'format'")));
        }
    }
    Ok(())
}

fn sign_of(negative: bool, spec: &Spec) -> &'static str {
    match (negative, spec.plus, spec.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    }
}

/// A long text without a precision is taken whole; a shorter one ends at a zero byte as C's
/// strings do.
fn write_text(spec: &Spec, text: &[u8], out: &mut Vec<u8>) {
    if spec.precision.is_none() && text.len() >= 100 {
        out.extend_from_slice(text);
        return;
    }
    let end = text
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(text.len());
    let end = end.min(spec.precision.unwrap_or(end));
    spec.pad(&text[..end], out);
}

fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' | b'\n' => out.extend_from_slice(&[b'\\', byte]),
            b'\r' => out.extend_from_slice(b"\\r"),
            0 => out.extend_from_slice(b"\\000"),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

impl Spec {
    fn pad(&self, text: &[u8], out: &mut Vec<u8>) {
        let padding = self.width.saturating_sub(text.len());
        if !self.left {
            out.resize(out.len() + padding, b' ');
        }
        out.extend_from_slice(text);
        if self.left {
            out.resize(out.len() + padding, b' ');
        }
    }

    /// A sign or prefix, then digits: zeros go between the two.
    fn write_integer(&self, prefix: &str, digits: &str, out: &mut Vec<u8>) {
        let digits = if self.precision == Some(0) && digits == "0" {
            ""
        } else {
            digits
        };
        let mut zeros = self.precision.unwrap_or(1).saturating_sub(digits.len());
        if self.zero && !self.left && self.precision.is_none() {
            zeros = zeros.max(self.width.saturating_sub(prefix.len() + digits.len()));
        }
        self.pad(
            format!("{prefix}{}{digits}", "0".repeat(zeros)).as_bytes(),
            out,
        );
    }

    fn write_radix(&self, letter: u8, value: u64, out: &mut Vec<u8>) {
        let (prefix, digits) = match letter {
            b'o' if self.alternate && value != 0 => ("", format!("0{value:o}")),
            b'o' => ("", format!("{value:o}")),
            b'x' => ("0x", format!("{value:x}")),
            _ => ("0X", format!("{value:X}")),
        };
        let prefix = if self.alternate && value != 0 {
            prefix
        } else {
            ""
        };
        self.write_integer(prefix, &digits, out);
    }

    /// C prints floats for us.
    fn write_float(&self, letter: u8, value: f64, out: &mut Vec<u8>) {
        let mut format = b"%".to_vec();
        let flags = [
            (self.left, b'-'),
            (self.plus, b'+'),
            (self.space, b' '),
            (self.alternate, b'#'),
            (self.zero, b'0'),
        ];
        format.extend(flags.iter().filter(|flag| flag.0).map(|flag| flag.1));
        if self.width > 0 {
            format.extend_from_slice(self.width.to_string().as_bytes());
        }
        if let Some(precision) = self.precision {
            format.extend_from_slice(format!(".{precision}").as_bytes());
        }
        format.push(letter);
        if let Ok(format) = CString::new(format) {
            out.extend_from_slice(&print_float(&format, value));
        }
    }
}
