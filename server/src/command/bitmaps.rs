//! Bitmaps: strings seen as arrays of bits.

use super::*;
use crate::{
    command::spec::{Categories, Flags, KeySpec},
    keyspace::{Event, Ttl},
    value::{
        StringValue, Value,
        bits::{self, BitOp, FieldType, Overflow, Span},
    },
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "bitcount",
        arity: -2,
        flags: Flags::READONLY,
        categories: Categories::BITMAP,
        keys: &[KeySpec::one("RO access", 1)],
        group: "bitmap",
        since: "2.6.0",
        history: &[
            ("7.0.0", "Knows `BYTE` and `BIT`."),
            ("8.0.0", "Counts to the last byte when `end` is left out."),
        ],
        summary: "Counts the set bits of a string, or of a part of it.",
        complexity: "O(N) where N is the length of the part in bytes",
        args: "key:key [range(start:integer [end-unit-block(end:integer [unit<BYTE|BIT>{7.0.0}])])]",
        handler: bitcount,
        ..Command::BASE
    },
    Command {
        name: "bitfield",
        arity: -2,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::BITMAP,
        keys: &[KeySpec::one("RW access update variable_flags", 1)
            .noted("only reads with nothing but GET")],
        group: "bitmap",
        since: "3.2.0",
        summary: "Reads, writes and adds to integers of any width laid out in a string.",
        complexity: "O(1) for each operation",
        args: "key:key [operation<GET@get-block(encoding:string offset:integer)|write([OVERFLOW@overflow-block<WRAP|SAT|FAIL>] write-operation<SET@set-block(encoding:string offset:integer value:integer)|INCRBY@incrby-block(encoding:string offset:integer increment:integer)>)>...]",
        handler: bitfield,
        ..Command::BASE
    },
    Command {
        name: "bitfield_ro",
        arity: -2,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::BITMAP,
        keys: &[KeySpec::one("RO access", 1)],
        group: "bitmap",
        since: "6.0.0",
        summary: "Reads integers of any width laid out in a string.",
        complexity: "O(1) for each operation",
        args: "key:key [GET@get-block(encoding:string offset:integer).!.]",
        handler: bitfield_ro,
        ..Command::BASE
    },
    Command {
        name: "bitop",
        arity: -4,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::BITMAP,
        keys: &[
            KeySpec::one("OW update", 2),
            KeySpec::range("RO access", 3, -1, 1),
        ],
        group: "bitmap",
        since: "2.6.0",
        summary: "Combines strings bit by bit and stores the result.",
        complexity: "O(N) where N is the length of the longest string",
        args: "operation<AND|OR|XOR|NOT|DIFF|DIFF1|ANDOR|ONE> destkey:key key:key...",
        handler: bitop,
        ..Command::BASE
    },
    Command {
        name: "bitpos",
        arity: -3,
        flags: Flags::READONLY,
        categories: Categories::BITMAP,
        keys: &[KeySpec::one("RO access", 1)],
        group: "bitmap",
        since: "2.8.7",
        history: &[("7.0.0", "Knows `BYTE` and `BIT`.")],
        summary: "Finds the first bit of a value in a string, or in a part of it.",
        complexity: "O(N) where N is the length of the part in bytes",
        args: "key:key bit:integer [range(start:integer [end-unit-block(end:integer [unit<BYTE|\
               BIT>{7.0.0}])])]",
        handler: bitpos,
        ..Command::BASE
    },
    Command {
        name: "getbit",
        arity: 3,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::BITMAP,
        keys: &[KeySpec::one("RO access", 1)],
        group: "bitmap",
        since: "2.2.0",
        summary: "Returns a bit of a string.",
        args: "key:key offset:integer",
        handler: getbit,
        ..Command::BASE
    },
    Command {
        name: "setbit",
        arity: 4,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::BITMAP,
        keys: &[KeySpec::one("RW access update", 1)],
        group: "bitmap",
        since: "2.2.0",
        summary: "Sets or clears a bit of a string and returns what it was.",
        complexity: "O(1), or O(N) where the string grows by N",
        args: "key:key offset:integer value:integer",
        handler: setbit,
        ..Command::BASE
    },
];

const BIT_OFFSET: Error = Error::text("ERR bit offset is not an integer or out of range");
const BIT_VALUE: Error = Error::text("ERR bit is not an integer or out of range");
const BIT_ARGUMENT: Error = Error::text("ERR The bit argument must be 1 or 0.");
const FIELD_TYPE: Error = Error::text(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but \
     i64 is.",
);
const OVERFLOW: Error = Error::text("ERR Invalid OVERFLOW type specified");
const READ_ONLY: Error = Error::text("ERR BITFIELD_RO only supports the GET subcommand");

const SETBIT: Event = Event::string("setbit");

fn setbit(call: &mut Call<'_>) -> Result<(), Stop> {
    let offset = bit_offset(call, call.arg(2))?;
    let value = match call.arg(3) {
        b"0" => false,
        b"1" => true,
        _ => return Err(BIT_VALUE.into()),
    };
    let old = call
        .engine
        .keys
        .upsert(call.arg(1), |string: &mut StringValue| {
            let grown = grow(string, offset / 8 + 1);
            let old = bits::set(string.buffer(), offset, value);
            (old, (grown || old != value).then_some(SETBIT))
        })?;
    call.reply.integer(old.into());
    Ok(())
}

fn getbit(call: &mut Call<'_>) -> Result<(), Stop> {
    let offset = bit_offset(call, call.arg(2))?;
    let string = call.engine.keys.read_as::<StringValue>(call.arg(1))?;
    let bit = string.is_some_and(|string| string.with_bytes(|bytes| bits::get(bytes, offset)));
    call.reply.integer(bit.into());
    Ok(())
}

fn bitcount(call: &mut Call<'_>) -> Result<(), Stop> {
    let range = BitRange::parse(call.options(2))?;
    let string = call.engine.keys.read_as::<StringValue>(call.arg(1))?;
    let count = string.map_or(0, |string| {
        string.with_bytes(|bytes| {
            range
                .resolve(bytes.len())
                .map_or(0, |span| bits::count_ones(bytes, span))
        })
    });
    call.reply.integer(count as i64);
    Ok(())
}

fn bitpos(call: &mut Call<'_>) -> Result<(), Stop> {
    let value = match call.int(2)? {
        0 => false,
        1 => true,
        _ => return Err(BIT_ARGUMENT.into()),
    };
    let range = BitRange::parse(call.options(3))?;
    let position = match call.engine.keys.read_as::<StringValue>(call.arg(1))? {
        // A missing string is taken for endless zeros.
        None if value => -1,
        None => 0,
        Some(string) => string.with_bytes(|bytes| find_bit(bytes, value, range)),
    };
    call.reply.integer(position);
    Ok(())
}

fn find_bit(bytes: &[u8], value: bool, range: BitRange) -> i64 {
    let Some(span) = range.clamped(bytes.len()).resolve(bytes.len()) else {
        return -1;
    };
    match bits::find(bytes, value, span) {
        Some(position) => position as i64,
        // With an open end, the zeros past the last byte count.
        None if !value && range.end.is_none() => bytes.len() as i64 * 8,
        None => -1,
    }
}

/// The part of a string that BITCOUNT and BITPOS look at.
#[derive(Clone, Copy)]
struct BitRange {
    start: i64,
    end: Option<i64>,
    by_bit: bool,
}

impl BitRange {
    /// The unit is looked at before the second number.
    fn parse(mut options: Options<'_>) -> Result<BitRange, Error> {
        let mut range = BitRange {
            start: 0,
            end: None,
            by_bit: false,
        };
        if options.len() > 3 {
            return Err(Error::SYNTAX);
        }
        if !options.is_empty() {
            range.start = options.int()?;
        }
        if let Some(unit) = options.rest().get(1) {
            range.by_bit = is_word(unit, "BIT");
            if !range.by_bit && !is_word(unit, "BYTE") {
                return Err(Error::SYNTAX);
            }
        }
        if !options.is_empty() {
            range.end = Some(options.int()?);
        }
        Ok(range)
    }

    /// BITPOS takes all places before the first for the first, BITCOUNT only what overlaps.
    fn clamped(self, len: usize) -> BitRange {
        let first = -((len as i64) << if self.by_bit { 3 } else { 0 });
        BitRange {
            start: self.start.max(first),
            end: self.end.map(|end| end.max(first)),
            ..self
        }
    }

    fn resolve(self, len: usize) -> Option<Span> {
        Span::resolve(self.start, self.end.unwrap_or(-1), self.by_bit, len)
    }
}

fn bitop(call: &mut Call<'_>) -> Result<(), Stop> {
    let (op, keys) = (parse_operation(call.arg(1))?, &call.args[3..]);
    if op == BitOp::Not && keys.len() != 1 {
        let text = "ERR BITOP NOT must be called with a single source key.";
        return Err(Error::text(text).into());
    }
    if matches!(op, BitOp::Diff | BitOp::Diff1 | BitOp::AndOr) && keys.len() < 2 {
        let name = call.arg(1).to_ascii_uppercase();
        let name = String::from_utf8_lossy(&name);
        let text = format!("ERR BITOP {name} must be called with at least two source keys.");
        return Err(Error::owned(text).into());
    }
    // Looked up one by one for what that does, and then held together.
    for key in keys {
        call.engine.keys.read_as::<StringValue>(key)?;
    }
    let sources: Vec<_> = keys
        .iter()
        .map(|key| call.engine.keys.view::<StringValue>(key))
        .map(|string| string.map(StringValue::bytes).unwrap_or_default())
        .collect();
    let slices: Vec<&[u8]> = sources.iter().map(|source| &**source).collect();
    let result = bits::combine(op, &slices);
    let len = result.len();
    if len == 0 {
        call.engine.keys.delete(call.arg(2), Event::generic("del"));
    } else {
        let value = Value::String(StringValue::Buffer(Box::new(result)));
        call.engine
            .keys
            .put(call.arg(2), value, Ttl::Clear, Event::string("set"));
    }
    call.reply.integer(len as i64);
    Ok(())
}

fn parse_operation(name: &[u8]) -> Result<BitOp, Error> {
    let operations = [
        ("AND", BitOp::And),
        ("OR", BitOp::Or),
        ("XOR", BitOp::Xor),
        ("NOT", BitOp::Not),
        ("DIFF", BitOp::Diff),
        ("DIFF1", BitOp::Diff1),
        ("ANDOR", BitOp::AndOr),
        ("ONE", BitOp::One),
    ];
    let found = operations.into_iter().find(|(word, _)| is_word(name, word));
    found.map(|(_, op)| op).ok_or(Error::SYNTAX)
}

/// One step of BITFIELD.
#[derive(Clone, Copy)]
struct FieldStep {
    field: FieldType,
    /// In bits.
    offset: usize,
    action: FieldAction,
}

#[derive(Clone, Copy)]
enum FieldAction {
    Get,
    Set(i64, Overflow),
    Add(i64, Overflow),
}

impl FieldStep {
    fn writes(self) -> bool {
        !matches!(self.action, FieldAction::Get)
    }

    fn byte_end(self) -> usize {
        (self.offset + self.field.width()).div_ceil(8)
    }

    /// What the field holds before and after, and what is answered; `None` if there is no room.
    fn apply(self, bytes: &mut [u8]) -> Option<(i64, i64, i64)> {
        let old = self.field.read(bytes, self.offset);
        let (new, answer) = match self.action {
            FieldAction::Get => return Some((old, old, old)),
            FieldAction::Set(value, overflow) => (self.field.fit(value, overflow)?, old),
            FieldAction::Add(increment, overflow) => {
                let sum = self.field.add(old, increment, overflow)?;
                (sum, sum)
            }
        };
        self.field.write(bytes, self.offset, new);
        Some((old, new, answer))
    }
}

fn bitfield(call: &mut Call<'_>) -> Result<(), Stop> {
    let steps = parse_steps(call)?;
    let writes = steps.iter().filter(|step| step.writes());
    let Some(byte_end) = writes.map(|step| step.byte_end()).max() else {
        return read_fields(call, &steps);
    };
    let answers = call
        .engine
        .keys
        .upsert(call.arg(1), |string: &mut StringValue| {
            let mut changed = false;
            let grown = grow(string, byte_end);
            let bytes = string.buffer();
            let answers: Vec<Option<i64>> = steps
                .iter()
                .map(|step| {
                    let (old, new, answer) = step.apply(bytes)?;
                    changed |= step.writes() && (grown || old != new);
                    Some(answer)
                })
                .collect();
            (answers, changed.then_some(SETBIT))
        })?;
    call.reply.array(answers.len());
    for answer in answers {
        match answer {
            Some(value) => call.reply.integer(value),
            None => call.reply.null(),
        }
    }
    Ok(())
}

fn bitfield_ro(call: &mut Call<'_>) -> Result<(), Stop> {
    let steps = parse_steps(call)?;
    if steps.iter().any(|step| step.writes()) {
        return Err(READ_ONLY.into());
    }
    read_fields(call, &steps)
}

fn read_fields(call: &mut Call<'_>, steps: &[FieldStep]) -> Result<(), Stop> {
    let string = call.engine.keys.read_as::<StringValue>(call.arg(1))?;
    let bytes = string.map(StringValue::bytes).unwrap_or_default();
    call.reply.array(steps.len());
    for step in steps {
        call.reply.integer(step.field.read(&bytes, step.offset));
    }
    Ok(())
}

fn parse_steps(call: &Call<'_>) -> Result<Vec<FieldStep>, Error> {
    let mut options = call.options(2);
    let (mut steps, mut overflow) = (Vec::new(), Overflow::default());
    while !options.is_empty() {
        if options.take("OVERFLOW") {
            overflow = parse_overflow(options.value()?)?;
            continue;
        }
        let (get, set) = (options.take("GET"), options.take("SET"));
        if !get && !set && !options.take("INCRBY") || options.len() < if get { 2 } else { 3 } {
            return Err(Error::SYNTAX);
        }
        let field = FieldType::parse(options.value()?).ok_or(FIELD_TYPE)?;
        let offset = field_offset(call, options.value()?, field)?;
        let action = if get {
            FieldAction::Get
        } else if set {
            FieldAction::Set(options.int()?, overflow)
        } else {
            FieldAction::Add(options.int()?, overflow)
        };
        steps.push(FieldStep {
            field,
            offset,
            action,
        });
    }
    Ok(steps)
}

fn parse_overflow(word: &[u8]) -> Result<Overflow, Error> {
    let modes = [
        ("WRAP", Overflow::Wrap),
        ("SAT", Overflow::Saturate),
        ("FAIL", Overflow::Fail),
    ];
    let found = modes.into_iter().find(|(name, _)| is_word(word, name));
    found.map(|(_, mode)| mode).ok_or(OVERFLOW)
}

/// An offset in bits, or in fields of this type behind a `#`.
fn field_offset(call: &Call<'_>, arg: &[u8], field: FieldType) -> Result<usize, Error> {
    let Some(nth) = arg.strip_prefix(b"#") else {
        return bit_offset(call, arg);
    };
    let nth = number::parse_i64(nth).and_then(|nth| nth.checked_mul(field.width() as i64));
    within_limit(call, nth)
}

fn bit_offset(call: &Call<'_>, arg: &[u8]) -> Result<usize, Error> {
    within_limit(call, number::parse_i64(arg))
}

fn within_limit(call: &Call<'_>, offset: Option<i64>) -> Result<usize, Error> {
    let bits_max = call.engine.config.hot.bulk_len_max.saturating_mul(8);
    let fits = offset.filter(|offset| (0..bits_max).contains(offset));
    fits.map(|offset| offset as usize).ok_or(BIT_OFFSET)
}

/// Makes room for so many bytes; true if there was none.
fn grow(string: &mut StringValue, byte_len: usize) -> bool {
    let bytes = string.buffer();
    let grown = bytes.len() < byte_len;
    if grown {
        bytes.resize(byte_len, 0);
    }
    grown
}
