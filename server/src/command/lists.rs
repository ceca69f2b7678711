//! Lists: both ends, positions, and the commands that wait for an element.

use super::*;
use crate::{
    blocking::{OnTimeout, parse_timeout},
    bytestr::ByteStr,
    clock::Time,
    command::spec::{Categories, Flags, KeySpec},
    keyspace::Event,
    value::list::{End, List, Search},
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "blmove",
        arity: 6,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::BLOCKING]),
        categories: Categories::LIST,
        keys: &[
            KeySpec::one("RW access delete", 1),
            KeySpec::one("RW insert", 2),
        ],
        group: "list",
        since: "6.2.0",
        summary: "Moves an element from one list to another, and waits for one if need be.",
        args: "source:key destination:key wherefrom<LEFT|RIGHT> whereto<LEFT|RIGHT> timeout:double",
        handler: blmove,
        ..Command::BASE
    },
    Command {
        name: "blmpop",
        arity: -5,
        flags: Flags::of([Flags::WRITE, Flags::BLOCKING, Flags::MOVABLEKEYS]),
        categories: Categories::LIST,
        keys: &[KeySpec::counted("RW access delete", 2)],
        group: "list",
        since: "7.0.0",
        summary: "Pops elements from the first list that has any, and waits for one if need be.",
        complexity: "O(N+M) where N is the number of keys and M that of elements",
        args: "timeout:double numkeys:integer key:key... where<LEFT|RIGHT> [COUNT@count:integer]",
        handler: blmpop,
        ..Command::BASE
    },
    Command {
        name: "blpop",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::BLOCKING]),
        categories: Categories::LIST,
        keys: &[KeySpec::range("RW access delete", 1, -2, 1)],
        group: "list",
        since: "2.0.0",
        history: &[("6.0.0", "Takes fractions of a second as `timeout`.")],
        summary: "Pops the first element of the first list that has any, or waits for one.",
        complexity: "O(N) where N is the number of keys",
        args: "key:key... timeout:double",
        handler: blpop,
        ..Command::BASE
    },
    Command {
        name: "brpop",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::BLOCKING]),
        categories: Categories::LIST,
        keys: &[KeySpec::range("RW access delete", 1, -2, 1)],
        group: "list",
        since: "2.0.0",
        history: &[("6.0.0", "Takes fractions of a second as `timeout`.")],
        summary: "Pops the last element of the first list that has any, or waits for one.",
        complexity: "O(N) where N is the number of keys",
        args: "key:key... timeout:double",
        handler: brpop,
        ..Command::BASE
    },
    Command {
        name: "brpoplpush",
        arity: 4,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::BLOCKING]),
        categories: Categories::LIST,
        keys: &[
            KeySpec::one("RW access delete", 1),
            KeySpec::one("RW insert", 2),
        ],
        group: "list",
        since: "2.2.0",
        history: &[("6.0.0", "Takes fractions of a second as `timeout`.")],
        summary: "Moves a list's last element to another's head, and waits for one if need be.",
        args: "source:key destination:key timeout:double",
        handler: brpoplpush,
        ..Command::BASE
    },
    Command {
        name: "lindex",
        arity: 3,
        flags: Flags::READONLY,
        categories: Categories::LIST,
        keys: &[KeySpec::one("RO access", 1)],
        group: "list",
        summary: "Returns the element at an index.",
        complexity: "O(N) where N is the distance from the nearer end",
        args: "key:key index:integer",
        handler: lindex,
        ..Command::BASE
    },
    Command {
        name: "linsert",
        arity: 5,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::LIST,
        keys: &[KeySpec::one("RW insert", 1)],
        group: "list",
        since: "2.2.0",
        summary: "Inserts an element before or after another.",
        complexity: "O(N) where N is the distance of that other from the head",
        args: "key:key where<BEFORE|AFTER> pivot:string element:string",
        handler: linsert,
        ..Command::BASE
    },
    Command {
        name: "llen",
        arity: 2,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::LIST,
        keys: &[KeySpec::one("RO", 1)],
        group: "list",
        summary: "Returns the length of a list.",
        args: "key:key",
        handler: llen,
        ..Command::BASE
    },
    Command {
        name: "lmove",
        arity: 5,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::LIST,
        keys: &[
            KeySpec::one("RW access delete", 1),
            KeySpec::one("RW insert", 2),
        ],
        group: "list",
        since: "6.2.0",
        summary: "Moves an element from an end of one list to an end of another.",
        args: "source:key destination:key wherefrom<LEFT|RIGHT> whereto<LEFT|RIGHT>",
        handler: lmove,
        ..Command::BASE
    },
    Command {
        name: "lmpop",
        arity: -4,
        flags: Flags::of([Flags::WRITE, Flags::MOVABLEKEYS]),
        categories: Categories::LIST,
        keys: &[KeySpec::counted("RW access delete", 1)],
        group: "list",
        since: "7.0.0",
        summary: "Pops elements from the first list that has any.",
        complexity: "O(N+M) where N is the number of keys and M that of elements",
        args: "numkeys:integer key:key... where<LEFT|RIGHT> [COUNT@count:integer]",
        handler: lmpop,
        ..Command::BASE
    },
    Command {
        name: "lpop",
        arity: -2,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::LIST,
        keys: &[KeySpec::one("RW access delete", 1)],
        group: "list",
        history: &[("6.2.0", "Takes a count.")],
        summary: "Pops elements from the head of a list.",
        complexity: "O(N) where N is the number of elements returned",
        args: "key:key [count:integer{6.2.0}]",
        handler: lpop,
        ..Command::BASE
    },
    Command {
        name: "lpos",
        arity: -3,
        flags: Flags::READONLY,
        categories: Categories::LIST,
        keys: &[KeySpec::one("RO access", 1)],
        group: "list",
        since: "6.0.6",
        summary: "Finds the positions of an element.",
        complexity: "O(N) where N is the number of elements looked at",
        args: "key:key element:string [RANK@rank:integer] [COUNT@num-matches:integer] \
            [MAXLEN@len:integer]",
        handler: lpos,
        ..Command::BASE
    },
    Command {
        name: "lpush",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::LIST,
        keys: &[KeySpec::one("RW insert", 1)],
        group: "list",
        history: &[("2.4.0", "Takes several elements.")],
        summary: "Puts elements before the head of a list, created if missing.",
        complexity: "O(N) where N is the number of new elements",
        args: "key:key element:string...",
        handler: lpush,
        ..Command::BASE
    },
    Command {
        name: "lpushx",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::LIST,
        keys: &[KeySpec::one("RW insert", 1)],
        group: "list",
        since: "2.2.0",
        history: &[("4.0.0", "Takes several elements.")],
        summary: "Puts elements before the head of a list that exists.",
        complexity: "O(N) where N is the number of new elements",
        args: "key:key element:string...",
        handler: lpushx,
        ..Command::BASE
    },
    Command {
        name: "lrange",
        arity: 4,
        flags: Flags::READONLY,
        categories: Categories::LIST,
        keys: &[KeySpec::one("RO access", 1)],
        group: "list",
        summary: "Returns the elements between two indices.",
        complexity: "O(S+N) where S is the distance from the nearer end and N the number returned",
        args: "key:key start:integer stop:integer",
        handler: lrange,
        ..Command::BASE
    },
    Command {
        name: "lrem",
        arity: 4,
        flags: Flags::WRITE,
        categories: Categories::LIST,
        keys: &[KeySpec::one("RW delete", 1)],
        group: "list",
        summary: "Removes elements equal to a value.",
        complexity: "O(N+M) where N is the length and M the number removed",
        args: "key:key count:integer element:string",
        handler: lrem,
        ..Command::BASE
    },
    Command {
        name: "lset",
        arity: 4,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::LIST,
        keys: &[KeySpec::one("RW update", 1)],
        group: "list",
        summary: "Replaces the element at an index.",
        complexity: "O(N) where N is the distance from the nearer end",
        args: "key:key index:integer element:string",
        handler: lset,
        ..Command::BASE
    },
    Command {
        name: "ltrim",
        arity: 4,
        flags: Flags::WRITE,
        categories: Categories::LIST,
        keys: &[KeySpec::one("RW delete", 1)],
        group: "list",
        summary: "Keeps only the elements between two indices.",
        complexity: "O(N) where N is the number of elements removed",
        args: "key:key start:integer stop:integer",
        handler: ltrim,
        ..Command::BASE
    },
    Command {
        name: "rpop",
        arity: -2,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::LIST,
        keys: &[KeySpec::one("RW access delete", 1)],
        group: "list",
        history: &[("6.2.0", "Takes a count.")],
        summary: "Pops elements from the tail of a list.",
        complexity: "O(N) where N is the number of elements returned",
        args: "key:key [count:integer{6.2.0}]",
        handler: rpop,
        ..Command::BASE
    },
    Command {
        name: "rpoplpush",
        arity: 3,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::LIST,
        keys: &[
            KeySpec::one("RW access delete", 1),
            KeySpec::one("RW insert", 2),
        ],
        group: "list",
        since: "1.2.0",
        summary: "Moves a list's last element to another's head.",
        args: "source:key destination:key",
        handler: rpoplpush,
        ..Command::BASE
    },
    Command {
        name: "rpush",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::LIST,
        keys: &[KeySpec::one("RW insert", 1)],
        group: "list",
        history: &[("2.4.0", "Takes several elements.")],
        summary: "Puts elements behind the tail of a list, created if missing.",
        complexity: "O(N) where N is the number of new elements",
        args: "key:key element:string...",
        handler: rpush,
        ..Command::BASE
    },
    Command {
        name: "rpushx",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::LIST,
        keys: &[KeySpec::one("RW insert", 1)],
        group: "list",
        since: "2.2.0",
        history: &[("4.0.0", "Takes several elements.")],
        summary: "Puts elements behind the tail of a list that exists.",
        complexity: "O(N) where N is the number of new elements",
        args: "key:key element:string...",
        handler: rpushx,
        ..Command::BASE
    },
];

const MUST_BE_POSITIVE: Error = Error::text("ERR value is out of range, must be positive");

fn pushed(end: End) -> Event {
    Event::list(if end == End::Front { "lpush" } else { "rpush" })
}

fn popped(end: End) -> Event {
    Event::list(if end == End::Front { "lpop" } else { "rpop" })
}

// ---- Pushing and popping ----

fn lpop(call: &mut Call<'_>) -> Result<(), Stop> {
    pop(call, End::Front)
}

fn lpush(call: &mut Call<'_>) -> Result<(), Stop> {
    push(call, End::Front)
}

fn lpushx(call: &mut Call<'_>) -> Result<(), Stop> {
    push_existing(call, End::Front)
}

fn rpop(call: &mut Call<'_>) -> Result<(), Stop> {
    pop(call, End::Back)
}

fn rpush(call: &mut Call<'_>) -> Result<(), Stop> {
    push(call, End::Back)
}

fn rpushx(call: &mut Call<'_>) -> Result<(), Stop> {
    push_existing(call, End::Back)
}

fn push(call: &mut Call<'_>, end: End) -> Result<(), Stop> {
    let (elements, limits) = (&call.args[2..], call.engine.config.hot.limits);
    let len = call.engine.keys.upsert(call.arg(1), |list: &mut List| {
        (push_all(list, end, elements, limits), Some(pushed(end)))
    })?;
    call.reply.integer(len as i64);
    Ok(())
}

fn push_existing(call: &mut Call<'_>, end: End) -> Result<(), Stop> {
    let (elements, limits) = (&call.args[2..], call.engine.config.hot.limits);
    let len = call.engine.keys.update(call.arg(1), |list: &mut List| {
        (push_all(list, end, elements, limits), Some(pushed(end)))
    })?;
    call.reply.integer(len.unwrap_or(0) as i64);
    Ok(())
}

fn push_all(
    list: &mut List,
    end: End,
    elements: &[&[u8]],
    limits: crate::value::limits::Limits,
) -> usize {
    let bytes = elements.iter().map(|element| element.len()).sum();
    list.make_room(bytes, elements.len(), limits);
    for element in elements {
        list.push(end, element, limits);
    }
    list.len()
}

fn pop(call: &mut Call<'_>, end: End) -> Result<(), Stop> {
    let count = match call.args.get(2) {
        None => None,
        Some(_) if call.args.len() > 3 => return Err(call.wrong_arity().into()),
        Some(arg) => Some(
            number::parse_i64(arg)
                .and_then(|count| usize::try_from(count).ok())
                .ok_or(MUST_BE_POSITIVE)?,
        ),
    };
    let elements = pop_up_to(call, call.arg(1), end, count.unwrap_or(1))?;
    match (elements, count) {
        (None, None) => call.reply.null(),
        (None, Some(_)) => call.reply.null_array(),
        (Some(elements), None) => match elements.first() {
            Some(element) => call.reply.bulk(element),
            None => call.reply.null(),
        },
        (Some(elements), Some(_)) => reply_all(call.reply, &elements),
    }
    Ok(())
}

/// Pops up to `count` elements; `None` for a missing list.
fn pop_up_to(
    call: &mut Call<'_>,
    key: &[u8],
    end: End,
    count: usize,
) -> Result<Option<Vec<ByteStr>>, Error> {
    let limits = call.engine.config.hot.limits;
    call.engine.keys.update(key, |list: &mut List| {
        let elements: Vec<ByteStr> = (0..count.min(list.len()))
            .filter_map(|_| list.pop(end, limits))
            .collect();
        let event = (!elements.is_empty()).then(|| popped(end));
        (elements, event)
    })
}

fn reply_all(reply: &mut dyn Reply, elements: &[ByteStr]) {
    reply.array(elements.len());
    for element in elements {
        reply.bulk(element);
    }
}

// ---- Waiting for an element ----

fn blmove(call: &mut Call<'_>) -> Result<(), Stop> {
    let (from, to) = (end_arg(call.arg(3))?, end_arg(call.arg(4))?);
    let until = parse_timeout(call.arg(5), call.engine.keys.now())?;
    move_or_wait(call, from, to, until)
}

fn blmpop(call: &mut Call<'_>) -> Result<(), Stop> {
    let (keys, end, count) = parse_mpop(call, 2)?;
    let until = parse_timeout(call.arg(1), call.engine.keys.now())?;
    if pop_first(call, keys, end, count)? {
        return Ok(());
    }
    Err(wait(keys, until, OnTimeout::NullArray))
}

fn blpop(call: &mut Call<'_>) -> Result<(), Stop> {
    pop_or_wait(call, End::Front)
}

fn brpop(call: &mut Call<'_>) -> Result<(), Stop> {
    pop_or_wait(call, End::Back)
}

fn brpoplpush(call: &mut Call<'_>) -> Result<(), Stop> {
    let until = parse_timeout(call.arg(3), call.engine.keys.now())?;
    move_or_wait(call, End::Back, End::Front, until)
}

fn pop_or_wait(call: &mut Call<'_>, end: End) -> Result<(), Stop> {
    let last = call.args.len() - 1;
    let keys = &call.args[1..last];
    let until = parse_timeout(call.arg(last), call.engine.keys.now())?;
    for key in keys {
        let element = pop_up_to(call, key, end, 1)?.and_then(|mut elements| elements.pop());
        if let Some(element) = element {
            call.reply.array(2);
            call.reply.bulk(key);
            call.reply.bulk(&element);
            return Ok(());
        }
    }
    Err(wait(keys, until, OnTimeout::NullArray))
}

fn move_or_wait(call: &mut Call<'_>, from: End, to: End, until: Option<Time>) -> Result<(), Stop> {
    if move_element(call, from, to)? {
        return Ok(());
    }
    // Time that runs out ends it with the nil of an array; where it may not wait at all, the
    // reply is the nil of an element.
    let on_timeout = if call.session.may_block() {
        OnTimeout::NullArray
    } else {
        OnTimeout::Null
    };
    Err(wait(&call.args[1..2], until, on_timeout))
}

/// Ends a request without a reply: it is run again when one of the keys changes.
pub fn wait(keys: &[&[u8]], until: Option<Time>, on_timeout: OnTimeout) -> Stop {
    let keys = keys.iter().map(|key| ByteStr::new(key)).collect();
    Stop::Wait(Wait {
        keys,
        until,
        on_timeout,
        on_loss: false,
        args: None,
    })
}

// ---- Moving between lists ----

fn lmove(call: &mut Call<'_>) -> Result<(), Stop> {
    let (from, to) = (end_arg(call.arg(3))?, end_arg(call.arg(4))?);
    if !move_element(call, from, to)? {
        call.reply.null();
    }
    Ok(())
}

fn rpoplpush(call: &mut Call<'_>) -> Result<(), Stop> {
    if !move_element(call, End::Back, End::Front)? {
        call.reply.null();
    }
    Ok(())
}

fn end_arg(arg: &[u8]) -> Result<End, Error> {
    if is_word(arg, "LEFT") {
        Ok(End::Front)
    } else if is_word(arg, "RIGHT") {
        Ok(End::Back)
    } else {
        Err(Error::SYNTAX)
    }
}

/// Moves an element between the lists named by the first two arguments and replies with it;
/// false when there is none. It is pushed before it is popped, in which order the events come
/// too. One and the same list counts as changed even where it stays as it was.
fn move_element(call: &mut Call<'_>, from: End, to: End) -> Result<bool, Error> {
    let (source, target) = (call.arg(1), call.arg(2));
    let limits = call.engine.config.hot.limits;
    let element = match call.engine.keys.read_as::<List>(source)? {
        None => return Ok(false),
        Some(list) => {
            let at = if from == End::Front {
                0
            } else {
                list.len() - 1
            };
            list.get(at)
                .map(super::super::value::packed::Item::to_byte_str)
        }
    };
    let Some(element) = element else {
        return Ok(false);
    };
    if source == target {
        call.engine.keys.update(source, |list: &mut List| {
            list.rotate(from, to, limits);
            ((), Some(pushed(to)))
        })?;
        call.engine.keys.announce(source, popped(from));
    } else {
        call.engine.keys.upsert(target, |list: &mut List| {
            list.push(to, &element, limits);
            ((), Some(pushed(to)))
        })?;
        call.engine.keys.update(source, |list: &mut List| {
            list.pop(from, limits);
            ((), Some(popped(from)))
        })?;
    }
    call.reply.bulk(&element);
    Ok(true)
}

// ---- The first of several lists ----

fn lmpop(call: &mut Call<'_>) -> Result<(), Stop> {
    let (keys, end, count) = parse_mpop(call, 1)?;
    if !pop_first(call, keys, end, count)? {
        call.reply.null_array();
    }
    Ok(())
}

fn parse_mpop<'a>(call: &Call<'a>, at: usize) -> Result<(&'a [&'a [u8]], End, usize), Error> {
    const NO_KEYS: Error = Error::text("ERR numkeys should be greater than 0");
    const NO_COUNT: Error = Error::text("ERR count should be greater than 0");
    let positive = |arg: &[u8]| number::parse_i64(arg).filter(|&value| value > 0);
    let keys = positive(call.arg(at)).ok_or(NO_KEYS)? as usize;
    let from = at + 1;
    let named = from
        .checked_add(keys)
        .and_then(|to| call.args.get(from..to))
        .ok_or(Error::SYNTAX)?;
    let mut options = call.options(from + keys);
    let end = end_arg(options.value()?)?;
    let mut count = None;
    while !options.is_empty() {
        if count.is_some() || !options.take("COUNT") {
            return Err(Error::SYNTAX);
        }
        count = Some(positive(options.value()?).ok_or(NO_COUNT)? as usize);
    }
    Ok((named, end, count.unwrap_or(1)))
}

/// Pops from the first list that is there and replies; false when none is.
fn pop_first(call: &mut Call<'_>, keys: &[&[u8]], end: End, count: usize) -> Result<bool, Error> {
    for key in keys {
        if let Some(elements) = pop_up_to(call, key, end, count)? {
            call.reply.array(2);
            call.reply.bulk(key);
            reply_all(call.reply, &elements);
            return Ok(true);
        }
    }
    Ok(false)
}

// ---- Positions ----

fn lindex(call: &mut Call<'_>) -> Result<(), Stop> {
    let index = call.arg(2);
    let Some(list) = call.engine.keys.read_as::<List>(call.arg(1))? else {
        call.reply.null();
        return Ok(());
    };
    let index = number::parse_i64(index).ok_or(Error::NOT_AN_INTEGER)?;
    match position(index, list.len()).and_then(|at| list.get(at)) {
        Some(element) => call.reply.bulk(&element),
        None => call.reply.null(),
    }
    Ok(())
}

/// The place of an index that counts from the end when it is negative.
fn position(index: i64, len: usize) -> Option<usize> {
    let at = if index < 0 {
        index.checked_add(len as i64)?
    } else {
        index
    };
    usize::try_from(at).ok().filter(|&at| at < len)
}

/// The places from `start` to `end`, both included, as a start and a length.
fn span(start: i64, end: i64, len: usize) -> (usize, usize) {
    let len = len as i64;
    let from_end = |at: i64| if at < 0 { at.saturating_add(len) } else { at };
    let start = from_end(start).max(0);
    let end = from_end(end).min(len - 1);
    if start > end {
        (0, 0)
    } else {
        (start as usize, (end - start + 1) as usize)
    }
}

fn linsert(call: &mut Call<'_>) -> Result<(), Stop> {
    let side = if is_word(call.arg(2), "BEFORE") {
        End::Front
    } else if is_word(call.arg(2), "AFTER") {
        End::Back
    } else {
        return Err(Error::SYNTAX.into());
    };
    let (pivot, element, limits) = (call.arg(3), call.arg(4), call.engine.config.hot.limits);
    let len = call.engine.keys.update(call.arg(1), |list: &mut List| {
        if list.insert(side, pivot, element, limits) {
            (list.len() as i64, Some(Event::list("linsert")))
        } else {
            (-1, None)
        }
    })?;
    call.reply.integer(len.unwrap_or(0));
    Ok(())
}

fn llen(call: &mut Call<'_>) -> Result<(), Stop> {
    let len = call
        .engine
        .keys
        .read_as::<List>(call.arg(1))?
        .map_or(0, List::len);
    call.reply.integer(len as i64);
    Ok(())
}

fn lpos(call: &mut Call<'_>) -> Result<(), Stop> {
    let (element, (search, many)) = (call.arg(2), parse_search(call.options(3))?);
    let Some(list) = call.engine.keys.read_as::<List>(call.arg(1))? else {
        if many {
            call.reply.array(0);
        } else {
            call.reply.null();
        }
        return Ok(());
    };
    let found = list.positions(element, search);
    if many {
        call.reply.array(found.len());
    } else if found.is_empty() {
        call.reply.null();
    }
    for at in found {
        call.reply.integer(at as i64);
    }
    Ok(())
}

/// The options of LPOS, and whether an array is asked for.
fn parse_search(mut options: Options<'_>) -> Result<(Search, bool), Error> {
    const ZERO_RANK: Error = Error::text(
        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list",
    );
    const LEAST_RANK: Error = Error::text(
        "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
    );
    let mut search = Search {
        from: End::Front,
        skip: 0,
        matches: 1,
        comparisons: usize::MAX,
    };
    let mut many = false;
    while !options.is_empty() {
        if options.len() > 1 && options.take("RANK") {
            let rank = options.int()?;
            if rank == i64::MIN {
                return Err(LEAST_RANK);
            }
            search.from = if rank < 0 { End::Back } else { End::Front };
            search.skip = (rank.unsigned_abs() as usize)
                .checked_sub(1)
                .ok_or(ZERO_RANK)?;
        } else if options.len() > 1 && options.take("COUNT") {
            search.matches = at_least_zero(&mut options, "ERR COUNT can't be negative")?;
            many = true;
        } else if options.len() > 1 && options.take("MAXLEN") {
            search.comparisons = at_least_zero(&mut options, "ERR MAXLEN can't be negative")?;
        } else {
            return Err(Error::SYNTAX);
        }
    }
    Ok((search, many))
}

/// A number of which 0 means no limit; what is none gets the same error as a negative one.
fn at_least_zero(options: &mut Options<'_>, error: &'static str) -> Result<usize, Error> {
    let value = options
        .int()
        .ok()
        .and_then(|value| usize::try_from(value).ok());
    let value = value.ok_or(Error::text(error))?;
    Ok(if value == 0 { usize::MAX } else { value })
}

fn lrange(call: &mut Call<'_>) -> Result<(), Stop> {
    let (start, end) = (call.int(2)?, call.int(3)?);
    let Some(list) = call.engine.keys.read_as::<List>(call.arg(1))? else {
        call.reply.array(0);
        return Ok(());
    };
    let (start, len) = span(start, end, list.len());
    call.reply.array(len);
    for element in list.range(start, len) {
        call.reply.bulk(&element);
    }
    Ok(())
}

fn lrem(call: &mut Call<'_>) -> Result<(), Stop> {
    const LEAST_COUNT: Error = Error::text(
        "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
    );
    let (count, element, limits) = (call.int(2)?, call.arg(3), call.engine.config.hot.limits);
    if count == i64::MIN {
        return Err(LEAST_COUNT.into());
    }
    let from = if count < 0 { End::Back } else { End::Front };
    let limit = if count == 0 {
        usize::MAX
    } else {
        count.unsigned_abs() as usize
    };
    let removed = call.engine.keys.update(call.arg(1), |list: &mut List| {
        let removed = list.remove(element, limit, from, limits);
        (removed, (removed > 0).then_some(Event::list("lrem")))
    })?;
    call.reply.integer(removed.unwrap_or(0) as i64);
    Ok(())
}

fn lset(call: &mut Call<'_>) -> Result<(), Stop> {
    let limits = call.engine.config.hot.limits;
    if call.engine.keys.read_as::<List>(call.arg(1))?.is_none() {
        return Err(Error::NO_SUCH_KEY.into());
    }
    // The references keep but the lower half of the index.
    let (index, element) = (i64::from(call.int(2)? as i32), call.arg(3));
    let set = call.engine.keys.update(call.arg(1), |list: &mut List| {
        let at = position(index, list.len()).unwrap_or(usize::MAX);
        let set = list.set(at, element, limits);
        (set, set.then_some(Event::list("lset")))
    })?;
    if set != Some(true) {
        return Err(Error::OUT_OF_RANGE.into());
    }
    call.reply.ok();
    Ok(())
}

fn ltrim(call: &mut Call<'_>) -> Result<(), Stop> {
    const TRIM: Event = Event::list("ltrim");
    let (start, end) = (call.int(2)?, call.int(3)?);
    let limits = call.engine.config.hot.limits;
    let trimmed = call.engine.keys.update(call.arg(1), |list: &mut List| {
        let (start, len) = span(start, end, list.len());
        let trimmed = len < list.len();
        list.trim(start, len, limits);
        (trimmed, trimmed.then_some(TRIM))
    })?;
    // Told even when nothing was left to cut, but then no watch is tripped.
    if trimmed == Some(false) {
        call.engine.keys.announce(call.arg(1), TRIM);
    }
    call.reply.ok();
    Ok(())
}
