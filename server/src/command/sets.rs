//! Sets: members, random draws, and the algebra of several sets.

use std::collections::HashSet;

use super::{
    draws,
    keys::{ScanOptions, Scanned, scan_cursor},
    scanning, *,
};
use crate::{
    bytestr::ByteStr,
    command::spec::{Categories, Flags, KeySpec},
    keyspace::{Event, Ttl},
    value::{Kind, limits::Limits, packed::Item, set::Set},
};

/// The set commands.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "sadd",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::SET,
        keys: &[KeySpec::one("RW insert", 1)],
        group: "set",
        history: &[("2.4.0", "Takes several members.")],
        summary: "Adds members to a set, created if missing.",
        complexity: "O(N) where N is the number of members given",
        args: "key:key member:string...",
        handler: sadd,
        ..Command::BASE
    },
    Command {
        name: "scard",
        arity: 2,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::SET,
        keys: &[KeySpec::one("RO", 1)],
        group: "set",
        summary: "Returns the number of members.",
        args: "key:key",
        handler: scard,
        ..Command::BASE
    },
    Command {
        name: "sdiff",
        arity: -2,
        flags: Flags::READONLY,
        categories: Categories::SET,
        keys: &[KeySpec::range("RO access", 1, -1, 1)],
        tips: &["nondeterministic_output_order"],
        group: "set",
        summary: "Returns the members of the first set that no other has.",
        complexity: "O(N) where N is the number of members of all sets",
        args: "key:key...",
        handler: sdiff,
        ..Command::BASE
    },
    Command {
        name: "sdiffstore",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::SET,
        keys: &[
            KeySpec::one("OW update", 1),
            KeySpec::range("RO access", 2, -1, 1),
        ],
        group: "set",
        summary: "Stores the members of the first set that no other has.",
        complexity: "O(N) where N is the number of members of all sets",
        args: "destination:key key:key...",
        handler: sdiffstore,
        ..Command::BASE
    },
    Command {
        name: "sinter",
        arity: -2,
        flags: Flags::READONLY,
        categories: Categories::SET,
        keys: &[KeySpec::range("RO access", 1, -1, 1)],
        tips: &["nondeterministic_output_order"],
        group: "set",
        summary: "Returns the members that all sets share.",
        complexity: "O(N*M) where N is the size of the smallest set and M the number of sets",
        args: "key:key...",
        handler: sinter,
        ..Command::BASE
    },
    Command {
        name: "sintercard",
        arity: -3,
        flags: Flags::of([Flags::READONLY, Flags::MOVABLEKEYS]),
        categories: Categories::SET,
        keys: &[KeySpec::counted("RO access", 1)],
        group: "set",
        since: "7.0.0",
        summary: "Counts the members that all sets share, up to a limit.",
        complexity: "O(N*M) where N is the size of the smallest set and M the number of sets",
        args: "numkeys:integer key:key... [LIMIT@limit:integer]",
        handler: sintercard,
        ..Command::BASE
    },
    Command {
        name: "sinterstore",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::SET,
        keys: &[
            KeySpec::one("OW update", 1),
            KeySpec::range("RO access", 2, -1, 1),
        ],
        group: "set",
        summary: "Stores the members that all sets share.",
        complexity: "O(N*M) where N is the size of the smallest set and M the number of sets",
        args: "destination:key key:key...",
        handler: sinterstore,
        ..Command::BASE
    },
    Command {
        name: "sismember",
        arity: 3,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::SET,
        keys: &[KeySpec::one("RO", 1)],
        group: "set",
        summary: "Says whether a set has a member.",
        args: "key:key member:string",
        handler: sismember,
        ..Command::BASE
    },
    Command {
        name: "smembers",
        arity: 2,
        flags: Flags::READONLY,
        categories: Categories::SET,
        keys: &[KeySpec::one("RO access", 1)],
        tips: &["nondeterministic_output_order"],
        group: "set",
        summary: "Returns all members.",
        complexity: "O(N) where N is the size of the set",
        args: "key:key",
        handler: smembers,
        ..Command::BASE
    },
    Command {
        name: "smismember",
        arity: -3,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::SET,
        keys: &[KeySpec::one("RO access", 1)],
        group: "set",
        since: "6.2.0",
        summary: "Says for each given member whether the set has it.",
        complexity: "O(N) where N is the number of members given",
        args: "key:key member:string...",
        handler: smismember,
        ..Command::BASE
    },
    Command {
        name: "smove",
        arity: 4,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::SET,
        keys: &[
            KeySpec::one("RW access delete", 1),
            KeySpec::one("RW insert", 2),
        ],
        group: "set",
        summary: "Moves a member from one set to another.",
        args: "source:key destination:key member:string",
        handler: smove,
        ..Command::BASE
    },
    Command {
        name: "spop",
        arity: -2,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::SET,
        keys: &[KeySpec::one("RW access delete", 1)],
        tips: &["nondeterministic_output"],
        group: "set",
        history: &[("3.2.0", "Takes a count.")],
        summary: "Removes and returns members picked at random.",
        complexity: "O(N) where N is the number of members returned",
        args: "key:key [count:integer{3.2.0}]",
        handler: spop,
        ..Command::BASE
    },
    Command {
        name: "srandmember",
        arity: -2,
        flags: Flags::READONLY,
        categories: Categories::SET,
        keys: &[KeySpec::one("RO access", 1)],
        tips: &["nondeterministic_output"],
        group: "set",
        history: &[("2.6.0", "Takes a count.")],
        summary: "Returns members picked at random.",
        complexity: "O(N) where N is the number of members returned",
        args: "key:key [count:integer{2.6.0}]",
        handler: srandmember,
        ..Command::BASE
    },
    Command {
        name: "srem",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::SET,
        keys: &[KeySpec::one("RW delete", 1)],
        group: "set",
        history: &[("2.4.0", "Takes several members.")],
        summary: "Removes members.",
        complexity: "O(N) where N is the number of members given",
        args: "key:key member:string...",
        handler: srem,
        ..Command::BASE
    },
    Command {
        name: "sscan",
        arity: -3,
        flags: Flags::READONLY,
        categories: Categories::SET,
        keys: &[KeySpec::one("RO access", 1)],
        tips: &["nondeterministic_output"],
        group: "set",
        since: "2.8.0",
        summary: "Walks over the members, some with each call.",
        complexity: "O(1) per call, O(N) for a full walk over N members",
        args: "key:key cursor:integer [MATCH@pattern:pattern] [COUNT@count:integer]",
        handler: sscan,
        ..Command::BASE
    },
    Command {
        name: "sunion",
        arity: -2,
        flags: Flags::READONLY,
        categories: Categories::SET,
        keys: &[KeySpec::range("RO access", 1, -1, 1)],
        tips: &["nondeterministic_output_order"],
        group: "set",
        summary: "Returns the members that any of the sets has.",
        complexity: "O(N) where N is the number of members of all sets",
        args: "key:key...",
        handler: sunion,
        ..Command::BASE
    },
    Command {
        name: "sunionstore",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::SET,
        keys: &[
            KeySpec::one("OW update", 1),
            KeySpec::range("RO access", 2, -1, 1),
        ],
        group: "set",
        summary: "Stores the members that any of the sets has.",
        complexity: "O(N) where N is the number of members of all sets",
        args: "destination:key key:key...",
        handler: sunionstore,
        ..Command::BASE
    },
];

fn sadd(call: &mut Call<'_>) -> Result<(), Stop> {
    let (members, limits) = (&call.args[2..], call.engine.config.hot.limits);
    let added = call.engine.keys.upsert(call.arg(1), |set: &mut Set| {
        prepare(set, members, limits);
        let added = members
            .iter()
            .filter(|member| set.insert(member, limits))
            .count();
        (added, (added > 0).then_some(Event::set("sadd")))
    })?;
    call.reply.integer(added as i64);
    Ok(())
}

/// The encoding is chosen by how much the command brings.
fn prepare(set: &mut Set, members: &[&[u8]], limits: Limits) {
    if set.is_empty() {
        let first = members.first().copied().unwrap_or_default();
        *set = Set::sized_for(members.len(), first, limits);
    } else {
        set.expect(members.len(), limits);
    }
}

fn scard(call: &mut Call<'_>) -> Result<(), Stop> {
    let len = call
        .engine
        .keys
        .read_as::<Set>(call.arg(1))?
        .map_or(0, Set::len);
    call.reply.integer(len as i64);
    Ok(())
}

fn sdiff(call: &mut Call<'_>) -> Result<(), Stop> {
    let result = difference(call, &call.args[1..])?;
    reply_members(call.reply, &result);
    Ok(())
}

fn sdiffstore(call: &mut Call<'_>) -> Result<(), Stop> {
    let result = difference(call, &call.args[2..])?;
    store(call, result, "sdiffstore")
}

fn sinter(call: &mut Call<'_>) -> Result<(), Stop> {
    let keys = &call.args[1..];
    check_sets(call, keys)?;
    let sets = view_sets(call.engine, keys);
    let mut shared: Vec<Item<'_>> = Vec::new();
    each_shared(&sets, |member| {
        shared.push(member);
        true
    });
    call.reply.set(shared.len());
    for member in shared {
        call.reply.bulk(&member);
    }
    Ok(())
}

fn sintercard(call: &mut Call<'_>) -> Result<(), Stop> {
    const TOO_FEW: Error = Error::text("ERR numkeys should be greater than 0");
    const TOO_MANY: Error = Error::text("ERR Number of keys can't be greater than number of args");
    let count = number::parse_i64(call.arg(1))
        .filter(|count| *count > 0)
        .ok_or(TOO_FEW)?;
    let keys = call.args[2..].get(..count as usize).ok_or(TOO_MANY)?;
    let mut options = call.options(2 + keys.len());
    let mut limit = 0;
    while !options.is_empty() {
        if !options.take("LIMIT") {
            return Err(Error::SYNTAX.into());
        }
        limit = number::parse_i64(options.value()?)
            .filter(|limit| *limit >= 0)
            .ok_or(Error::text("ERR LIMIT can't be negative"))?;
    }
    check_sets(call, keys)?;
    let sets = view_sets(call.engine, keys);
    let mut count = 0;
    each_shared(&sets, |_| {
        count += 1;
        count != limit
    });
    call.reply.integer(count);
    Ok(())
}

fn sinterstore(call: &mut Call<'_>) -> Result<(), Stop> {
    let keys = &call.args[2..];
    check_sets(call, keys)?;
    let limits = call.engine.config.hot.limits;
    let sets = view_sets(call.engine, keys);
    let mut shared: Vec<Item<'_>> = Vec::new();
    each_shared(&sets, |member| {
        shared.push(member);
        true
    });
    let first = shared.first().map_or(&b""[..], |member| member);
    let mut result = Set::sized_for(shared.len(), first, limits);
    for member in &shared {
        result.insert(member, limits);
    }
    store(call, result, "sinterstore")
}

fn sismember(call: &mut Call<'_>) -> Result<(), Stop> {
    let set = call.engine.keys.read_as::<Set>(call.arg(1))?;
    let found = set.is_some_and(|set| set.contains(call.args[2]));
    call.reply.integer(i64::from(found));
    Ok(())
}

fn smembers(call: &mut Call<'_>) -> Result<(), Stop> {
    match call.engine.keys.read_as::<Set>(call.arg(1))? {
        Some(set) => reply_members(call.reply, set),
        None => call.reply.set(0),
    }
    Ok(())
}

fn smismember(call: &mut Call<'_>) -> Result<(), Stop> {
    let members = &call.args[2..];
    let set = call.engine.keys.read_as::<Set>(call.arg(1))?;
    call.reply.array(members.len());
    for member in members {
        call.reply
            .integer(i64::from(set.is_some_and(|set| set.contains(member))));
    }
    Ok(())
}

fn smove(call: &mut Call<'_>) -> Result<(), Stop> {
    let (from, to, member) = (call.arg(1), call.arg(2), call.arg(3));
    let limits = call.engine.config.hot.limits;
    let keys = &mut call.engine.keys;
    let Some(source) = keys.read_as::<Set>(from)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let there = source.contains(member);
    keys.check::<Set>(to)?;
    call.reply.integer(i64::from(there));
    if !there || from == to {
        return Ok(());
    }
    keys.update(from, |set: &mut Set| {
        let removed = set.remove(member);
        ((), removed.then_some(Event::set("srem")))
    })?;
    keys.upsert(to, |set: &mut Set| {
        prepare(set, &[member], limits);
        let added = set.insert(member, limits);
        ((), added.then_some(Event::set("sadd")))
    })?;
    Ok(())
}

fn spop(call: &mut Call<'_>) -> Result<(), Stop> {
    const NOT_POSITIVE: Error = Error::text("ERR value is out of range, must be positive");
    if call.args.len() > 3 {
        return Err(Error::SYNTAX.into());
    }
    if call.args.len() == 2 {
        return pop_one(call);
    }
    let count = number::parse_i64(call.arg(2))
        .filter(|count| *count >= 0)
        .ok_or(NOT_POSITIVE)?;
    let popped = pop(call, count as usize)?;
    call.reply.set(popped.len());
    for member in popped {
        call.reply.bulk(&member);
    }
    Ok(())
}

fn pop_one(call: &mut Call<'_>) -> Result<(), Stop> {
    let Engine { keys, random, .. } = &mut *call.engine;
    let popped = keys.update(call.args[1], |set: &mut Set| {
        let popped = set.take(random.below(set.len()));
        (popped, Some(Event::set("spop")))
    })?;
    keys.count(popped.is_some());
    match popped.flatten() {
        Some(member) => call.reply.bulk(&member),
        None => call.reply.null(),
    }
    Ok(())
}

fn pop(call: &mut Call<'_>, count: usize) -> Result<Vec<ByteStr>, Error> {
    let Engine { keys, random, .. } = &mut *call.engine;
    let popped = keys.update(call.args[1], |set: &mut Set| {
        let count = count.min(set.len());
        let popped: Vec<ByteStr> = (0..count)
            .filter_map(|_| set.take(random.below(set.len())))
            .collect();
        let event = (count > 0).then_some(Event::set("spop"));
        (popped, event)
    })?;
    keys.count(popped.is_some());
    Ok(popped.unwrap_or_default())
}

fn srandmember(call: &mut Call<'_>) -> Result<(), Stop> {
    if call.args.len() > 3 {
        return Err(Error::SYNTAX.into());
    }
    let count = if call.args.len() == 3 {
        Some(draws::count(call.arg(2))?)
    } else {
        None
    };
    let Engine { keys, random, .. } = &mut *call.engine;
    let Some(set) = keys.read_as::<Set>(call.args[1])? else {
        match count {
            Some(_) => call.reply.array(0),
            None => call.reply.null(),
        }
        return Ok(());
    };
    let places = match count {
        Some(count) => draws::places(random, count, set.len())?,
        None => vec![random.below(set.len())],
    };
    if count.is_some() {
        call.reply.array(places.len());
    }
    for member in places.into_iter().filter_map(|place| set.pick(place)) {
        call.reply.bulk(&member);
    }
    Ok(())
}

fn srem(call: &mut Call<'_>) -> Result<(), Stop> {
    let members = &call.args[2..];
    let removed = call.engine.keys.update(call.arg(1), |set: &mut Set| {
        let removed = members.iter().filter(|member| set.remove(member)).count();
        (removed, (removed > 0).then_some(Event::set("srem")))
    })?;
    call.reply.integer(removed.unwrap_or(0) as i64);
    Ok(())
}

fn sscan(call: &mut Call<'_>) -> Result<(), Stop> {
    let cursor = scan_cursor(call.arg(2))?;
    let options = ScanOptions::parse(call.options(3), Scanned::Set);
    let mut found = Vec::new();
    let Some(set) = call.engine.keys.read_as::<Set>(call.args[1])? else {
        return scanning::answer(call.reply, 0, &found);
    };
    let options = options?;
    let next = set.scan(cursor, options.count, |member| {
        if options.wants(&member) {
            found.push(member);
        }
    });
    scanning::answer(call.reply, next, &found)
}

fn sunion(call: &mut Call<'_>) -> Result<(), Stop> {
    let result = union(call, &call.args[1..])?;
    reply_members(call.reply, &result);
    Ok(())
}

fn sunionstore(call: &mut Call<'_>) -> Result<(), Stop> {
    let result = union(call, &call.args[2..])?;
    store(call, result, "sunionstore")
}

fn reply_members(reply: &mut dyn Reply, set: &Set) {
    reply.set(set.len());
    for member in set {
        reply.bulk(&member);
    }
}

/// Refuses keys of another type, all before anything is answered.
fn check_sets(call: &mut Call<'_>, keys: &[&[u8]]) -> Result<(), Error> {
    for key in keys {
        call.engine.keys.read_as::<Set>(key)?;
    }
    Ok(())
}

/// The sets at keys that [`check_sets`] has passed.
fn view_sets<'a>(engine: &'a Engine, keys: &[&[u8]]) -> Vec<Option<&'a Set>> {
    keys.iter().map(|key| engine.keys.view(key)).collect()
}

/// Visits what all the sets share, in the order of the smallest, until told to stop.
fn each_shared<'a>(sets: &[Option<&'a Set>], mut visit: impl FnMut(Item<'a>) -> bool) {
    let Some(mut sets) = sets.iter().copied().collect::<Option<Vec<&Set>>>() else {
        return;
    };
    // A set named twice asks nothing more.
    let mut seen = HashSet::new();
    sets.retain(|set| seen.insert(std::ptr::from_ref(*set)));
    sets.sort_by_key(|set| set.len());
    let Some((smallest, others)) = sets.split_first() else {
        return;
    };
    for member in *smallest {
        if others.iter().all(|other| other.contains(&member)) && !visit(member) {
            return;
        }
    }
}

fn union(call: &mut Call<'_>, keys: &[&[u8]]) -> Result<Set, Error> {
    check_sets(call, keys)?;
    let limits = call.engine.config.hot.limits;
    let mut result = Set::new();
    // One that is named again adds nothing.
    let mut met: HashSet<*const Set> = HashSet::new();
    for set in view_sets(call.engine, keys).into_iter().flatten() {
        if met.insert(std::ptr::from_ref(set)) {
            for member in set {
                result.insert(&member, limits);
            }
        }
    }
    Ok(result)
}

fn difference(call: &mut Call<'_>, keys: &[&[u8]]) -> Result<Set, Error> {
    check_sets(call, keys)?;
    let limits = call.engine.config.hot.limits;
    let sets = view_sets(call.engine, keys);
    let mut result = Set::new();
    let Some((Some(first), others)) = sets.split_first() else {
        return Ok(result);
    };
    let others: Vec<&Set> = others.iter().copied().flatten().collect();
    // Either every member is looked up in every other set, or every other set is gone through. The
    // encoding shows which, so that this is weighed as the references do it.
    let by_lookups = first.len() * (others.len() + 1) / 2;
    let by_removal = first.len() + others.iter().map(|set| set.len()).sum::<usize>();
    if by_lookups <= by_removal {
        for member in first
            .iter()
            .filter(|member| !others.iter().any(|o| o.contains(member)))
        {
            result.insert(&member, limits);
        }
        return Ok(result);
    }
    for member in *first {
        result.insert(&member, limits);
    }
    for member in others.into_iter().flatten() {
        result.remove(&member);
    }
    Ok(result)
}

/// Stores a result at the key of the first argument; an empty one deletes the key.
fn store(call: &mut Call<'_>, result: Set, event: &'static str) -> Result<(), Stop> {
    let (key, len) = (call.arg(1), result.len());
    if len == 0 {
        call.engine.keys.delete(key, Event::generic("del"));
    } else {
        call.engine
            .keys
            .put(key, result.into_value(), Ttl::Clear, Event::set(event));
    }
    call.reply.integer(len as i64);
    Ok(())
}
