//! `HyperLogLog`: distinct elements counted by estimate.

use super::*;
use crate::{
    command::spec::{Categories, Flags, KeySpec},
    keyspace::Event,
    value::{
        StringValue,
        hyperloglog::{self, Encoding, HyperLogLog, Invalid, Registers},
    },
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "pfadd",
        arity: -2,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::HYPERLOGLOG,
        keys: &[KeySpec::one("RW insert", 1)],
        group: "hyperloglog",
        since: "2.8.9",
        summary: "Notes elements in a HyperLogLog, and makes it if it has to.",
        complexity: "O(1) for each element",
        args: "key:key [element:string...]",
        handler: pfadd,
        ..Command::BASE
    },
    Command {
        name: "pfcount",
        arity: -2,
        flags: Flags::READONLY.with(Flags::MAY_REPLICATE),
        categories: Categories::HYPERLOGLOG,
        keys: &[KeySpec::range("RW access", 1, -1, 1).noted("keeps the count in the value")],
        group: "hyperloglog",
        since: "2.8.9",
        summary: "Estimates how many distinct elements were noted, in one HyperLogLog or in several together.",
        complexity: "O(1) for one key, O(N) for N keys",
        args: "key:key...",
        handler: pfcount,
        ..Command::BASE
    },
    Command {
        name: "pfdebug",
        arity: 3,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::ADMIN]),
        categories: Categories::HYPERLOGLOG,
        keys: &[KeySpec::one("RW access", 2)],
        group: "hyperloglog",
        since: "2.8.9",
        internal: true,
        summary: "Looks into a HyperLogLog.",
        complexity: "O(N) where N is the number of registers",
        args: "subcommand:string key:key",
        handler: pfdebug,
        ..Command::BASE
    },
    Command {
        name: "pfmerge",
        arity: -2,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::HYPERLOGLOG,
        keys: &[
            KeySpec::one("RW access insert", 1),
            KeySpec::range("RO access", 2, -1, 1),
        ],
        group: "hyperloglog",
        since: "2.8.9",
        summary: "Merges HyperLogLogs into one.",
        complexity: "O(N) where N is the number of keys",
        args: "destkey:key [sourcekey:key...]",
        handler: pfmerge,
        ..Command::BASE
    },
    Command {
        name: "pfselftest",
        arity: 1,
        flags: Flags::ADMIN,
        categories: Categories::HYPERLOGLOG,
        group: "hyperloglog",
        since: "2.8.9",
        internal: true,
        summary: "Checks the HyperLogLog against itself.",
        complexity: "O(N) where N is the number of registers",
        handler: pfselftest,
        ..Command::BASE
    },
];

const FOREIGN: Error = Error::text("WRONGTYPE Key is not a valid HyperLogLog string value.");
const CORRUPT: Error = Error::text("INVALIDOBJ Corrupted HLL object detected");
const NO_KEY: Error = Error::text("ERR The specified key does not exist");
const NOT_SPARSE: Error = Error::text("ERR HLL encoding is not sparse");

const PFADD: Event = Event::string("pfadd");

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Error {
        match invalid {
            Invalid::Foreign => FOREIGN,
            Invalid::Corrupt => CORRUPT,
        }
    }
}

fn pfadd(call: &mut Call<'_>) -> Result<(), Stop> {
    let sparse_max = call.engine.config.hot.hll_sparse_max;
    let changed = change(call, call.arg(1), PFADD, |sketch, is_new| {
        let mut changed = is_new;
        for element in &call.args[2..] {
            changed |= sketch.add(element, sparse_max)?;
        }
        if is_new {
            sketch.forget_count();
        }
        Ok((changed, changed))
    })?;
    call.reply.integer(changed.into());
    Ok(())
}

fn pfcount(call: &mut Call<'_>) -> Result<(), Stop> {
    let count = match call.args {
        &[_, key] => count_one(call, key)?,
        args => {
            let mut registers = Registers::default();
            for key in &args[1..] {
                raise(call, &mut registers, key)?;
            }
            registers.estimate()
        }
    };
    call.reply.integer(count as i64);
    Ok(())
}

/// Counts one key; a new result is kept in it.
fn count_one(call: &mut Call<'_>, key: &[u8]) -> Result<u64, Error> {
    let Some(string) = call.engine.keys.read_as::<StringValue>(key)? else {
        return Ok(0);
    };
    match string.with_bytes(HyperLogLog::cached_count)? {
        Some(count) => Ok(count),
        None => change(call, key, Event::SILENT, |sketch, _| {
            Ok((sketch.count()?, true))
        }),
    }
}

fn pfmerge(call: &mut Call<'_>) -> Result<(), Stop> {
    let (mut registers, mut dense) = (Registers::default(), false);
    for key in &call.args[1..] {
        dense |= raise(call, &mut registers, key)? == Some(Encoding::Dense);
    }
    let sparse_max = call.engine.config.hot.hll_sparse_max;
    change(call, call.arg(1), PFADD, |sketch, _| {
        if dense {
            sketch.make_dense()?;
        }
        sketch.rise_to(&registers, sparse_max)?;
        Ok(((), true))
    })?;
    call.reply.ok();
    Ok(())
}

/// Raises registers to those of the sketch at a key, and tells how that is encoded.
fn raise(
    call: &mut Call<'_>,
    registers: &mut Registers,
    key: &[u8],
) -> Result<Option<Encoding>, Error> {
    let Some(string) = call.engine.keys.read_as::<StringValue>(key)? else {
        return Ok(None);
    };
    let encoding = string.with_bytes(|bytes| HyperLogLog::raise(registers, bytes))?;
    Ok(Some(encoding))
}

fn pfdebug(call: &mut Call<'_>) -> Result<(), Stop> {
    let (subcommand, key) = (call.arg(1), call.arg(2));
    if is_word(subcommand, "SIMD") && call.args.len() == 3 {
        return simd(call);
    }
    let sketch = read(call, key)?.ok_or(NO_KEY)?;
    if is_word(subcommand, "GETREG") {
        make_dense(call, key)?;
        let registers = sketch.registers().map_err(Error::from)?;
        call.reply.array(hyperloglog::REGISTERS);
        for value in registers.iter() {
            call.reply.integer(value.into());
        }
    } else if is_word(subcommand, "DECODE") {
        if !sketch.is_sparse() {
            return Err(NOT_SPARSE.into());
        }
        call.reply.bulk(sketch.describe().as_bytes());
    } else if is_word(subcommand, "ENCODING") {
        call.reply.simple(if sketch.is_sparse() {
            "sparse"
        } else {
            "dense"
        });
    } else if is_word(subcommand, "TODENSE") {
        let changed = make_dense(call, key)?;
        call.reply.integer(changed.into());
    } else {
        return Err(Error::quoting([b"ERR Unknown PFDEBUG subcommand '", subcommand, b"'"]).into());
    }
    Ok(())
}

/// PFDEBUG SIMD: there is nothing to switch, as the registers are merged in one way only.
fn simd(call: &mut Call<'_>) -> Result<(), Stop> {
    if is_word(call.arg(2), "ON") {
        call.reply.simple("enabled");
    } else if is_word(call.arg(2), "OFF") {
        call.reply.simple("disabled");
    } else {
        return Err(Error::text("ERR Argument must be ON or OFF").into());
    }
    Ok(())
}

fn make_dense(call: &mut Call<'_>, key: &[u8]) -> Result<bool, Error> {
    change(call, key, Event::SILENT, |sketch, _| {
        let sparse = sketch.is_sparse();
        sketch.make_dense()?;
        Ok((sparse, sparse))
    })
}

fn pfselftest(call: &mut Call<'_>) -> Result<(), Stop> {
    hyperloglog::self_test().map_err(|what| Error::owned(format!("TESTFAILED {what}")))?;
    call.reply.ok();
    Ok(())
}

/// A copy of the sketch at a key.
fn read(call: &mut Call<'_>, key: &[u8]) -> Result<Option<HyperLogLog>, Error> {
    let Some(string) = call.engine.keys.read_as::<StringValue>(key)? else {
        return Ok(None);
    };
    Ok(Some(HyperLogLog::from_bytes(string.bytes().into_owned())?))
}

/// Changes the sketch at a key in place, or a new one. The closure is told whether it is new,
/// and tells whether it changed anything.
fn change<R>(
    call: &mut Call<'_>,
    key: &[u8],
    event: Event,
    change: impl FnOnce(&mut HyperLogLog, bool) -> Result<(R, bool), Invalid>,
) -> Result<R, Error> {
    let is_new = match call.engine.keys.read_as::<StringValue>(key)? {
        Some(string) => {
            string.with_bytes(HyperLogLog::check)?;
            false
        }
        None => true,
    };
    let result = call.engine.keys.upsert(key, |string: &mut StringValue| {
        let bytes = std::mem::take(string.buffer());
        // Anything but a new one was checked above.
        let mut sketch = HyperLogLog::from_bytes(bytes).unwrap_or_default();
        let result = change(&mut sketch, is_new);
        *string.buffer() = sketch.into_bytes();
        let changed = matches!(result, Ok((_, true)));
        (result.map(|(result, _)| result), changed.then_some(event))
    })?;
    result.map_err(Error::from)
}
