//! `struct`: values in fixed binary layouts.

use super::{add_natives, msgpack::to_bits};
use crate::script::{
    convert::c_string,
    lua::{Outcome, Raised, Stack, Type},
};

const INTEGER_SIZE_MAX: usize = 32;
const ALIGN_NATIVE: usize = 8;

pub fn open(stack: &Stack<'_>, _original: i32, table: i32) {
    add_natives!(stack, table, {
        "pack" => pack,
        "size" => size,
        "unpack" => unpack,
    });
}

/// Reads a format option by option.
struct Format<'a> {
    stack: &'a Stack<'a>,
    rest: &'a [u8],
    big_endian: bool,
    align: usize,
}

/// An option and the size that it takes, zero where it has none of its own.
struct Item {
    option: u8,
    size: usize,
}

impl<'a> Format<'a> {
    fn new(stack: &'a Stack<'a>, rest: &'a [u8]) -> Format<'a> {
        Format {
            stack,
            rest,
            big_endian: false,
            align: 1,
        }
    }

    fn next(&mut self) -> Result<Option<Item>, Raised> {
        let Some((&option, rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        self.rest = rest;
        self.stack.spend(8)?;
        let size = match option {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'f' => 4,
            b'd' | b'l' | b'L' | b'T' => 8,
            b'c' => self.count(1)?,
            b'i' | b'I' => self.integer_size()?,
            _ => 0,
        };
        Ok(Some(Item { option, size }))
    }

    fn integer_size(&mut self) -> Result<usize, Raised> {
        let size = self.count(4)?;
        if size > INTEGER_SIZE_MAX {
            return Err(self.stack.fail(&format!(
                "integral size {size} is larger than limit of {INTEGER_SIZE_MAX}"
            )));
        }
        Ok(size)
    }

    /// The digits that follow, or a default.
    fn count(&mut self, default: usize) -> Result<usize, Raised> {
        let len = self
            .rest
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if len == 0 {
            return Ok(default);
        }
        let (digits, rest) = self.rest.split_at(len);
        self.rest = rest;
        let value = digits.iter().try_fold(0_i32, |value, digit| {
            value.checked_mul(10)?.checked_add(i32::from(digit - b'0'))
        });
        match value {
            Some(value) => Ok(value as usize),
            None => Err(self.stack.fail("integral size overflow")),
        }
    }

    /// How many bytes of filling an item needs at a position.
    fn padding(&self, position: usize, item: &Item) -> usize {
        if item.size == 0 || item.option == b'c' {
            return 0;
        }
        let size = item.size.min(self.align);
        if size <= 1 {
            0
        } else {
            // Sizes that are no power of two pad as oddly in the references.
            size.wrapping_sub(position & (size - 1)) & (size - 1)
        }
    }

    /// Options that say how the others are meant.
    fn control(&mut self, option: u8) -> Result<(), Raised> {
        match option {
            b' ' => {}
            b'>' => self.big_endian = true,
            b'<' => self.big_endian = false,
            b'!' => {
                let align = self.count(ALIGN_NATIVE)?;
                if align & align.wrapping_sub(1) != 0 || align == 0 {
                    let message = format!("alignment {align} is not a power of 2");
                    return Err(self.stack.fail(&message));
                }
                self.align = align;
            }
            other => {
                let problem = [b"invalid format option '", &[other][..], b"'"].concat();
                return Err(self.stack.bad_argument_bytes(1, &problem));
            }
        }
        Ok(())
    }

    /// Little-endian bytes in the order that holds, or back.
    fn ordered(&self, bytes: &mut [u8]) {
        if self.big_endian {
            bytes.reverse();
        }
    }
}

fn pack(stack: &Stack<'_>) -> Outcome {
    let mut format = Format::new(stack, c_string(stack.check_text(1)?));
    stack.push_nil();
    let (mut out, mut argument) = (Vec::new(), 2);
    while let Some(item) = format.next()? {
        out.resize(out.len() + format.padding(out.len(), &item), 0);
        match item.option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let mut bytes = [0; INTEGER_SIZE_MAX];
                let value = to_bits(stack.check_number(argument)?);
                bytes[..8].copy_from_slice(&value.to_le_bytes());
                format.ordered(&mut bytes[..item.size]);
                out.extend_from_slice(&bytes[..item.size]);
                argument += 1;
            }
            b'x' => out.push(0),
            b'f' => {
                let mut bytes = (stack.check_number(argument)? as f32).to_le_bytes();
                format.ordered(&mut bytes);
                out.extend_from_slice(&bytes);
                argument += 1;
            }
            b'd' => {
                let mut bytes = stack.check_number(argument)?.to_le_bytes();
                format.ordered(&mut bytes);
                out.extend_from_slice(&bytes);
                argument += 1;
            }
            b'c' | b's' => {
                let text = stack.check_text(argument)?;
                argument += 1;
                let size = if item.size == 0 {
                    text.len()
                } else {
                    item.size
                };
                let Some(text) = text.get(..size) else {
                    return Err(stack.bad_argument(argument, "string too short"));
                };
                out.extend_from_slice(text);
                if item.option == b's' {
                    out.push(0);
                }
            }
            option => format.control(option)?,
        }
        stack.check_memory(out.len())?;
    }
    stack.push_bytes(&out);
    Ok(1)
}

fn unpack(stack: &Stack<'_>) -> Outcome {
    let mut format = Format::new(stack, c_string(stack.check_text(1)?));
    let data = stack.check_text(2)?;
    let position = stack.optional_integer(3, 1)?;
    if position == 0 {
        return Err(stack.bad_argument(3, "offset must be 1 or greater"));
    }
    stack.set_top(2);
    let mut at = position.wrapping_sub(1) as usize;
    while let Some(item) = format.next()? {
        if !stack.has_room(3) {
            return Err(stack.fail("stack overflow (too many results)"));
        }
        at = at.wrapping_add(format.padding(at, &item));
        let field = field(stack, data, at, item.size)?;
        let mut taken = item.size;
        match item.option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                push_integer(stack, &format, field, item.option.is_ascii_lowercase());
            }
            b'x' => {}
            b'f' => {
                let mut bytes = [0; 4];
                bytes.copy_from_slice(field);
                format.ordered(&mut bytes);
                stack.push_number(f64::from(f32::from_le_bytes(bytes)));
            }
            b'd' => {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(field);
                format.ordered(&mut bytes);
                stack.push_number(f64::from_le_bytes(bytes));
            }
            b'c' if item.size == 0 => taken = push_counted(stack, data, at)?,
            b'c' => stack.push_bytes(field),
            b's' => taken = push_terminated(stack, data, at)?,
            option => format.control(option)?,
        }
        at += taken;
    }
    stack.push_number(at.wrapping_add(1) as i64 as f64);
    Ok(stack.top() - 2)
}

fn field<'d>(
    stack: &Stack<'_>,
    data: &'d [u8],
    at: usize,
    size: usize,
) -> Result<&'d [u8], Raised> {
    at.checked_add(size)
        .and_then(|end| data.get(at..end))
        .ok_or_else(|| stack.bad_argument(2, "data string too short"))
}

/// Bytes beyond the eighth fall off, as they do in the references.
fn push_integer(stack: &Stack<'_>, format: &Format<'_>, field: &[u8], signed: bool) {
    let mut bytes = [0; INTEGER_SIZE_MAX];
    let bytes = &mut bytes[..field.len()];
    bytes.copy_from_slice(field);
    format.ordered(bytes);
    let value = bytes
        .iter()
        .rev()
        .fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    if !signed {
        return stack.push_number(value as f64);
    }
    let sign = u64::MAX.wrapping_shl((field.len() as u32 * 8).wrapping_sub(1));
    let value = if value & sign == 0 {
        value
    } else {
        value | sign
    };
    stack.push_number(value as i64 as f64);
}

/// `c0` takes as many bytes as the number before it says, which it replaces.
fn push_counted(stack: &Stack<'_>, data: &[u8], at: usize) -> Result<usize, Raised> {
    if stack.top() <= 2 || stack.type_of(-1) != Type::Number {
        return Err(stack.fail("format 'c0' needs a previous size"));
    }
    let size = to_bits(stack.number(-1).unwrap_or_default()) as usize;
    stack.pop(1);
    stack.push_bytes(field(stack, data, at, size)?);
    Ok(size)
}

fn push_terminated(stack: &Stack<'_>, data: &[u8], at: usize) -> Result<usize, Raised> {
    let rest = data.get(at..).unwrap_or_default();
    let Some(len) = memchr::memchr(0, rest) else {
        return Err(stack.fail("unfinished string in data"));
    };
    stack.push_bytes(&rest[..len]);
    Ok(len + 1)
}

fn size(stack: &Stack<'_>) -> Outcome {
    let mut format = Format::new(stack, c_string(stack.check_text(1)?));
    let mut total = 0_usize;
    while let Some(item) = format.next()? {
        total = total.wrapping_add(format.padding(total, &item));
        match (item.option, item.size) {
            (b's', _) => return Err(stack.bad_argument(1, "option 's' has no fixed size")),
            (b'c', 0) => return Err(stack.bad_argument(1, "option 'c0' has no fixed size")),
            (option, _) if !option.is_ascii_alphanumeric() => format.control(option)?,
            _ => {}
        }
        total = total.wrapping_add(item.size);
    }
    stack.push_number(total as f64);
    Ok(1)
}
