//! SORT: elements by number or alphabet, by what other keys hold, with what others hold.

use std::cmp::Ordering;

use super::*;
use crate::{
    bytestr::ByteStr,
    cluster::{slot_of, slot_of_pattern},
    command::spec::{Begin, Categories, Find, Flags, KeySpec},
    keyspace::{Event, Keyspace, Ttl},
    value::{
        Kind, StringValue, Value,
        hash::Hash,
        list::{End, List},
        sorted_set::SortedSet,
    },
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "sort",
        arity: -2,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::MOVABLEKEYS]),
        categories: Categories::of([
            Categories::SET,
            Categories::SORTED_SET,
            Categories::LIST,
            Categories::DANGEROUS,
        ]),
        keys: &[
            KeySpec::one("RO access", 1),
            KeySpec {
                flags: "RO access",
                notes: "keys of BY and GET, which depend on what is sorted",
                begin: Begin::Unknown,
                find: Find::Unknown,
            },
            KeySpec {
                flags: "OW update",
                notes: "the key of STORE, which may stand anywhere",
                begin: Begin::Unknown,
                find: Find::Unknown,
            },
        ],
        summary: "Sorts a list, set or sorted set, and returns or stores the result.",
        complexity: "O(N+M*log(M)) for N elements of which M are returned",
        args: "key:key [BY@by-pattern:pattern{=pattern}] [LIMIT@limit(offset:integer \
               count:integer)] [GET@get-pattern:pattern{=pattern}.!.] [order<ASC|DESC>] \
               [sorting=ALPHA] [STORE@destination:key]",
        handler: sort,
        ..Command::BASE
    },
    Command {
        name: "sort_ro",
        arity: -2,
        flags: Flags::of([Flags::READONLY, Flags::MOVABLEKEYS]),
        categories: Categories::of([
            Categories::SET,
            Categories::SORTED_SET,
            Categories::LIST,
            Categories::DANGEROUS,
        ]),
        keys: &[
            KeySpec::one("RO access", 1),
            KeySpec {
                flags: "RO access",
                notes: "keys of BY and GET, which depend on what is sorted",
                begin: Begin::Unknown,
                find: Find::Unknown,
            },
        ],
        since: "7.0.0",
        summary: "Returns a list, set or sorted set in sorted order.",
        complexity: "O(N+M*log(M)) for N elements of which M are returned",
        args: "key:key [BY@by-pattern:pattern{=pattern}] [LIMIT@limit(offset:integer \
               count:integer)] [GET@get-pattern:pattern{=pattern}.!.] [order<ASC|DESC>] \
               [sorting=ALPHA]",
        handler: sort_ro,
        ..Command::BASE
    },
];

fn sort(call: &mut Call<'_>) -> Result<(), Stop> {
    run(call, true)
}

fn sort_ro(call: &mut Call<'_>) -> Result<(), Stop> {
    run(call, false)
}

/// The options of SORT.
#[derive(Default)]
struct Plan<'a> {
    by: Option<&'a [u8]>,
    get: Vec<&'a [u8]>,
    limit: Option<(i64, i64)>,
    descending: bool,
    alpha: bool,
    store: Option<&'a [u8]>,
}

impl<'a> Plan<'a> {
    fn parse(call: &Call<'a>, may_store: bool) -> Result<Plan<'a>, Error> {
        let mut options = call.options(2);
        let mut plan = Plan::default();
        while !options.is_empty() {
            if options.take("ASC") {
                plan.descending = false;
            } else if options.take("DESC") {
                plan.descending = true;
            } else if options.take("ALPHA") {
                plan.alpha = true;
            } else if options.len() > 2 && options.take("LIMIT") {
                plan.limit = Some((options.int()?, options.int()?));
            } else if may_store && options.len() > 1 && options.take("STORE") {
                plan.store = options.next();
            } else if options.len() > 1 && options.take("BY") {
                plan.by = options.next();
                if !plan.keeps_order() {
                    check_pattern(call, "BY", plan.by.unwrap_or_default())?;
                }
            } else if options.len() > 1 && options.take("GET") {
                let pattern = options.value()?;
                check_pattern(call, "GET", pattern)?;
                plan.get.push(pattern);
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok(plan)
    }

    /// A pattern without a star names the same key for all elements, so there is no order in it.
    fn keeps_order(&self) -> bool {
        self.by.is_some_and(|by| !by.contains(&b'*'))
    }

    /// The part of so many elements that LIMIT asks for.
    fn window(&self, len: usize) -> std::ops::Range<usize> {
        let Some((start, count)) = self.limit else {
            return 0..len;
        };
        let start = usize::try_from(start).unwrap_or(0).min(len);
        let end = usize::try_from(count).map_or(len, |count| start.saturating_add(count).min(len));
        start..end
    }
}

/// Refuses a pattern whose keys may lie in other slots than the key that is sorted, or which the
/// user may perhaps not read.
fn check_pattern(call: &Call<'_>, option: &str, pattern: &[u8]) -> Result<(), Error> {
    let names_keys = call.engine.config.hot.cluster && pattern != b"#";
    if names_keys && slot_of_pattern(pattern) != Some(slot_of(call.arg(1))) {
        return Err(Error::owned(format!(
            "ERR {option} option of SORT denied in Cluster mode when keys formed by the pattern \
            may be in different slots."
        )));
    }
    let request = call.engine.request(call.session, call.command, call.args);
    if !call
        .engine
        .users
        .reads_all_keys(&call.session.user, request)
    {
        return Err(Error::owned(format!(
            "ERR {option} option of SORT denied due to insufficient ACL permissions."
        )));
    }
    Ok(())
}

fn run(call: &mut Call<'_>, may_store: bool) -> Result<(), Stop> {
    let plan = Plan::parse(call, may_store)?;
    let found = call.engine.keys.read(call.arg(1));
    let is_set = matches!(found, Some(Value::Set(_)));
    let is_sorted_set = matches!(found, Some(Value::SortedSet(_)));
    let mut elements = found.map(elements).transpose()?.unwrap_or_default();
    if is_sorted_set {
        // As in the references, one that was sorted is packed no longer.
        call.engine
            .keys
            .update(call.arg(1), |set: &mut SortedSet| {
                set.make_table();
                ((), None)
            })?;
    }
    // A set has no order of its own: what is stored, or decides in a script, must not differ
    // from run to run.
    let settle = is_set && (plan.store.is_some() || call.session.deny_blocking);
    if !plan.keeps_order() {
        order(&mut call.engine.keys, &plan, &mut elements)?;
    } else if settle {
        elements.sort();
    }
    if plan.keeps_order() && plan.descending {
        elements.reverse();
    }
    let window = plan.window(elements.len());
    let chosen = &elements[window];
    let found: Vec<Option<Vec<u8>>> = if plan.get.is_empty() {
        chosen
            .iter()
            .map(|element| Some(element.to_vec()))
            .collect()
    } else {
        let keys = &mut call.engine.keys;
        let each = chosen
            .iter()
            .flat_map(|element| plan.get.iter().map(move |get| (element, get)));
        each.map(|(element, get)| look_up(keys, get, element))
            .collect()
    };
    match plan.store {
        Some(target) => store(call, target, &found),
        None => reply(call.reply, &found),
    }
    Ok(())
}

/// The elements of a list, a set or a sorted set.
fn elements(value: &Value) -> Result<Vec<ByteStr>, Error> {
    match value {
        Value::List(list) => Ok(list
            .iter()
            .map(super::super::value::packed::Item::to_byte_str)
            .collect()),
        Value::Set(set) => Ok(set
            .iter()
            .map(super::super::value::packed::Item::to_byte_str)
            .collect()),
        Value::SortedSet(set) => Ok(set.iter().map(|(member, _)| member.to_byte_str()).collect()),
        _ => Err(Error::WRONG_TYPE),
    }
}

/// Sorts by weight: the element itself, or what the key of its pattern holds.
fn order(keys: &mut Keyspace, plan: &Plan<'_>, elements: &mut Vec<ByteStr>) -> Result<(), Error> {
    const NOT_A_NUMBER: Error =
        Error::text("ERR One or more scores can't be converted into double");
    let weight = |keys: &mut Keyspace, element: &ByteStr| match plan.by {
        Some(by) => look_up(keys, by, element),
        None => Some(element.to_vec()),
    };
    if plan.alpha {
        // What is not stored is compared as C compares texts, up to a zero byte.
        let text = |mut text: Vec<u8>| {
            if plan.store.is_none() {
                text.truncate(number::before_zero(&text).len());
            }
            text
        };
        let mut weighed: Vec<(Option<Vec<u8>>, ByteStr)> = elements
            .drain(..)
            .map(|element| (weight(keys, &element).map(text), element))
            .collect();
        weighed.sort_by(|one, other| directed(plan, one.0.cmp(&other.0)));
        elements.extend(weighed.into_iter().map(|(_, element)| element));
        return Ok(());
    }
    let mut weighed = Vec::with_capacity(elements.len());
    for element in elements.drain(..) {
        let number = match weight(keys, &element) {
            Some(text) => number::parse_decimal(number::before_zero(&text)).ok_or(NOT_A_NUMBER)?,
            None => 0.0,
        };
        // Zeros of both signs are equal.
        weighed.push((number + 0.0, element));
    }
    weighed.sort_by(|one, other| {
        directed(
            plan,
            one.0.total_cmp(&other.0).then_with(|| one.1.cmp(&other.1)),
        )
    });
    elements.extend(weighed.into_iter().map(|(_, element)| element));
    Ok(())
}

fn directed(plan: &Plan<'_>, ordering: Ordering) -> Ordering {
    if plan.descending {
        ordering.reverse()
    } else {
        ordering
    }
}

/// What a pattern gives for an element: `#` the element itself; otherwise the first `*` is
/// replaced by it, and a field may follow behind `->`.
fn look_up(keys: &mut Keyspace, pattern: &[u8], element: &[u8]) -> Option<Vec<u8>> {
    if pattern == b"#" {
        return Some(element.to_vec());
    }
    let star = pattern.iter().position(|&byte| byte == b'*')?;
    let (before, after) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = after.windows(2).position(|pair| pair == b"->");
    // An arrow with nothing behind it is part of the name.
    if let Some(at) = arrow.filter(|at| at + 2 < after.len()) {
        let name = [before, element, &after[..at]].concat();
        let hash = Hash::of(keys.read(&name)?)?;
        hash.get(&after[at + 2..]).map(|value| value.to_vec())
    } else {
        let name = [before, element, after].concat();
        StringValue::of(keys.read(&name)?).map(|value| value.bytes().into_owned())
    }
}

fn reply(reply: &mut dyn Reply, found: &[Option<Vec<u8>>]) {
    reply.array(found.len());
    for element in found {
        match element {
            Some(element) => reply.bulk(element),
            None => reply.null(),
        }
    }
}

/// Stores what was found as a list, in place of whatever was there.
fn store(call: &mut Call<'_>, target: &[u8], found: &[Option<Vec<u8>>]) {
    if found.is_empty() {
        call.engine.keys.delete(target, Event::generic("del"));
    } else {
        let limits = call.engine.config.hot.limits;
        let mut list = List::new();
        for element in found {
            list.push(End::Back, element.as_deref().unwrap_or_default(), limits);
        }
        call.engine.keys.put(
            target,
            list.into_value(),
            Ttl::Clear,
            Event::list("sortstore"),
        );
    }
    call.reply.integer(found.len() as i64);
}
