//! Sorted sets: scores, ranks, ranges of all kinds, pops that may wait, and their algebra.

mod algebra;
mod pops;
mod ranges;

use self::{algebra::*, pops::*, ranges::*};
use super::{
    draws,
    keys::{ScanOptions, Scanned, scan_cursor},
    scanning, *,
};
use crate::{
    command::spec::{Categories, Flags, KeySpec},
    keyspace::Event,
    reply::Protocol,
    value::{limits::Limits, packed::Item, sorted_set::SortedSet},
};

/// The sorted set commands.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "bzmpop",
        arity: -5,
        flags: Flags::of([Flags::WRITE, Flags::BLOCKING, Flags::MOVABLEKEYS]),
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::counted("RW access delete", 2)],
        group: "sorted-set",
        since: "7.0.0",
        summary: "Pops members from the first sorted set that has any, or waits for one.",
        complexity: "O(K)+O(M*log(N)) for K keys, N members and M popped ones",
        args: "timeout:double numkeys:integer key:key... where<MIN|MAX> [COUNT@count:integer]",
        handler: bzmpop,
        ..Command::BASE
    },
    Command {
        name: "bzpopmax",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::BLOCKING, Flags::FAST]),
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::range("RW access delete", 1, -2, 1)],
        group: "sorted-set",
        since: "5.0.0",
        history: &[("6.0.0", "Takes fractions of a second as `timeout`.")],
        summary: "Pops the highest member of the first sorted set that has any, or waits for one.",
        complexity: "O(log(N)) where N is the number of members",
        args: "key:key... timeout:double",
        handler: bzpopmax,
        ..Command::BASE
    },
    Command {
        name: "bzpopmin",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::BLOCKING, Flags::FAST]),
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::range("RW access delete", 1, -2, 1)],
        group: "sorted-set",
        since: "5.0.0",
        history: &[("6.0.0", "Takes fractions of a second as `timeout`.")],
        summary: "Pops the lowest member of the first sorted set that has any, or waits for one.",
        complexity: "O(log(N)) where N is the number of members",
        args: "key:key... timeout:double",
        handler: bzpopmin,
        ..Command::BASE
    },
    Command {
        name: "zadd",
        arity: -4,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RW update", 1)],
        group: "sorted-set",
        since: "1.2.0",
        history: &[
            ("2.4.0", "Takes several members."),
            ("3.0.2", "Knows `XX`, `NX`, `CH` and `INCR`."),
            ("6.2.0", "Knows `GT` and `LT`."),
        ],
        summary: "Adds members with their scores, or changes scores.",
        complexity: "O(M*log(N)) for M given ones and N members",
        args: "key:key [condition<NX|XX>{3.0.2}] [comparison<GT|LT>{6.2.0}] [change=CH{3.0.2}] \
               [increment=INCR{3.0.2}] data(score:double member:string)...",
        handler: zadd,
        ..Command::BASE
    },
    Command {
        name: "zcard",
        arity: 2,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RO", 1)],
        group: "sorted-set",
        since: "1.2.0",
        summary: "Returns the number of members.",
        args: "key:key",
        handler: zcard,
        ..Command::BASE
    },
    Command {
        name: "zcount",
        arity: 4,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RO access", 1)],
        group: "sorted-set",
        since: "2.0.0",
        summary: "Counts the members whose scores lie in a range.",
        complexity: "O(log(N)) where N is the number of members",
        args: "key:key min:double max:double",
        handler: zcount,
        ..Command::BASE
    },
    Command {
        name: "zdiff",
        arity: -3,
        flags: Flags::of([Flags::READONLY, Flags::MOVABLEKEYS]),
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::counted("RO access", 1)],
        group: "sorted-set",
        since: "6.2.0",
        summary: "Returns the members of the first sorted set that no other has.",
        complexity: "O(L+(N-K)*log(N)) for L members in all, N in the first and K in the result",
        args: "numkeys:integer key:key... [WITHSCORES]",
        handler: zdiff,
        ..Command::BASE
    },
    Command {
        name: "zdiffstore",
        arity: -4,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::MOVABLEKEYS]),
        categories: Categories::SORTED_SET,
        keys: &[
            KeySpec::one("OW update", 1),
            KeySpec::counted("RO access", 2),
        ],
        group: "sorted-set",
        since: "6.2.0",
        summary: "Stores the members of the first sorted set that no other has.",
        complexity: "O(L+(N-K)*log(N)) for L members in all, N in the first and K in the result",
        args: "destination:key numkeys:integer key:key...",
        handler: zdiffstore,
        ..Command::BASE
    },
    Command {
        name: "zincrby",
        arity: 4,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RW access update", 1)],
        group: "sorted-set",
        since: "1.2.0",
        summary: "Raises the score of a member.",
        complexity: "O(log(N)) where N is the number of members",
        args: "key:key increment:integer member:string",
        handler: zincrby,
        ..Command::BASE
    },
    Command {
        name: "zinter",
        arity: -3,
        flags: Flags::of([Flags::READONLY, Flags::MOVABLEKEYS]),
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::counted("RO access", 1)],
        group: "sorted-set",
        since: "6.2.0",
        summary: "Returns the members that all sorted sets share, with combined scores.",
        complexity: "O(N*K)+O(M*log(M)) for K sets, the smallest of N, and M results",
        args: "numkeys:integer key:key... [WEIGHTS@weight:integer...] \
            [AGGREGATE@aggregate<SUM|MIN|MAX>] [WITHSCORES]",
        handler: zinter,
        ..Command::BASE
    },
    Command {
        name: "zintercard",
        arity: -3,
        flags: Flags::of([Flags::READONLY, Flags::MOVABLEKEYS]),
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::counted("RO access", 1)],
        group: "sorted-set",
        since: "7.0.0",
        summary: "Counts the members that all sorted sets share, up to a limit.",
        complexity: "O(N*K) for K sets, the smallest of N members",
        args: "numkeys:integer key:key... [LIMIT@limit:integer]",
        handler: zintercard,
        ..Command::BASE
    },
    Command {
        name: "zinterstore",
        arity: -4,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::MOVABLEKEYS]),
        categories: Categories::SORTED_SET,
        keys: &[
            KeySpec::one("OW update", 1),
            KeySpec::counted("RO access", 2),
        ],
        group: "sorted-set",
        since: "2.0.0",
        summary: "Stores the members that all sorted sets share, with combined scores.",
        complexity: "O(N*K)+O(M*log(M)) for K sets, the smallest of N, and M results",
        args: "destination:key numkeys:integer key:key... [WEIGHTS@weight:integer...] \
            [AGGREGATE@aggregate<SUM|MIN|MAX>]",
        handler: zinterstore,
        ..Command::BASE
    },
    Command {
        name: "zlexcount",
        arity: 4,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RO access", 1)],
        group: "sorted-set",
        since: "2.8.9",
        summary: "Counts the members that lie in a range of names.",
        complexity: "O(log(N)) where N is the number of members",
        args: "key:key min:string max:string",
        handler: zlexcount,
        ..Command::BASE
    },
    Command {
        name: "zmpop",
        arity: -4,
        flags: Flags::of([Flags::WRITE, Flags::MOVABLEKEYS]),
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::counted("RW access delete", 1)],
        group: "sorted-set",
        since: "7.0.0",
        summary: "Pops the lowest or highest members of the first sorted set that has any.",
        complexity: "O(K)+O(M*log(N)) for K keys, N members and M popped ones",
        args: "numkeys:integer key:key... where<MIN|MAX> [COUNT@count:integer]",
        handler: zmpop,
        ..Command::BASE
    },
    Command {
        name: "zmscore",
        arity: -3,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RO access", 1)],
        group: "sorted-set",
        since: "6.2.0",
        summary: "Returns the scores of several members.",
        complexity: "O(N) where N is the number of members given",
        args: "key:key member:string...",
        handler: zmscore,
        ..Command::BASE
    },
    Command {
        name: "zpopmax",
        arity: -2,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RW access delete", 1)],
        group: "sorted-set",
        since: "5.0.0",
        summary: "Removes and returns the highest members.",
        complexity: "O(M*log(N)) for N members and M popped ones",
        args: "key:key [count:integer]",
        handler: zpopmax,
        ..Command::BASE
    },
    Command {
        name: "zpopmin",
        arity: -2,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RW access delete", 1)],
        group: "sorted-set",
        since: "5.0.0",
        summary: "Removes and returns the lowest members.",
        complexity: "O(M*log(N)) for N members and M popped ones",
        args: "key:key [count:integer]",
        handler: zpopmin,
        ..Command::BASE
    },
    Command {
        name: "zrandmember",
        arity: -2,
        flags: Flags::READONLY,
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RO access", 1)],
        tips: &["nondeterministic_output"],
        group: "sorted-set",
        since: "6.2.0",
        summary: "Returns members picked at random.",
        complexity: "O(N) where N is the number of members returned",
        args: "key:key [options(count:integer [WITHSCORES])]",
        handler: zrandmember,
        ..Command::BASE
    },
    Command {
        name: "zrange",
        arity: -4,
        flags: Flags::READONLY,
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RO access", 1)],
        group: "sorted-set",
        since: "1.2.0",
        history: &[("6.2.0", "Knows `REV`, `BYSCORE`, `BYLEX` and `LIMIT`.")],
        summary: "Returns the members in a range of ranks, scores or names.",
        complexity: "O(log(N)+M) for N members and M returned ones",
        args: "key:key start:string stop:string [sortby<BYSCORE|BYLEX>{6.2.0}] [REV{6.2.0}] \
               [LIMIT@limit(offset:integer count:integer){6.2.0}] [WITHSCORES]",
        handler: zrange,
        ..Command::BASE
    },
    Command {
        name: "zrangebylex",
        arity: -4,
        flags: Flags::READONLY,
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RO access", 1)],
        group: "sorted-set",
        since: "2.8.9",
        summary: "Returns the members in a range of names.",
        complexity: "O(log(N)+M) for N members and M returned ones",
        args: "key:key min:string max:string [LIMIT@limit(offset:integer count:integer)]",
        handler: zrangebylex,
        ..Command::BASE
    },
    Command {
        name: "zrangebyscore",
        arity: -4,
        flags: Flags::READONLY,
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RO access", 1)],
        group: "sorted-set",
        since: "1.0.5",
        history: &[("2.0.0", "Knows `WITHSCORES`.")],
        summary: "Returns the members in a range of scores.",
        complexity: "O(log(N)+M) for N members and M returned ones",
        args: "key:key min:double max:double [WITHSCORES{2.0.0}] [LIMIT@limit(offset:integer \
               count:integer)]",
        handler: zrangebyscore,
        ..Command::BASE
    },
    Command {
        name: "zrangestore",
        arity: -5,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("OW update", 1), KeySpec::one("RO access", 2)],
        group: "sorted-set",
        since: "6.2.0",
        summary: "Stores the members in a range of ranks, scores or names.",
        complexity: "O(log(N)+M) for N members and M stored ones",
        args: "dst:key src:key min:string max:string [sortby<BYSCORE|BYLEX>] [REV] \
            [LIMIT@limit(offset:integer count:integer)]",
        handler: zrangestore,
        ..Command::BASE
    },
    Command {
        name: "zrank",
        arity: -3,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RO access", 1)],
        group: "sorted-set",
        since: "2.0.0",
        history: &[("7.2.0", "Knows `WITHSCORE`.")],
        summary: "Returns how many members are lower than the given one.",
        complexity: "O(log(N)) where N is the number of members",
        args: "key:key member:string [WITHSCORE]",
        handler: zrank,
        ..Command::BASE
    },
    Command {
        name: "zrem",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RW delete", 1)],
        group: "sorted-set",
        since: "1.2.0",
        history: &[("2.4.0", "Takes several members.")],
        summary: "Removes members.",
        complexity: "O(M*log(N)) for N members and M removed ones",
        args: "key:key member:string...",
        handler: zrem,
        ..Command::BASE
    },
    Command {
        name: "zremrangebylex",
        arity: 4,
        flags: Flags::WRITE,
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RW delete", 1)],
        group: "sorted-set",
        since: "2.8.9",
        summary: "Removes the members in a range of names.",
        complexity: "O(log(N)+M) for N members and M removed ones",
        args: "key:key min:string max:string",
        handler: zremrangebylex,
        ..Command::BASE
    },
    Command {
        name: "zremrangebyrank",
        arity: 4,
        flags: Flags::WRITE,
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RW delete", 1)],
        group: "sorted-set",
        since: "2.0.0",
        summary: "Removes the members in a range of ranks.",
        complexity: "O(log(N)+M) for N members and M removed ones",
        args: "key:key start:integer stop:integer",
        handler: zremrangebyrank,
        ..Command::BASE
    },
    Command {
        name: "zremrangebyscore",
        arity: 4,
        flags: Flags::WRITE,
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RW delete", 1)],
        group: "sorted-set",
        since: "1.2.0",
        summary: "Removes the members in a range of scores.",
        complexity: "O(log(N)+M) for N members and M removed ones",
        args: "key:key min:double max:double",
        handler: zremrangebyscore,
        ..Command::BASE
    },
    Command {
        name: "zrevrange",
        arity: -4,
        flags: Flags::READONLY,
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RO access", 1)],
        group: "sorted-set",
        since: "1.2.0",
        summary: "Returns the members in a range of ranks, highest first.",
        complexity: "O(log(N)+M) for N members and M returned ones",
        args: "key:key start:integer stop:integer [WITHSCORES]",
        handler: zrevrange,
        ..Command::BASE
    },
    Command {
        name: "zrevrangebylex",
        arity: -4,
        flags: Flags::READONLY,
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RO access", 1)],
        group: "sorted-set",
        since: "2.8.9",
        summary: "Returns the members in a range of names, last name first.",
        complexity: "O(log(N)+M) for N members and M returned ones",
        args: "key:key max:string min:string [LIMIT@limit(offset:integer count:integer)]",
        handler: zrevrangebylex,
        ..Command::BASE
    },
    Command {
        name: "zrevrangebyscore",
        arity: -4,
        flags: Flags::READONLY,
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RO access", 1)],
        group: "sorted-set",
        since: "2.2.0",
        history: &[("2.1.6", "Takes bounds that are left out themselves.")],
        summary: "Returns the members in a range of scores, highest first.",
        complexity: "O(log(N)+M) for N members and M returned ones",
        args: "key:key max:double min:double [WITHSCORES] [LIMIT@limit(offset:integer \
            count:integer)]",
        handler: zrevrangebyscore,
        ..Command::BASE
    },
    Command {
        name: "zrevrank",
        arity: -3,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RO access", 1)],
        group: "sorted-set",
        since: "2.0.0",
        history: &[("7.2.0", "Knows `WITHSCORE`.")],
        summary: "Returns how many members are higher than the given one.",
        complexity: "O(log(N)) where N is the number of members",
        args: "key:key member:string [WITHSCORE]",
        handler: zrevrank,
        ..Command::BASE
    },
    Command {
        name: "zscan",
        arity: -3,
        flags: Flags::READONLY,
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RO access", 1)],
        tips: &["nondeterministic_output"],
        group: "sorted-set",
        since: "2.8.0",
        history: &[("8.0.0", "Knows `NOSCORES`.")],
        summary: "Walks over the members and scores, some with each call.",
        complexity: "O(1) per call, O(N) for a full walk over N members",
        args: "key:key cursor:integer [MATCH@pattern:pattern] [COUNT@count:integer] [NOSCORES]",
        handler: zscan,
        ..Command::BASE
    },
    Command {
        name: "zscore",
        arity: 3,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::one("RO access", 1)],
        group: "sorted-set",
        since: "1.2.0",
        summary: "Returns the score of a member.",
        args: "key:key member:string",
        handler: zscore,
        ..Command::BASE
    },
    Command {
        name: "zunion",
        arity: -3,
        flags: Flags::of([Flags::READONLY, Flags::MOVABLEKEYS]),
        categories: Categories::SORTED_SET,
        keys: &[KeySpec::counted("RO access", 1)],
        group: "sorted-set",
        since: "6.2.0",
        summary: "Returns the members that any sorted set has, with combined scores.",
        complexity: "O(N)+O(M*log(M)) for N members in all and M results",
        args: "numkeys:integer key:key... [WEIGHTS@weight:integer...] \
            [AGGREGATE@aggregate<SUM|MIN|MAX>] [WITHSCORES]",
        handler: zunion,
        ..Command::BASE
    },
    Command {
        name: "zunionstore",
        arity: -4,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::MOVABLEKEYS]),
        categories: Categories::SORTED_SET,
        keys: &[
            KeySpec::one("OW update", 1),
            KeySpec::counted("RO access", 2),
        ],
        group: "sorted-set",
        since: "2.0.0",
        summary: "Stores the members that any sorted set has, with combined scores.",
        complexity: "O(N)+O(M*log(M)) for N members in all and M results",
        args: "destination:key numkeys:integer key:key... [WEIGHTS@weight:integer...] \
            [AGGREGATE@aggregate<SUM|MIN|MAX>]",
        handler: zunionstore,
        ..Command::BASE
    },
];

fn zadd(call: &mut Call<'_>) -> Result<(), Stop> {
    let (rules, pairs) = Rules::parse(call)?;
    let scored = scored_members(pairs)?;
    let limits = call.engine.config.hot.limits;
    let total = call
        .engine
        .keys
        .upsert(call.arg(1), |set: &mut SortedSet| {
            prepare(set, &scored, limits);
            let mut total = Total::default();
            for &(score, member) in &scored {
                total.count(rules.apply(set, member, score, limits));
            }
            let event = Event::sorted_set(if rules.increment { "zincr" } else { "zadd" });
            (total, (total.added + total.updated > 0).then_some(event))
        })?;
    if total.not_a_number {
        return Err(NOT_A_NUMBER.into());
    }
    match total.last {
        Some(score) if rules.increment => call.reply.double(score),
        None if rules.increment => call.reply.null(),
        _ if rules.count_changes => call.reply.integer(total.added + total.updated),
        _ => call.reply.integer(total.added),
    }
    Ok(())
}

const NOT_A_NUMBER: Error = Error::text("ERR resulting score is not a number (NaN)");

/// The encoding is chosen by how much the command brings.
fn prepare(set: &mut SortedSet, scored: &[(f64, &[u8])], limits: Limits) {
    let longest = scored
        .iter()
        .map(|(_, member)| member.len())
        .max()
        .unwrap_or(0);
    if set.is_empty() {
        *set = SortedSet::sized_for(scored.len(), longest, limits);
    } else {
        set.expect(scored.len(), longest, limits);
    }
}

fn scored_members<'a>(pairs: &'a [&'a [u8]]) -> Result<Vec<(f64, &'a [u8])>, Error> {
    let pairs = pairs.chunks_exact(2);
    let score = |text| number::parse_decimal(text).ok_or(Error::NOT_A_FLOAT);
    pairs.map(|pair| Ok((score(pair[0])?, pair[1]))).collect()
}

/// What a score is given for, and what ZADD answers with.
#[derive(Clone, Copy, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each stands for a word of the request"
)]
struct Rules {
    absent: bool,
    present: bool,
    greater: bool,
    less: bool,
    count_changes: bool,
    increment: bool,
}

impl Rules {
    /// Reads the options of ZADD, and the pairs that follow them.
    fn parse<'a>(call: &Call<'a>) -> Result<(Rules, &'a [&'a [u8]]), Error> {
        let (mut rules, mut options) = (Rules::default(), call.options(2));
        loop {
            match () {
                () if options.take("NX") => rules.absent = true,
                () if options.take("XX") => rules.present = true,
                () if options.take("GT") => rules.greater = true,
                () if options.take("LT") => rules.less = true,
                () if options.take("CH") => rules.count_changes = true,
                () if options.take("INCR") => rules.increment = true,
                () => break,
            }
        }
        let pairs = options.rest();
        rules.check(pairs.len())?;
        Ok((rules, pairs))
    }

    fn check(self, rest: usize) -> Result<(), Error> {
        const NX_OR_XX: Error =
            Error::text("ERR XX and NX options at the same time are not compatible");
        const ONE_OF: Error =
            Error::text("ERR GT, LT, and/or NX options at the same time are not compatible");
        const ONE_PAIR: Error =
            Error::text("ERR INCR option supports a single increment-element pair");
        if rest == 0 || !rest.is_multiple_of(2) {
            return Err(Error::SYNTAX);
        }
        if self.absent && self.present {
            return Err(NX_OR_XX);
        }
        if [self.absent, self.greater, self.less]
            .into_iter()
            .filter(|&given| given)
            .count()
            > 1
        {
            return Err(ONE_OF);
        }
        if self.increment && rest > 2 {
            Err(ONE_PAIR)
        } else {
            Ok(())
        }
    }

    fn apply(self, set: &mut SortedSet, member: &[u8], given: f64, limits: Limits) -> Outcome {
        let Some(old) = set.score(member) else {
            if self.present {
                return Outcome::Refused;
            }
            set.insert_new(member, given, limits);
            return Outcome::Added(given);
        };
        if self.absent {
            return Outcome::Refused;
        }
        let score = if self.increment { old + given } else { given };
        if score.is_nan() {
            return Outcome::NotANumber;
        }
        if self.greater && score <= old || self.less && score >= old {
            return Outcome::Refused;
        }
        if score == old {
            return Outcome::Same(score);
        }
        set.change(member, score);
        Outcome::Updated(score)
    }
}

/// What came of giving one member a score.
enum Outcome {
    Added(f64),
    Updated(f64),
    Same(f64),
    Refused,
    NotANumber,
}

/// What came of a whole ZADD.
#[derive(Clone, Copy, Default)]
struct Total {
    added: i64,
    updated: i64,
    not_a_number: bool,
    /// The score that the last member has now, unless that was refused.
    last: Option<f64>,
}

impl Total {
    fn count(&mut self, outcome: Outcome) {
        self.last = None;
        match outcome {
            Outcome::Added(score) => {
                self.added += 1;
                self.last = Some(score);
            }
            Outcome::Updated(score) => {
                self.updated += 1;
                self.last = Some(score);
            }
            Outcome::Same(score) => self.last = Some(score),
            Outcome::Refused => {}
            Outcome::NotANumber => self.not_a_number = true,
        }
    }
}

fn zcard(call: &mut Call<'_>) -> Result<(), Stop> {
    let len = call
        .engine
        .keys
        .read_as::<SortedSet>(call.arg(1))?
        .map_or(0, SortedSet::len);
    call.reply.integer(len as i64);
    Ok(())
}

fn zincrby(call: &mut Call<'_>) -> Result<(), Stop> {
    let by = number::parse_decimal(call.arg(2)).ok_or(Error::NOT_A_FLOAT)?;
    let (member, limits) = (call.arg(3), call.engine.config.hot.limits);
    let rules = Rules {
        increment: true,
        ..Rules::default()
    };
    let outcome = call
        .engine
        .keys
        .upsert(call.arg(1), |set: &mut SortedSet| {
            prepare(set, &[(by, member)], limits);
            let outcome = rules.apply(set, member, by, limits);
            let changed = matches!(outcome, Outcome::Added(_) | Outcome::Updated(_));
            (outcome, changed.then_some(Event::sorted_set("zincr")))
        })?;
    match outcome {
        Outcome::Added(score) | Outcome::Updated(score) | Outcome::Same(score) => {
            call.reply.double(score);
            Ok(())
        }
        Outcome::Refused | Outcome::NotANumber => Err(NOT_A_NUMBER.into()),
    }
}

fn zmscore(call: &mut Call<'_>) -> Result<(), Stop> {
    let members = &call.args[2..];
    let set = call.engine.keys.read_as::<SortedSet>(call.arg(1))?;
    call.reply.array(members.len());
    for member in members {
        double_or_null(call.reply, set.and_then(|set| set.score(member)));
    }
    Ok(())
}

fn zrandmember(call: &mut Call<'_>) -> Result<(), Stop> {
    if call.args.len() == 2 {
        return one_random_member(call);
    }
    let count = draws::count(call.arg(2))?;
    let mut options = call.options(3);
    let scores = options.take("WITHSCORES");
    if !options.is_empty() {
        return Err(Error::SYNTAX.into());
    }
    if scores {
        draws::check_pairs(count)?;
    }
    let Engine { keys, random, .. } = &mut *call.engine;
    let Some(set) = keys.read_as::<SortedSet>(call.args[1])? else {
        call.reply.array(0);
        return Ok(());
    };
    let places = draws::places(random, count, set.len())?;
    let drawn = places.iter().filter_map(|&place| set.pick(place));
    answer_members(call.reply, places.len(), drawn, scores);
    Ok(())
}

fn one_random_member(call: &mut Call<'_>) -> Result<(), Stop> {
    let Engine { keys, random, .. } = &mut *call.engine;
    let set = keys.read_as::<SortedSet>(call.args[1])?;
    match set.and_then(|set| set.pick(random.below(set.len()))) {
        Some((member, _)) => call.reply.bulk(&member),
        None => call.reply.null(),
    }
    Ok(())
}

fn zrank(call: &mut Call<'_>) -> Result<(), Stop> {
    answer_rank(call, |rank, _| rank)
}

fn zrem(call: &mut Call<'_>) -> Result<(), Stop> {
    let members = &call.args[2..];
    let removed = call
        .engine
        .keys
        .update(call.arg(1), |set: &mut SortedSet| {
            let removed = members
                .iter()
                .filter(|member| set.remove(member).is_some())
                .count();
            (removed, (removed > 0).then_some(Event::sorted_set("zrem")))
        })?;
    call.reply.integer(removed.unwrap_or(0) as i64);
    Ok(())
}

fn zrevrank(call: &mut Call<'_>) -> Result<(), Stop> {
    answer_rank(call, |rank, len| len - 1 - rank)
}

fn answer_rank(call: &mut Call<'_>, count: impl Fn(usize, usize) -> usize) -> Result<(), Stop> {
    if call.args.len() > 4 {
        return Err(call.wrong_arity().into());
    }
    let mut options = call.options(3);
    let with_score = options.take("WITHSCORE");
    if !options.is_empty() {
        return Err(Error::SYNTAX.into());
    }
    let set = call.engine.keys.read_as::<SortedSet>(call.arg(1))?;
    let found = set.and_then(|set| Some((set.rank(call.args[2])?, set.len())));
    match found {
        None if with_score => call.reply.null_array(),
        None => call.reply.null(),
        Some(((rank, score), len)) => {
            if with_score {
                call.reply.array(2);
            }
            call.reply.integer(count(rank, len) as i64);
            if with_score {
                call.reply.double(score);
            }
        }
    }
    Ok(())
}

fn zscan(call: &mut Call<'_>) -> Result<(), Stop> {
    let cursor = scan_cursor(call.arg(2))?;
    let options = ScanOptions::parse(call.options(3), Scanned::SortedSet);
    let mut found = Vec::new();
    let Some(set) = call.engine.keys.read_as::<SortedSet>(call.args[1])? else {
        return scanning::answer(call.reply, 0, &[]);
    };
    let options = options?;
    let packed = set.encoding() == "listpack";
    let next = set.scan(cursor, options.count, |member, score| {
        if options.wants(&member) {
            found.push((member, score));
        }
    });
    call.reply.array(2);
    call.reply.bulk(itoa::Buffer::new().format(next).as_bytes());
    let pairs = if options.no_values { 1 } else { 2 };
    call.reply.array(found.len() * pairs);
    let mut text = number::DoubleBuffer::new();
    for (member, score) in found {
        call.reply.bulk(&member);
        if !options.no_values {
            // The references print the scores of a skiplist in full.
            let score = if packed {
                text.format(score)
            } else {
                text.format_precise(score)
            };
            call.reply.bulk(score.as_bytes());
        }
    }
    Ok(())
}

fn zscore(call: &mut Call<'_>) -> Result<(), Stop> {
    let set = call.engine.keys.read_as::<SortedSet>(call.arg(1))?;
    double_or_null(call.reply, set.and_then(|set| set.score(call.args[2])));
    Ok(())
}

fn double_or_null(reply: &mut dyn Reply, score: Option<f64>) {
    match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
}

/// Answers with so many members; their scores follow each of them, nested in RESP3.
fn answer_members<'a>(
    reply: &mut dyn Reply,
    count: usize,
    members: impl Iterator<Item = (Item<'a>, f64)>,
    scores: bool,
) {
    let nested = scores && reply.protocol() == Protocol::Resp3;
    reply.array(if scores && !nested { count * 2 } else { count });
    for (member, score) in members {
        if nested {
            reply.array(2);
        }
        reply.bulk(&member);
        if scores {
            reply.double(score);
        }
    }
}
