//! What works on keys of any type: deletion, expiry, renaming, scanning.

use super::*;
use crate::{
    command::spec::{Categories, Flags, KeySpec},
    keyspace::Event,
};

pub const COMMANDS: &[Command] = &[Command {
    name: "del",
    arity: -2,
    flags: Flags::WRITE,
    categories: Categories::KEYSPACE,
    keys: &[KeySpec::range("RM delete", 1, -1, 1)],
    tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
    summary: "Deletes keys.",
    complexity: "O(N) where N is the number of keys, plus the elements they hold",
    args: "key:key...",
    handler: del,
    ..Command::BASE
}];

fn del(call: &mut Call<'_>) -> Result<(), Stop> {
    let mut deleted = 0;
    for key in &call.args[1..] {
        deleted += i64::from(call.engine.keys.delete(key, Event::generic("del")));
    }
    call.reply.integer(deleted);
    Ok(())
}
