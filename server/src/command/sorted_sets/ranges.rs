//! Ranges of a sorted set: by rank, by score, by member; either way, paged, stored, removed.
//!
//! Every kind of range becomes a range of ranks, and from there on they are all alike.

use std::ops::Range;

use super::{super::*, answer_members};
use crate::{
    keyspace::{Event, Ttl},
    value::{
        Kind,
        sorted_set::{LexBound, ScoreBound, SortedSet},
    },
};

/// A range as it was asked for.
#[derive(Clone, Copy)]
enum Bounds<'a> {
    /// From one rank to another, both included; negative ones count from the end.
    Rank(i64, i64),
    Score(ScoreBound, ScoreBound),
    Lex(LexBound<'a>, LexBound<'a>),
}

#[derive(Clone, Copy, PartialEq)]
enum By {
    Rank,
    Score,
    Lex,
}

/// Which elements are asked for, in which order, and whether with their scores.
struct Selection<'a> {
    bounds: Bounds<'a>,
    descending: bool,
    /// How many to pass over first, and how many to tell.
    page: Option<(i64, i64)>,
    scores: bool,
}

/// What the name of a command has decided already.
#[derive(Clone, Copy)]
struct Fixed {
    by: Option<By>,
    descending: Option<bool>,
    scores: bool,
}

impl Bounds<'_> {
    fn parse<'a>(by: By, min: &'a [u8], max: &'a [u8]) -> Result<Bounds<'a>, Error> {
        const NOT_A_FLOAT: Error = Error::text("ERR min or max is not a float");
        const NOT_AN_ITEM: Error = Error::text("ERR min or max not valid string range item");
        let rank = |text| number::parse_i64(text).ok_or(Error::NOT_AN_INTEGER);
        let score = |text| score_bound(text).ok_or(NOT_A_FLOAT);
        let item = |text| lex_bound(text).ok_or(NOT_AN_ITEM);
        Ok(match by {
            By::Rank => Bounds::Rank(rank(min)?, rank(max)?),
            By::Score => Bounds::Score(score(min)?, score(max)?),
            By::Lex => Bounds::Lex(item(min)?, item(max)?),
        })
    }

    /// The ranks meant, counted from the lowest score.
    fn ranks(self, set: &SortedSet, descending: bool) -> Range<usize> {
        match self {
            Bounds::Score(min, max) => set.ranks_by_score(min, max),
            Bounds::Lex(min, max) => set.ranks_by_lex(min, max),
            Bounds::Rank(start, end) => {
                let len = set.len();
                let ranks = span(start, end, len);
                if descending {
                    len - ranks.end..len - ranks.start
                } else {
                    ranks
                }
            }
        }
    }
}

fn score_bound(text: &[u8]) -> Option<ScoreBound> {
    let (exclusive, text) = match text {
        [b'(', rest @ ..] => (true, rest),
        text => (false, text),
    };
    Some(ScoreBound {
        score: parse_bound(text)?,
        exclusive,
    })
}

/// Reads the score of a bound: nothing is zero, and what is too large is infinite.
fn parse_bound(text: &[u8]) -> Option<f64> {
    let text = number::before_zero(text);
    if text.is_empty() {
        return Some(0.0);
    }
    let score: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!score.is_nan()).then_some(score)
}

fn lex_bound(text: &[u8]) -> Option<LexBound<'_>> {
    match text {
        b"-" => Some(LexBound::Lowest),
        b"+" => Some(LexBound::Highest),
        [b'[', member @ ..] => Some(LexBound::Inclusive(member)),
        [b'(', member @ ..] => Some(LexBound::Exclusive(member)),
        _ => None,
    }
}

/// The places from `start` to `end`, both included, of which negative ones count from the end.
fn span(start: i64, end: i64, len: usize) -> Range<usize> {
    let signed = len as i64;
    let from_end = |at: i64| {
        if at < 0 {
            at.saturating_add(signed)
        } else {
            at
        }
    };
    let start = from_end(start).max(0);
    let end = from_end(end).saturating_add(1).clamp(0, signed);
    if start < end {
        start as usize..end as usize
    } else {
        0..0
    }
}

impl<'a> Selection<'a> {
    /// Reads two bounds at an index and the options behind them.
    fn parse(call: &Call<'a>, index: usize, fixed: Fixed) -> Result<Selection<'a>, Error> {
        const NO_LIMIT: Error = Error::text(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        );
        const NO_SCORES: Error =
            Error::text("ERR syntax error, WITHSCORES not supported in combination with BYLEX");
        let (mut by, mut descending) = (fixed.by, fixed.descending);
        let (mut page, mut scores) = (None, false);
        let mut options = call.options(index + 2);
        while !options.is_empty() {
            if fixed.scores && options.take("WITHSCORES") {
                scores = true;
            } else if options.len() > 2 && options.take("LIMIT") {
                page = Some((options.int()?, options.int()?));
            } else if descending.is_none() && options.take("REV") {
                descending = Some(true);
            } else if by.is_none() && options.take("BYLEX") {
                by = Some(By::Lex);
            } else if by.is_none() && options.take("BYSCORE") {
                by = Some(By::Score);
            } else {
                return Err(Error::SYNTAX);
            }
        }
        let (by, descending) = (by.unwrap_or(By::Rank), descending.unwrap_or(false));
        if by == By::Rank && page.is_some_and(|(_, count)| count != -1) {
            return Err(NO_LIMIT);
        }
        if by == By::Lex && scores {
            return Err(NO_SCORES);
        }
        let (first, second) = (call.arg(index), call.arg(index + 1));
        // Downward, the higher bound is given first.
        let swapped = descending && by != By::Rank;
        let (min, max) = if swapped {
            (second, first)
        } else {
            (first, second)
        };
        Ok(Selection {
            bounds: Bounds::parse(by, min, max)?,
            descending,
            page,
            scores,
        })
    }

    /// The ranks meant, the page taken into account.
    fn ranks(&self, set: &SortedSet) -> Range<usize> {
        let Range { start, end } = self.bounds.ranks(set, self.descending);
        let page = self
            .page
            .filter(|_| !matches!(self.bounds, Bounds::Rank(..)));
        let Some((offset, count)) = page else {
            return start..end;
        };
        let offset = first(offset, end - start, set);
        // A negative count tells everything.
        let count = usize::try_from(count)
            .unwrap_or(usize::MAX)
            .min(end - start - offset);
        if self.descending {
            end - offset - count..end - offset
        } else {
            start + offset..start + offset + count
        }
    }
}

/// How many of `len` places a page passes over. A negative offset passes over all of them, but
/// counts from the end where the members are in a table.
fn first(offset: i64, len: usize, set: &SortedSet) -> usize {
    let from_end = || usize::try_from(offset.unsigned_abs()).ok();
    match usize::try_from(offset) {
        Ok(offset) => offset.min(len),
        Err(_) if set.is_table() => from_end()
            .and_then(|back| len.checked_sub(back))
            .unwrap_or(len),
        Err(_) => len,
    }
}

/// What ZRANGE leaves open.
const OPEN: Fixed = Fixed {
    by: None,
    descending: None,
    scores: true,
};

pub(super) fn zrange(call: &mut Call<'_>) -> Result<(), Stop> {
    answer_range(call, OPEN)
}

pub(super) fn zrangebylex(call: &mut Call<'_>) -> Result<(), Stop> {
    answer_range(call, fixed(By::Lex, false))
}

pub(super) fn zrangebyscore(call: &mut Call<'_>) -> Result<(), Stop> {
    answer_range(call, fixed(By::Score, false))
}

pub(super) fn zrevrange(call: &mut Call<'_>) -> Result<(), Stop> {
    answer_range(call, fixed(By::Rank, true))
}

pub(super) fn zrevrangebylex(call: &mut Call<'_>) -> Result<(), Stop> {
    answer_range(call, fixed(By::Lex, true))
}

pub(super) fn zrevrangebyscore(call: &mut Call<'_>) -> Result<(), Stop> {
    answer_range(call, fixed(By::Score, true))
}

fn fixed(by: By, descending: bool) -> Fixed {
    Fixed {
        by: Some(by),
        descending: Some(descending),
        scores: true,
    }
}

fn answer_range(call: &mut Call<'_>, fixed: Fixed) -> Result<(), Stop> {
    let selection = Selection::parse(call, 2, fixed)?;
    let Some(set) = call.engine.keys.read_as::<SortedSet>(call.arg(1))? else {
        call.reply.array(0);
        return Ok(());
    };
    let Range { start, end } = selection.ranks(set);
    let members = if selection.descending {
        set.range_down(end.wrapping_sub(1), end - start)
    } else {
        set.range(start, end - start)
    };
    answer_members(call.reply, end - start, members, selection.scores);
    Ok(())
}

pub(super) fn zrangestore(call: &mut Call<'_>) -> Result<(), Stop> {
    let selection = Selection::parse(
        call,
        3,
        Fixed {
            scores: false,
            ..OPEN
        },
    )?;
    let limits = call.engine.config.hot.limits;
    let mut result = SortedSet::new();
    if let Some(set) = call.engine.keys.read_as::<SortedSet>(call.arg(2))? {
        let ranks = selection.ranks(set);
        // Only of ranks the references know before how many they come to.
        if matches!(selection.bounds, Bounds::Rank(..)) {
            result.expect(ranks.len(), 0, limits);
        }
        let mut members: Vec<_> = set.range(ranks.start, ranks.len()).collect();
        // Packed scores lose the sign of zero, so that it counts what comes first.
        if selection.descending {
            members.reverse();
        }
        for (member, score) in members {
            result.insert(&member, score, limits);
        }
    }
    store(call, result, "zrangestore")
}

/// Stores a result at the key of the first argument; an empty one deletes the key.
pub(super) fn store(
    call: &mut Call<'_>,
    result: SortedSet,
    event: &'static str,
) -> Result<(), Stop> {
    let (key, len) = (call.arg(1), result.len());
    if len == 0 {
        call.engine.keys.delete(key, Event::generic("del"));
    } else {
        let event = Event::sorted_set(event);
        call.engine
            .keys
            .put(key, result.into_value(), Ttl::Clear, event);
    }
    call.reply.integer(len as i64);
    Ok(())
}

pub(super) fn zcount(call: &mut Call<'_>) -> Result<(), Stop> {
    count(call, By::Score)
}

pub(super) fn zlexcount(call: &mut Call<'_>) -> Result<(), Stop> {
    count(call, By::Lex)
}

fn count(call: &mut Call<'_>, by: By) -> Result<(), Stop> {
    let bounds = Bounds::parse(by, call.arg(2), call.arg(3))?;
    let set = call.engine.keys.read_as::<SortedSet>(call.arg(1))?;
    let count = set.map_or(0, |set| bounds.ranks(set, false).len());
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn zremrangebylex(call: &mut Call<'_>) -> Result<(), Stop> {
    remove_range(call, By::Lex, "zremrangebylex")
}

pub(super) fn zremrangebyrank(call: &mut Call<'_>) -> Result<(), Stop> {
    remove_range(call, By::Rank, "zremrangebyrank")
}

pub(super) fn zremrangebyscore(call: &mut Call<'_>) -> Result<(), Stop> {
    remove_range(call, By::Score, "zremrangebyscore")
}

fn remove_range(call: &mut Call<'_>, by: By, event: &'static str) -> Result<(), Stop> {
    let bounds = Bounds::parse(by, call.arg(2), call.arg(3))?;
    let removed = call
        .engine
        .keys
        .update(call.arg(1), |set: &mut SortedSet| {
            let ranks = bounds.ranks(set, false);
            let removed = set.remove_ranks(ranks);
            (removed, (removed > 0).then_some(Event::sorted_set(event)))
        })?;
    call.reply.integer(removed.unwrap_or(0) as i64);
    Ok(())
}
