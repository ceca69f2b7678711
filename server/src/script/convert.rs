//! Replies become Lua values and Lua values become replies, one place for each direction.

use smallvec::SmallVec;

use super::{
    lua::{Raised, Stack, Type},
    numbers,
};
use crate::{
    error::Error,
    number::DoubleBuffer,
    reply::{Protocol, Reply},
};

/// How deeply a script's result may be nested, for its conversion is recursive.
const DEPTH_MAX: usize = 1000;

/// Pushes one reply onto a Lua stack as the value that a script sees.
pub struct ToLua<'a> {
    stack: &'a Stack<'a>,
    protocol: Protocol,
    /// The stack's height before the reply.
    base: usize,
    open: SmallVec<[Container; 4]>,
    failed: bool,
    /// The reply is nested too deeply for the stack, and what follows is dropped.
    overflown: bool,
}

#[derive(Clone, Copy)]
struct Container {
    kind: Kind,
    left: usize,
    filled: i32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Array,
    Map,
    Set,
}

impl<'a> ToLua<'a> {
    pub fn new(stack: &'a Stack<'a>, protocol: Protocol) -> ToLua<'a> {
        let (base, open) = (stack.top(), SmallVec::new());
        ToLua {
            stack,
            protocol,
            base,
            open,
            failed: false,
            overflown: false,
        }
    }

    /// Leaves exactly one value on the stack and tells whether it is an error.
    pub fn finish(self) -> bool {
        if self.overflown || self.stack.top() == self.base {
            self.stack.set_top(self.base);
            self.stack.push_nil();
        }
        self.failed
    }

    fn begin(&mut self, kind: Kind, entries: usize, values: usize) {
        // Two tables and a key, and what `settle` needs for a moment.
        if self.overflown || !self.stack.has_room(8) {
            self.overflown = true;
            return;
        }
        if kind == Kind::Array {
            self.stack.push_table(entries, 0);
        } else {
            self.stack.push_table(0, 1);
            self.stack.push_table(0, entries);
        }
        self.open.push(Container {
            kind,
            left: values,
            filled: 0,
        });
        if values == 0 {
            self.close();
            self.settle();
        }
    }

    fn push(&mut self, push: impl FnOnce(&Stack<'a>)) {
        if self.overflown {
            return;
        }
        push(self.stack);
        self.settle();
    }

    /// Moves the value on top into the container that waits for it, and a container that is
    /// full by that into its own.
    fn settle(&mut self) {
        let stack = self.stack;
        while let Some(container) = self.open.last_mut() {
            container.left -= 1;
            container.filled += 1;
            match container.kind {
                Kind::Array => stack.raw_set_index(-2, container.filled),
                Kind::Set => {
                    usable_key(stack);
                    stack.push_boolean(true);
                    stack.raw_set(-3);
                }
                // A key waits on the stack for its value.
                Kind::Map if container.filled % 2 == 1 => usable_key(stack),
                Kind::Map => stack.raw_set(-3),
            }
            if container.left > 0 {
                return;
            }
            self.close();
        }
    }

    fn close(&mut self) {
        match self.open.pop().map(|container| container.kind) {
            Some(Kind::Map) => self.stack.raw_set_field(-2, "map"),
            Some(Kind::Set) => self.stack.raw_set_field(-2, "set"),
            Some(Kind::Array) | None => {}
        }
    }

    /// Pushes a table of one field.
    fn push_tagged(&mut self, name: &str, push: impl FnOnce(&Stack<'a>)) {
        self.push(|stack| {
            stack.push_table(0, 1);
            push(stack);
            stack.raw_set_field(-2, name);
        });
    }
}

/// Neither nil nor NaN can be a key.
fn usable_key(stack: &Stack<'_>) {
    let usable = match stack.type_of(-1) {
        Type::Nil => false,
        Type::Number => stack.number(-1).is_some_and(|number| !number.is_nan()),
        _ => true,
    };
    if !usable {
        stack.pop(1);
        stack.push_boolean(false);
    }
}

impl Reply for ToLua<'_> {
    fn protocol(&self) -> Protocol {
        self.protocol
    }

    fn simple(&mut self, text: &str) {
        self.push_tagged("ok", |stack| stack.push_bytes(text.as_bytes()));
    }

    fn error(&mut self, error: &Error) {
        self.failed |= self.open.is_empty();
        self.push(|stack| push_replied_error(stack, &without_breaks(error.as_bytes())));
    }

    fn integer(&mut self, value: i64) {
        self.push(|stack| stack.push_number(value as f64));
    }

    fn bulk(&mut self, bytes: &[u8]) {
        self.push(|stack| stack.push_bytes(bytes));
    }

    fn null(&mut self) {
        match self.protocol {
            Protocol::Resp2 => self.push(|stack| stack.push_boolean(false)),
            Protocol::Resp3 => self.push(Stack::push_nil),
        }
    }

    fn null_array(&mut self) {
        self.null();
    }

    fn array(&mut self, len: usize) {
        self.begin(Kind::Array, len, len);
    }

    fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.begin(Kind::Array, pairs * 2, pairs * 2),
            Protocol::Resp3 => self.begin(Kind::Map, pairs, pairs * 2),
        }
    }

    fn set(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.begin(Kind::Array, len, len),
            Protocol::Resp3 => self.begin(Kind::Set, len, len),
        }
    }

    fn double(&mut self, value: f64) {
        match self.protocol {
            Protocol::Resp2 => {
                let mut buffer = DoubleBuffer::new();
                self.bulk(buffer.format(value).as_bytes());
            }
            Protocol::Resp3 => self.push_tagged("double", |stack| stack.push_number(value)),
        }
    }

    fn boolean(&mut self, value: bool) {
        match self.protocol {
            Protocol::Resp2 => self.integer(i64::from(value)),
            Protocol::Resp3 => self.push(|stack| stack.push_boolean(value)),
        }
    }

    fn big_number(&mut self, digits: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits),
            Protocol::Resp3 => self.push_tagged("big_number", |stack| stack.push_bytes(digits)),
        }
    }

    fn verbatim(&mut self, format: &[u8; 3], text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => self.push_tagged("verbatim_string", |stack| {
                stack.push_table(0, 2);
                stack.push_bytes(text);
                stack.raw_set_field(-2, "string");
                stack.push_bytes(format);
                stack.raw_set_field(-2, "format");
            }),
        }
    }

    /// The mark counts what the innermost open container has, or zero outside of any.
    fn mark(&self) -> usize {
        self.open.len() << 32
            | self
                .open
                .last()
                .map_or(0, |container| container.filled as usize)
    }

    fn rewind(&mut self, mark: usize) {
        let (depth, filled) = (mark >> 32, (mark & 0xFFFF_FFFF) as i32);
        if depth == 0 {
            self.open.clear();
            self.stack.set_top(self.base);
            (self.failed, self.overflown) = (false, false);
            return;
        }
        while self.open.len() > depth {
            let inner = self
                .open
                .pop()
                .map(|container| (container.kind, container.filled));
            // A container has one or two tables on the stack, and a map may hold a lone key.
            match inner {
                Some((Kind::Array, _)) | None => self.stack.pop(1),
                Some((Kind::Map, filled)) if filled % 2 == 1 => self.stack.pop(3),
                Some(_) => self.stack.pop(2),
            }
        }
        if let Some(container) = self.open.last_mut() {
            container.left += (container.filled - filled).max(0) as usize;
            container.filled = filled;
        }
    }
}

/// Pushes the table that stands for an error in a script.
pub fn push_error(stack: &Stack<'_>, text: &[u8]) {
    stack.push_table(0, 2);
    stack.push_bytes(text);
    stack.raw_set_field(-2, "err");
}

/// The same for the error that a command replied with.
fn push_replied_error(stack: &Stack<'_>, text: &[u8]) {
    push_error(stack, text);
    // The reference leaves this mark for itself, and scripts can see it.
    stack.push_boolean(true);
    stack.raw_set_field(-2, "ignore_error_stats_update");
}

/// Writes the value on top of the stack as a script's reply and pops it.
pub fn write_result(stack: &Stack<'_>, reply: &mut dyn Reply) {
    let (height, mark) = (stack.top(), reply.mark());
    let mut writer = Writer {
        stack,
        reply,
        protocol: stack.context().session.resp.get(),
        written: 0,
    };
    if writer.value(0).is_err() {
        let message = [b"ERR ", stack.bytes(-1).unwrap_or_default()].concat();
        reply.rewind(mark);
        reply.error(&Error::owned(message));
        stack.set_top(height - 1);
    }
}

/// Writes Lua values as one reply. A table that is reached by many ways is written as often, so
/// what is written is bounded as the script's memory is, and the script can still be ended.
struct Writer<'a> {
    stack: &'a Stack<'a>,
    reply: &'a mut dyn Reply,
    protocol: Protocol,
    /// About as many bytes are written.
    written: usize,
}

impl Writer<'_> {
    fn count(&mut self) -> Result<(), Raised> {
        let size = 16 + self.stack.bytes(-1).map_or(0, <[u8]>::len);
        self.written += size;
        self.stack.spend(size)?;
        self.stack.check_memory(self.written)
    }

    /// Writes the value on top and pops it.
    fn value(&mut self, depth: usize) -> Result<(), Raised> {
        let stack = self.stack;
        self.count()?;
        if depth > DEPTH_MAX || !stack.has_room(6) {
            self.reply
                .error(&Error::text("ERR reached lua stack limit"));
            stack.pop(1);
            return Ok(());
        }
        match stack.type_of(-1) {
            Type::String => self.reply.bulk(stack.bytes(-1).unwrap_or_default()),
            Type::Boolean => match (self.protocol, stack.boolean(-1)) {
                (Protocol::Resp3, value) => self.reply.boolean(value),
                (Protocol::Resp2, true) => self.reply.integer(1),
                (Protocol::Resp2, false) => self.reply.null(),
            },
            Type::Number => {
                let value = stack.number(-1).unwrap_or_default();
                self.reply.integer(numbers::truncate(value));
            }
            Type::Table => self.table(depth)?,
            _ => self.reply.null(),
        }
        stack.pop(1);
        Ok(())
    }

    /// The table stays on the stack.
    fn table(&mut self, depth: usize) -> Result<(), Raised> {
        let stack = self.stack;
        if self.tagged_text() {
            return Ok(());
        }
        if stack.raw_get_field(-1, "double") == Type::Number {
            self.reply.double(stack.number(-1).unwrap_or_default());
            stack.pop(1);
            return Ok(());
        }
        stack.pop(1);
        for (name, with_values) in [("map", true), ("set", false)] {
            if stack.raw_get_field(-1, name) == Type::Table {
                let count = count_entries(stack)?;
                if with_values {
                    self.reply.map(count);
                } else {
                    self.reply.set(count);
                }
                self.entries(depth, with_values)?;
                stack.pop(1);
                return Ok(());
            }
            stack.pop(1);
        }
        if self.big_number() || self.verbatim() {
            return Ok(());
        }
        self.array(depth)
    }

    /// Errors and statuses.
    fn tagged_text(&mut self) -> bool {
        let stack = self.stack;
        if stack.raw_get_field(-1, "err") == Type::String {
            let text = c_string(stack.bytes(-1).unwrap_or_default());
            let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
            let len = text.iter().rposition(|byte| !is_end(byte));
            let text = &text[..len.map_or(0, |last| last + 1)];
            self.reply.error(&Error::owned(text));
            stack.pop(1);
            return true;
        }
        stack.pop(1);
        let is_status = stack.raw_get_field(-1, "ok") == Type::String;
        if is_status {
            let text = one_line(stack.bytes(-1).unwrap_or_default());
            self.reply.status(&text);
        }
        stack.pop(1);
        is_status
    }

    fn big_number(&mut self) -> bool {
        let stack = self.stack;
        let is_big = stack.raw_get_field(-1, "big_number") == Type::String;
        if is_big {
            let digits = one_line(stack.bytes(-1).unwrap_or_default());
            self.reply.big_number(&digits);
        }
        stack.pop(1);
        is_big
    }

    fn verbatim(&mut self) -> bool {
        let stack = self.stack;
        let mut is_verbatim = stack.raw_get_field(-1, "verbatim_string") == Type::Table;
        if is_verbatim {
            is_verbatim = stack.raw_get_field(-1, "string") == Type::String
                && stack.raw_get_field(-2, "format") == Type::String;
            if is_verbatim {
                let mut format = *b"   ";
                let given = c_string(stack.bytes(-1).unwrap_or_default());
                for (to, from) in format.iter_mut().zip(given) {
                    *to = *from;
                }
                let text = stack.bytes(-2).unwrap_or_default();
                self.reply.verbatim(&format, text);
                stack.pop(1);
            } else if stack.type_of(-2) == Type::String {
                stack.pop(1);
            }
            stack.pop(1);
        }
        stack.pop(1);
        is_verbatim
    }

    /// Writes the keys of the table on top, with their values or without.
    fn entries(&mut self, depth: usize, with_values: bool) -> Result<(), Raised> {
        let stack = self.stack;
        stack.push_nil();
        while stack.next(-2) {
            stack.push_copy(-2);
            self.value(depth + 1)?;
            if with_values {
                self.value(depth + 1)?;
            } else {
                stack.pop(1);
            }
        }
        Ok(())
    }

    /// An array ends at the first nil.
    fn array(&mut self, depth: usize) -> Result<(), Raised> {
        let stack = self.stack;
        let mut len = 0;
        loop {
            stack.raw_get_index(-1, len + 1);
            let ended = stack.type_of(-1) == Type::Nil;
            stack.pop(1);
            if ended {
                break;
            }
            stack.spend(8)?;
            len += 1;
        }
        self.reply.array(len as usize);
        for index in 1..=len {
            stack.raw_get_index(-1, index);
            self.value(depth + 1)?;
        }
        Ok(())
    }
}

/// Text for a line of its own, up to a zero byte.
fn one_line(bytes: &[u8]) -> Vec<u8> {
    without_breaks(c_string(bytes))
}

/// Line breaks would end a line early.
fn without_breaks(bytes: &[u8]) -> Vec<u8> {
    let mut line = bytes.to_vec();
    for byte in &mut line {
        if matches!(byte, b'\r' | b'\n') {
            *byte = b' ';
        }
    }
    line
}

/// As much of a text as C takes it for.
pub fn c_string(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())]
}

fn count_entries(stack: &Stack<'_>) -> Result<usize, Raised> {
    let mut count = 0;
    stack.push_nil();
    while stack.next(-2) {
        stack.pop(1);
        stack.spend(8)?;
        count += 1;
    }
    Ok(count)
}
