//! Strings: values, counters, ranges, and the conditional writes that locks are made of.

use super::*;
use crate::{
    command::spec::{Categories, Flags, KeySpec},
    keyspace::{Event, Ttl},
    value::{StringValue, Value},
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "get",
        arity: 2,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::STRING,
        keys: &[KeySpec::one("RO access", 1)],
        group: "string",
        summary: "Returns the string at a key.",
        args: "key:key",
        handler: get,
        ..Command::BASE
    },
    Command {
        name: "set",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::STRING,
        keys: &[KeySpec::one("RW access update variable_flags", 1)
            .noted("reads the key too, with GET or a condition")],
        group: "string",
        summary: "Sets a string, with a condition and a deadline if asked.",
        args: "key:key value:string [condition<NX|XX|IFEQ@comparison-value:string|\
            IFNE@comparison-value:string|IFDEQ@comparison-digest:string|\
            IFDNE@comparison-digest:string>] [GET] [expiration<EX@seconds:integer|\
            PX@milliseconds:integer|EXAT@unix-time-seconds:unix-time|\
            PXAT@unix-time-milliseconds:unix-time|KEEPTTL>]",
        handler: set,
        ..Command::BASE
    },
];

fn get(call: &mut Call<'_>) -> Result<(), Stop> {
    match call.engine.keys.read_as::<StringValue>(call.arg(1))? {
        Some(value) => value.with_bytes(|bytes| call.reply.bulk(bytes)),
        None => call.reply.null(),
    }
    Ok(())
}

fn set(call: &mut Call<'_>) -> Result<(), Stop> {
    call.engine.keys.put(
        call.arg(1),
        Value::string(call.arg(2)),
        Ttl::Clear,
        Event::string("set"),
    );
    call.reply.ok();
    Ok(())
}
