//! `cmsgpack`: `MessagePack` as the references pack and unpack it.

use super::add_natives;
use crate::script::{
    lua::{Outcome, Raised, Stack, Type},
    numbers,
};

/// Tables nested deeper are packed as nil.
const PACK_DEPTH_MAX: usize = 16;

/// The reader is recursive.
const UNPACK_DEPTH_MAX: usize = 1000;

pub fn open(stack: &Stack<'_>, _original: i32, table: i32) {
    add_natives!(stack, table, {
        "pack" => pack,
        "unpack" => unpack,
        "unpack_limit" => unpack_limit,
        "unpack_one" => unpack_one,
    });
    for (name, text) in [
        ("_NAME", "cmsgpack"),
        ("_VERSION", "lua-cmsgpack 0.4.0"),
        ("_COPYRIGHT", "Copyright (C) 2012, Redis Ltd."),
        ("_DESCRIPTION", "MessagePack C implementation for Lua"),
    ] {
        stack.push_bytes(text.as_bytes());
        stack.raw_set_field(table, name);
    }
}

fn pack(stack: &Stack<'_>) -> Outcome {
    let count = stack.top();
    if count == 0 {
        return Err(stack.bad_argument(0, "MessagePack pack needs input."));
    }
    let mut packer = Packer {
        stack,
        out: Vec::new(),
        counted: 0,
    };
    for index in 1..=count as i32 {
        stack.ensure(1)?;
        stack.push_copy(index);
        packer.value(0)?;
        stack.pop(1);
    }
    stack.push_bytes(&packer.out);
    Ok(1)
}

struct Packer<'a> {
    stack: &'a Stack<'a>,
    out: Vec<u8>,
    /// How much of the output has been counted as work.
    counted: usize,
}

impl Packer<'_> {
    /// Packs the value on top of the stack and leaves it there.
    fn value(&mut self, depth: usize) -> Result<(), Raised> {
        self.stack.spend(32 + self.out.len() - self.counted)?;
        self.counted = self.out.len();
        self.stack.check_memory(self.out.len())?;
        let stack = self.stack;
        match stack.type_of(-1) {
            Type::Boolean => self.out.push(if stack.boolean(-1) { 0xC3 } else { 0xC2 }),
            Type::Number => self.number(stack.number(-1).unwrap_or_default()),
            Type::String => self.bytes(stack.bytes(-1).unwrap_or_default()),
            Type::Table if depth < PACK_DEPTH_MAX => self.table(depth)?,
            _ => self.out.push(0xC0),
        }
        Ok(())
    }

    fn number(&mut self, value: f64) {
        const LIMIT: f64 = 9_223_372_036_854_775_808.0;
        if value.trunc() == value && (-LIMIT..LIMIT).contains(&value) {
            return self.integer(value as i64);
        }
        let single = value as f32;
        if f64::from(single) == value {
            self.tagged(0xCA, &single.to_be_bytes());
        } else {
            self.tagged(0xCB, &value.to_be_bytes());
        }
    }

    fn integer(&mut self, value: i64) {
        match value {
            0..=0x7F => self.out.push(value as u8),
            -32..=-1 => self.out.push(value as i8 as u8),
            0x80..=0xFF => self.tagged(0xCC, &(value as u8).to_be_bytes()),
            0x100..=0xFFFF => self.tagged(0xCD, &(value as u16).to_be_bytes()),
            0x1_0000..=0xFFFF_FFFF => self.tagged(0xCE, &(value as u32).to_be_bytes()),
            0x1_0000_0000.. => self.tagged(0xCF, &value.to_be_bytes()),
            -0x80.. => self.tagged(0xD0, &(value as i8).to_be_bytes()),
            -0x8000.. => self.tagged(0xD1, &(value as i16).to_be_bytes()),
            -0x8000_0000.. => self.tagged(0xD2, &(value as i32).to_be_bytes()),
            _ => self.tagged(0xD3, &value.to_be_bytes()),
        }
    }

    fn tagged(&mut self, tag: u8, bytes: &[u8]) {
        self.out.push(tag);
        self.out.extend_from_slice(bytes);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        match bytes.len() {
            len @ 0..=31 => self.out.push(0xA0 | len as u8),
            len @ 32..=0xFF => self.tagged(0xD9, &[len as u8]),
            len @ 0x100..=0xFFFF => self.tagged(0xDA, &(len as u16).to_be_bytes()),
            len => self.tagged(0xDB, &(len as u32).to_be_bytes()),
        }
        self.out.extend_from_slice(bytes);
    }

    /// The head of an array or a map: a small one, or one with 16 or 32 bits.
    fn head(&mut self, small: u8, large: u8, len: usize) {
        match len {
            0..=15 => self.out.push(small | len as u8),
            16..=0xFFFF => self.tagged(large, &(len as u16).to_be_bytes()),
            _ => self.tagged(large + 1, &(len as u32).to_be_bytes()),
        }
    }

    fn table(&mut self, depth: usize) -> Result<(), Raised> {
        let stack = self.stack;
        stack.ensure(5)?;
        let real = crate::script::sandbox::push_real(stack, -1);
        let (count, is_array) = self.shape();
        if is_array {
            self.head(0x90, 0xDC, count);
            for index in 1..=count as i32 {
                stack.raw_get_index(-1, index);
                self.value(depth + 1)?;
                stack.pop(1);
            }
        } else {
            self.head(0x80, 0xDE, count);
            stack.push_nil();
            while stack.next(-2) {
                stack.push_copy(-2);
                self.value(depth + 1)?;
                stack.pop(1);
                self.value(depth + 1)?;
                stack.pop(1);
            }
        }
        stack.pop(usize::from(real));
        Ok(())
    }

    /// How many entries the table on top has, and whether their keys are 1, 2, 3 and so on.
    fn shape(&self) -> (usize, bool) {
        let stack = self.stack;
        let (mut count, mut longest, mut is_array) = (0_usize, 0.0_f64, true);
        stack.push_nil();
        while stack.next(-2) {
            let key = match stack.type_of(-2) {
                Type::Number => stack.number(-2).unwrap_or_default(),
                _ => 0.0,
            };
            is_array &= key >= 1.0 && key.fract() == 0.0;
            longest = longest.max(key);
            count += 1;
            stack.pop(1);
        }
        (count, is_array && longest == count as f64)
    }
}

fn unpack(stack: &Stack<'_>) -> Outcome {
    unpack_some(stack, 0, 0)
}

fn unpack_one(stack: &Stack<'_>) -> Outcome {
    let offset = stack.optional_integer(2, 0)?;
    unpack_some(stack, 1, offset)
}

fn unpack_limit(stack: &Stack<'_>) -> Outcome {
    let limit = stack.check_integer(2)?;
    let offset = stack.optional_integer(3, 0)?;
    unpack_some(stack, limit, offset)
}

/// Pushes up to `limit` values, all for zero, after the offset at which to go on.
fn unpack_some(stack: &Stack<'_>, limit: i64, offset: i64) -> Outcome {
    let text = stack.check_text(1)?;
    stack.set_top(1);
    let len = text.len();
    let (Ok(start), Ok(count)) = (usize::try_from(offset), usize::try_from(limit)) else {
        return Err(stack.fail(&format!(
            "Invalid request to unpack with offset of {offset} and limit of {len}."
        )));
    };
    let Some(rest) = text.get(start..) else {
        return Err(stack.fail(&format!(
            "Start offset {start} greater than input length {len}."
        )));
    };
    let all = count == 0 && start == 0;
    let mut reader = Unpacker { stack, rest };
    let mut pushed = 0;
    while !reader.rest.is_empty() && (all || pushed < count) {
        stack.ensure(3)?;
        reader.value(0)?;
        pushed += 1;
    }
    if all {
        return Ok(pushed);
    }
    let next = if reader.rest.is_empty() {
        -1.0
    } else {
        (len - reader.rest.len()) as f64
    };
    stack.push_number(next);
    stack.insert(2);
    Ok(pushed + 1)
}

struct Unpacker<'a> {
    stack: &'a Stack<'a>,
    rest: &'a [u8],
}

impl<'a> Unpacker<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Raised> {
        match self.rest.split_at_checked(len) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(self.stack.fail("Missing bytes in input.")),
        }
    }

    /// A big-endian number of so many bytes.
    fn uint(&mut self, len: usize) -> Result<u64, Raised> {
        let bytes = self.take(len)?;
        Ok(bytes
            .iter()
            .fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// The same with a sign.
    fn int(&mut self, len: usize) -> Result<i64, Raised> {
        let unused = 64 - 8 * len as u32;
        self.uint(len)
            .map(|value| (value << unused) as i64 >> unused)
    }

    /// Pushes the next value.
    fn value(&mut self, depth: usize) -> Result<(), Raised> {
        self.stack.spend(32)?;
        self.stack.check_memory(0)?;
        let stack = self.stack;
        let tag = self.take(1)?[0];
        match tag {
            0x00..=0x7F => stack.push_number(f64::from(tag)),
            0xE0..=0xFF => stack.push_number(f64::from(tag as i8)),
            0xC0 => stack.push_nil(),
            0xC2 | 0xC3 => stack.push_boolean(tag == 0xC3),
            0xCA => stack.push_number(f64::from(f32::from_bits(self.uint(4)? as u32))),
            0xCB => stack.push_number(f64::from_bits(self.uint(8)?)),
            0xCC..=0xCF => {
                // The references take the largest of these for negative ones.
                let value = self.uint(1 << (tag - 0xCC))? as i64;
                stack.push_number(value as f64);
            }
            0xD0..=0xD3 => {
                let value = self.int(1 << (tag - 0xD0))?;
                stack.push_number(value as f64);
            }
            0xA0..=0xBF => self.bytes(usize::from(tag & 31))?,
            0xD9..=0xDB => {
                let len = self.uint(1 << (tag - 0xD9))? as usize;
                self.bytes(len)?;
            }
            0x90..=0x9F => self.array(u64::from(tag & 15), depth)?,
            0xDC | 0xDD => {
                let len = self.uint(2 << (tag - 0xDC))?;
                self.array(len, depth)?;
            }
            0x80..=0x8F => self.map(u64::from(tag & 15), depth)?,
            0xDE | 0xDF => {
                let len = self.uint(2 << (tag - 0xDE))?;
                self.map(len, depth)?;
            }
            _ => return Err(stack.fail("Bad data format in input.")),
        }
        Ok(())
    }

    fn bytes(&mut self, len: usize) -> Result<(), Raised> {
        let bytes = self.take(len)?;
        self.stack.push_bytes(bytes);
        Ok(())
    }

    fn begin(&self, depth: usize, what: &str) -> Result<(), Raised> {
        if depth >= UNPACK_DEPTH_MAX || !self.stack.has_room(5) {
            let message = format!("stack overflow (in function mp_decode_to_lua_{what})");
            return Err(self.stack.fail(&message));
        }
        self.stack.push_table(0, 0);
        Ok(())
    }

    fn array(&mut self, len: u64, depth: usize) -> Result<(), Raised> {
        self.begin(depth, "array")?;
        for index in 1..=len {
            self.value(depth + 1)?;
            self.stack.raw_set_index(-2, index as i32);
        }
        Ok(())
    }

    fn map(&mut self, len: u64, depth: usize) -> Result<(), Raised> {
        self.begin(depth, "hash")?;
        for _ in 0..len {
            self.value(depth + 1)?;
            self.value(depth + 1)?;
            match self.stack.type_of(-2) {
                Type::Nil => return Err(self.stack.fail_bare("table index is nil")),
                Type::Number if self.stack.number(-2).is_some_and(f64::is_nan) => {
                    return Err(self.stack.fail_bare("table index is NaN"));
                }
                _ => self.stack.raw_set(-3),
            }
        }
        Ok(())
    }
}

/// An integer argument that a pack format takes, as the references' processor converts it.
pub fn to_bits(value: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if value >= HALF {
        numbers::truncate(value - HALF) as u64 ^ 1 << 63
    } else {
        numbers::truncate(value) as u64
    }
}
