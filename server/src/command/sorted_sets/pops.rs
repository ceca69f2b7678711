//! Pops off either end of a sorted set, and those that wait until there is something to pop.

use super::super::{lists::wait, *};
use crate::{
    blocking::{OnTimeout, parse_timeout},
    bytestr::ByteStr,
    keyspace::Event,
    reply::Protocol,
    value::{list::End, sorted_set::SortedSet},
};

pub(super) fn zpopmax(call: &mut Call<'_>) -> Result<(), Stop> {
    pop_from_one(call, End::Back)
}

pub(super) fn zpopmin(call: &mut Call<'_>) -> Result<(), Stop> {
    pop_from_one(call, End::Front)
}

fn pop_from_one(call: &mut Call<'_>, end: End) -> Result<(), Stop> {
    const NOT_POSITIVE: Error = Error::text("ERR value is out of range, must be positive");
    if call.args.len() > 3 {
        return Err(Error::SYNTAX.into());
    }
    let counted = call.args.len() == 3;
    let count = if counted {
        let count = number::parse_i64(call.arg(2)).and_then(|count| usize::try_from(count).ok());
        count.ok_or(NOT_POSITIVE)?
    } else {
        1
    };
    let popped = pop(call, call.arg(1), end, count)?.unwrap_or_default();
    let nested = counted && call.reply.protocol() == Protocol::Resp3;
    call.reply.array(if nested {
        popped.len()
    } else {
        popped.len() * 2
    });
    answer_pairs(call.reply, &popped, nested);
    Ok(())
}

pub(super) fn zmpop(call: &mut Call<'_>) -> Result<(), Stop> {
    let (keys, end, count) = parse_mpop(call, 1)?;
    if !pop_first(call, keys, end, count)? {
        call.reply.null_array();
    }
    Ok(())
}

pub(super) fn bzmpop(call: &mut Call<'_>) -> Result<(), Stop> {
    let (keys, end, count) = parse_mpop(call, 2)?;
    let until = parse_timeout(call.arg(1), call.engine.keys.now())?;
    if pop_first(call, keys, end, count)? {
        return Ok(());
    }
    Err(wait(keys, until, OnTimeout::NullArray))
}

pub(super) fn bzpopmax(call: &mut Call<'_>) -> Result<(), Stop> {
    pop_or_wait(call, End::Back)
}

pub(super) fn bzpopmin(call: &mut Call<'_>) -> Result<(), Stop> {
    pop_or_wait(call, End::Front)
}

fn pop_or_wait(call: &mut Call<'_>, end: End) -> Result<(), Stop> {
    let last = call.args.len() - 1;
    let until = parse_timeout(call.arg(last), call.engine.keys.now())?;
    let keys = &call.args[1..last];
    for key in keys {
        let popped = pop(call, key, end, 1)?.unwrap_or_default();
        if let Some((member, score)) = popped.first() {
            call.reply.array(3);
            call.reply.bulk(key);
            call.reply.bulk(member);
            call.reply.double(*score);
            return Ok(());
        }
    }
    Err(wait(keys, until, OnTimeout::NullArray))
}

/// Reads `numkeys key … MIN|MAX [COUNT count]`.
fn parse_mpop<'a>(call: &Call<'a>, at: usize) -> Result<(&'a [&'a [u8]], End, usize), Error> {
    const NO_KEYS: Error = Error::text("ERR numkeys should be greater than 0");
    const NO_COUNT: Error = Error::text("ERR count should be greater than 0");
    let positive = |arg| {
        let value = number::parse_i64(arg).and_then(|value| usize::try_from(value).ok());
        value.filter(|&value| value > 0)
    };
    let numkeys = positive(call.arg(at)).ok_or(NO_KEYS)?;
    let rest = &call.args[at + 1..];
    if numkeys >= rest.len() {
        return Err(Error::SYNTAX);
    }
    let mut options = call.options(at + 1 + numkeys);
    let end = if options.take("MIN") {
        End::Front
    } else if options.take("MAX") {
        End::Back
    } else {
        return Err(Error::SYNTAX);
    };
    let mut count = None;
    while !options.is_empty() {
        if count.is_some() || options.len() < 2 || !options.take("COUNT") {
            return Err(Error::SYNTAX);
        }
        count = Some(positive(options.value()?).ok_or(NO_COUNT)?);
    }
    Ok((&rest[..numkeys], end, count.unwrap_or(1)))
}

/// Pops from the first of the keys that has anything, and answers; false when none has.
fn pop_first(call: &mut Call<'_>, keys: &[&[u8]], end: End, count: usize) -> Result<bool, Error> {
    for key in keys {
        let popped = pop(call, key, end, count)?.unwrap_or_default();
        if !popped.is_empty() {
            call.reply.array(2);
            call.reply.bulk(key);
            call.reply.array(popped.len());
            answer_pairs(call.reply, &popped, true);
            return Ok(true);
        }
    }
    Ok(false)
}

type Popped = Vec<(ByteStr, f64)>;

/// Pops up to `count` members off a key; `None` when there is no such key.
fn pop(call: &mut Call<'_>, key: &[u8], end: End, count: usize) -> Result<Option<Popped>, Error> {
    let event = Event::sorted_set(if end == End::Front {
        "zpopmin"
    } else {
        "zpopmax"
    });
    call.engine.keys.update(key, |set: &mut SortedSet| {
        let count = count.min(set.len());
        let popped: Popped = (0..count).map_while(|_| set.pop(end)).collect();
        let any = !popped.is_empty();
        (popped, any.then_some(event))
    })
}

fn answer_pairs(reply: &mut dyn Reply, pairs: &[(ByteStr, f64)], nested: bool) {
    for (member, score) in pairs {
        if nested {
            reply.array(2);
        }
        reply.bulk(member);
        reply.double(*score);
    }
}
