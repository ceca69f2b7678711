//! The algebra of sorted sets: union, intersection and difference, stored or told.
//!
//! A plain set may take part; each of its members then has the score 1.

use std::collections::HashMap;

use super::{super::*, answer_members, ranges::store};
use crate::{
    bytestr::ByteStr,
    keyspace::Keyspace,
    value::{Value, limits::Limits, packed::Item, set::Set, sorted_set::SortedSet},
};

/// A set of either type that takes part.
#[derive(Clone, Copy)]
enum Source<'a> {
    Sorted(&'a SortedSet),
    Plain(&'a Set),
    Missing,
}

impl<'a> Source<'a> {
    fn of(keys: &'a Keyspace, key: &[u8]) -> Source<'a> {
        if let Some(set) = keys.view::<SortedSet>(key) {
            return Source::Sorted(set);
        }
        keys.view::<Set>(key).map_or(Source::Missing, Source::Plain)
    }

    fn len(self) -> usize {
        match self {
            Source::Sorted(set) => set.len(),
            Source::Plain(set) => set.len(),
            Source::Missing => 0,
        }
    }

    fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Source::Sorted(set) => set.score(member),
            Source::Plain(set) => set.contains(member).then_some(1.0),
            Source::Missing => None,
        }
    }

    /// Is it the very same set?
    fn is(self, other: Source<'_>) -> bool {
        match (self, other) {
            (Source::Sorted(one), Source::Sorted(other)) => std::ptr::eq(one, other),
            (Source::Plain(one), Source::Plain(other)) => std::ptr::eq(one, other),
            _ => false,
        }
    }

    fn iter(self) -> impl Iterator<Item = (Item<'a>, f64)> {
        let (sorted, plain) = match self {
            Source::Sorted(set) => (Some(set), None),
            Source::Plain(set) => (None, Some(set)),
            Source::Missing => (None, None),
        };
        let plain = plain.into_iter().flatten().map(|member| (member, 1.0));
        sorted.into_iter().flatten().chain(plain)
    }
}

/// How scores of one member become one.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn combine(self, one: f64, other: f64) -> f64 {
        match self {
            // Opposite infinities make zero.
            Aggregate::Sum => number_or_zero(one + other),
            // What is no number is passed over.
            Aggregate::Min => one.min(other),
            Aggregate::Max => one.max(other),
        }
    }
}

fn number_or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// What is to be done with which keys.
struct Plan<'a> {
    keys: &'a [&'a [u8]],
    weights: Vec<f64>,
    aggregate: Aggregate,
    scores: bool,
}

/// Which options a command takes.
#[derive(Clone, Copy)]
struct Allowed {
    weights: bool,
    scores: bool,
}

impl<'a> Plan<'a> {
    /// Reads `numkeys key …` at an index and the options. Keys of other types are refused before
    /// the options are looked at, as the references do.
    fn parse(call: &mut Call<'a>, index: usize, allowed: Allowed) -> Result<Plan<'a>, Error> {
        const NOT_A_WEIGHT: Error = Error::text("ERR weight value is not a float");
        let keys = counted_keys(call, index)?;
        check_types(call, keys)?;
        let mut plan = Plan {
            keys,
            weights: vec![1.0; keys.len()],
            aggregate: Aggregate::Sum,
            scores: false,
        };
        let mut options = call.options(index + 1 + keys.len());
        while !options.is_empty() {
            if allowed.weights && options.len() > keys.len() && options.take("WEIGHTS") {
                for weight in &mut plan.weights {
                    *weight = number::parse_decimal(options.value()?).ok_or(NOT_A_WEIGHT)?;
                }
            } else if allowed.weights && options.len() > 1 && options.take("AGGREGATE") {
                plan.aggregate = aggregate(&mut options)?;
            } else if allowed.scores && options.take("WITHSCORES") {
                plan.scores = true;
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok(plan)
    }

    /// The sets with their weights, in the order of the keys.
    fn sources<'k>(&self, keys: &'k Keyspace) -> Vec<(Source<'k>, f64)> {
        let sources = self.keys.iter().map(|key| Source::of(keys, key));
        sources.zip(self.weights.iter().copied()).collect()
    }
}

fn aggregate(options: &mut Options<'_>) -> Result<Aggregate, Error> {
    if options.take("SUM") {
        Ok(Aggregate::Sum)
    } else if options.take("MIN") {
        Ok(Aggregate::Min)
    } else if options.take("MAX") {
        Ok(Aggregate::Max)
    } else {
        Err(Error::SYNTAX)
    }
}

fn counted_keys<'a>(call: &Call<'a>, index: usize) -> Result<&'a [&'a [u8]], Error> {
    let count = call.int(index)?;
    if count < 1 {
        return Err(Error::owned(format!(
            "ERR at least 1 input key is needed for '{}' command",
            call.command.name
        )));
    }
    let rest = &call.args[index + 1..];
    rest.get(..usize::try_from(count).unwrap_or(usize::MAX))
        .ok_or(Error::SYNTAX)
}

fn check_types(call: &mut Call<'_>, keys: &[&[u8]]) -> Result<(), Error> {
    for key in keys {
        match call.engine.keys.read(key) {
            None | Some(Value::SortedSet(_) | Value::Set(_)) => {}
            Some(_) => return Err(Error::WRONG_TYPE),
        }
    }
    Ok(())
}

const TOLD: Allowed = Allowed {
    weights: true,
    scores: true,
};
const STORED: Allowed = Allowed {
    weights: true,
    scores: false,
};

pub(super) fn zdiff(call: &mut Call<'_>) -> Result<(), Stop> {
    let plan = Plan::parse(
        call,
        1,
        Allowed {
            weights: false,
            ..TOLD
        },
    )?;
    answer(call, &plan, difference)
}

pub(super) fn zdiffstore(call: &mut Call<'_>) -> Result<(), Stop> {
    let plan = Plan::parse(
        call,
        2,
        Allowed {
            weights: false,
            ..STORED
        },
    )?;
    compute_and_store(call, &plan, difference, "zdiffstore")
}

pub(super) fn zinter(call: &mut Call<'_>) -> Result<(), Stop> {
    let plan = Plan::parse(call, 1, TOLD)?;
    answer(call, &plan, intersection)
}

pub(super) fn zinterstore(call: &mut Call<'_>) -> Result<(), Stop> {
    let plan = Plan::parse(call, 2, STORED)?;
    compute_and_store(call, &plan, intersection, "zinterstore")
}

pub(super) fn zunion(call: &mut Call<'_>) -> Result<(), Stop> {
    let plan = Plan::parse(call, 1, TOLD)?;
    answer(call, &plan, union)
}

pub(super) fn zunionstore(call: &mut Call<'_>) -> Result<(), Stop> {
    let plan = Plan::parse(call, 2, STORED)?;
    compute_and_store(call, &plan, union, "zunionstore")
}

pub(super) fn zintercard(call: &mut Call<'_>) -> Result<(), Stop> {
    const NEGATIVE: Error = Error::text("ERR LIMIT can't be negative");
    let keys = counted_keys(call, 1)?;
    check_types(call, keys)?;
    let (mut limit, mut options) = (0, call.options(2 + keys.len()));
    while !options.is_empty() {
        if options.len() < 2 || !options.take("LIMIT") {
            return Err(Error::SYNTAX.into());
        }
        limit = number::parse_i64(options.value()?)
            .filter(|l| *l >= 0)
            .ok_or(NEGATIVE)?;
    }
    let mut sources: Vec<Source<'_>> = keys
        .iter()
        .map(|key| Source::of(&call.engine.keys, key))
        .collect();
    sources.sort_by_key(|source| source.len());
    sources.dedup_by(|one, other| one.is(*other));
    let (smallest, others) = (sources[0], &sources[1..]);
    let shared = smallest
        .iter()
        .filter(|(member, _)| others.iter().all(|other| other.score(member).is_some()));
    let bound = if limit == 0 {
        usize::MAX
    } else {
        limit as usize
    };
    call.reply.integer(shared.take(bound).count() as i64);
    Ok(())
}

/// Members with the scores that came out, in no particular order.
type Scored = Vec<(ByteStr, f64)>;

type Operation = fn(&[(Source<'_>, f64)], Aggregate) -> Scored;

fn answer(call: &mut Call<'_>, plan: &Plan<'_>, operate: Operation) -> Result<(), Stop> {
    let limits = call.engine.config.hot.limits;
    let scored = operate(&plan.sources(&call.engine.keys), plan.aggregate);
    // Packed scores would lose the sign of zero, which the references tell here.
    let result = fill(SortedSet::sized_for(usize::MAX, 0, limits), &scored, limits);
    answer_members(call.reply, result.len(), result.iter(), plan.scores);
    Ok(())
}

fn compute_and_store(
    call: &mut Call<'_>,
    plan: &Plan<'_>,
    operate: Operation,
    event: &'static str,
) -> Result<(), Stop> {
    let limits = call.engine.config.hot.limits;
    let scored = operate(&plan.sources(&call.engine.keys), plan.aggregate);
    let longest = scored
        .iter()
        .map(|(member, _)| member.len())
        .max()
        .unwrap_or(0);
    let result = fill(
        SortedSet::sized_for(scored.len(), longest, limits),
        &scored,
        limits,
    );
    store(call, result, event)
}

fn fill(mut set: SortedSet, scored: &[(ByteStr, f64)], limits: Limits) -> SortedSet {
    for (member, score) in scored {
        set.insert(member, *score, limits);
    }
    set
}

/// The smallest first: that decides how sums round, and how much work an intersection is.
fn by_size<'a>(sources: &[(Source<'a>, f64)]) -> Vec<(Source<'a>, f64)> {
    let mut sorted = sources.to_vec();
    sorted.sort_by_key(|(source, _)| source.len());
    sorted
}

/// Sources one after another that are the same set, which is then gone through only once.
type Run<'r, 'a> = &'r [(Source<'a>, f64)];

fn runs<'r, 'a>(sorted: &'r [(Source<'a>, f64)]) -> impl Iterator<Item = Run<'r, 'a>> {
    sorted.chunk_by(|(one, _), (other, _)| one.is(*other))
}

fn union(sources: &[(Source<'_>, f64)], aggregate: Aggregate) -> Scored {
    let mut scores: HashMap<ByteStr, f64> = HashMap::new();
    for run in runs(&by_size(sources)) {
        for (member, score) in run[0].0.iter() {
            let weighted = |(_, weight): &(Source<'_>, f64)| number_or_zero(score * weight);
            let add = |total, other| aggregate.combine(total, other);
            scores
                .entry(member.to_byte_str())
                .and_modify(|total| *total = run.iter().map(weighted).fold(*total, add))
                .or_insert_with(|| run[1..].iter().map(weighted).fold(weighted(&run[0]), add));
        }
    }
    scores.into_iter().collect()
}

fn intersection(sources: &[(Source<'_>, f64)], aggregate: Aggregate) -> Scored {
    let sorted = by_size(sources);
    let mut runs = runs(&sorted);
    let Some((&(smallest, weight), again)) = runs.next().and_then(|run| run.split_first()) else {
        return Scored::new();
    };
    let others: Vec<Run<'_, '_>> = runs.collect();
    let combined = |(member, score): (Item<'_>, f64)| {
        let add = |total: f64, run: Run<'_, '_>, score: f64| {
            run.iter().fold(total, |total, (_, weight)| {
                aggregate.combine(total, score * weight)
            })
        };
        let mut total = add(number_or_zero(score * weight), again, score);
        for run in &others {
            total = add(total, run, run[0].0.score(&member)?);
        }
        Some((member.to_byte_str(), total))
    };
    smallest.iter().filter_map(combined).collect()
}

fn difference(sources: &[(Source<'_>, f64)], _: Aggregate) -> Scored {
    let Some(((first, _), others)) = sources.split_first() else {
        return Scored::new();
    };
    // Either every member is looked up in every other set, or every other set is gone through.
    let by_lookups = first.len() * others.len();
    let by_removal = first.len() + others.iter().map(|(other, _)| other.len()).sum::<usize>();
    if by_lookups > by_removal {
        let mut left: HashMap<ByteStr, f64> = first
            .iter()
            .map(|(member, score)| (member.to_byte_str(), score))
            .collect();
        for (member, _) in others.iter().flat_map(|(other, _)| other.iter()) {
            left.remove(&*member);
        }
        return left.into_iter().collect();
    }
    first
        .iter()
        .filter(|(member, _)| {
            others
                .iter()
                .all(|(other, _)| other.score(member).is_none())
        })
        .map(|(member, score)| (member.to_byte_str(), score))
        .collect()
}
