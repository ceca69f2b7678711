//! What a request is, for the rows that leave some out.

use super::super::lockstep::{BRIEF, may_block, timeout};

pub(super) fn is_called(request: &[&[u8]], names: &[&str]) -> bool {
    names
        .iter()
        .any(|name| request[0].eq_ignore_ascii_case(name.as_bytes()))
}

/// The whole number behind the first of these words.
pub(super) fn behind(request: &[&[u8]], words: &[&str]) -> Option<i64> {
    let is_one = |arg: &&[u8]| {
        words
            .iter()
            .any(|word| arg.eq_ignore_ascii_case(word.as_bytes()))
    };
    let at = request.iter().position(is_one)?;
    whole_number(request.get(at + 1)?)
}

pub(super) fn whole_number(arg: &[u8]) -> Option<i64> {
    std::str::from_utf8(arg).ok()?.parse().ok()
}

pub(super) fn lives_briefly(request: &[&[u8]]) -> bool {
    const SECONDS: i64 = 1000;
    let second = || request.get(2).and_then(|arg| whole_number(arg));
    let absolute = || behind(request, &["ABSTTL"]).is_some() || request.contains(&&b"ABSTTL"[..]);
    let (number, unit) = match () {
        () if is_called(request, &["expire", "setex", "hexpire"]) => (second(), 1),
        () if is_called(request, &["pexpire", "psetex", "hpexpire"]) => (second(), 1000),
        () if is_called(request, &["restore"]) && !absolute() => (second(), 1000),
        () if is_called(request, &["set", "getex", "hgetex", "hsetex", "msetex"]) => {
            match behind(request, &["EX"]) {
                Some(seconds) => (Some(seconds), 1),
                None => (behind(request, &["PX"]), 1000),
            }
        }
        () => return false,
    };
    number.is_some_and(|number| (1..SECONDS * unit).contains(&number))
}

pub(super) fn waits_for_a_while(request: &[&[u8]]) -> bool {
    let timeout = may_block(request).then(|| timeout(request)).flatten();
    timeout.is_some_and(|seconds| seconds > BRIEF && seconds < 600.0)
}

pub(super) fn stores_the_past(request: &[&[u8]]) -> bool {
    is_called(request, &["msetex"]) && ends_in_the_past(request)
}

pub(super) fn ends_in_the_past(request: &[&[u8]]) -> bool {
    let (seconds, millis) = (behind(request, &["EXAT"]), behind(request, &["PXAT"]));
    seconds.is_some_and(|moment| moment < 4_000_000_000)
        || millis.is_some_and(|moment| moment < 4_000_000_000_000)
}

pub(super) fn is_named_as_a_word(request: &[&[u8]]) -> bool {
    const WORDS: &[&str] = &[
        "FIELDS", "NX", "XX", "FNX", "FXX", "EX", "PX", "EXAT", "PXAT", "KEEPTTL", "PERSIST",
    ];
    let key = request.get(1);
    is_called(request, &["hgetex", "hsetex"]) && key.is_some_and(|key| is_called(&[key], WORDS))
}

pub(super) fn numbers_a_client(request: &[&[u8]]) -> bool {
    const NUMBER_MAX: i64 = 1_000_000;
    let is_number =
        |arg: &&&[u8]| whole_number(arg).is_some_and(|one| (1..NUMBER_MAX).contains(&one));
    let names_one = request.get(1).is_some_and(|word| {
        word.eq_ignore_ascii_case(b"tracking") || word.eq_ignore_ascii_case(b"unblock")
    });
    is_called(request, &["client"]) && names_one && request.iter().any(|arg| is_number(&arg))
}

pub(super) fn draws_endlessly(request: &[&[u8]]) -> bool {
    const DRAWS_MAX: i64 = 100_000;
    let count = request.get(2).and_then(|arg| whole_number(arg));
    is_called(request, &["srandmember", "hrandfield", "zrandmember"])
        && count.is_some_and(|count| count < -DRAWS_MAX)
}

pub(super) fn reserves_by_count(request: &[&[u8]]) -> bool {
    const COUNT_MAX: i64 = 1 << 20;
    let mut numbers = request.iter().filter_map(|arg| whole_number(arg));
    is_called(request, &["xautoclaim"]) && numbers.any(|number| number > COUNT_MAX)
}

pub(super) fn breaks_its_own_reply(request: &[&[u8]]) -> bool {
    let has_line_break = |arg: &&[u8]| arg.contains(&b'\r') || arg.contains(&b'\n');
    let lists = request
        .get(1)
        .is_some_and(|word| word.eq_ignore_ascii_case(b"list"));
    is_called(request, &["function"]) && lists && request.iter().any(has_line_break)
}

pub(super) fn stores_the_nearest(request: &[&[u8]]) -> bool {
    let has = |word: &[u8]| request.iter().any(|one| one.eq_ignore_ascii_case(word));
    let stores = is_called(request, &["geosearchstore"]) || has(b"STORE") || has(b"STOREDIST");
    has(b"COUNT") && stores && request[0].to_ascii_lowercase().starts_with(b"geo")
}

pub(super) fn reads_numbers_leniently(request: &[&[u8]]) -> bool {
    let is_odd = |arg: &&[u8]| {
        let lower = arg.to_ascii_lowercase();
        let digits = lower.iter().any(u8::is_ascii_digit);
        arg.is_empty()
            || digits && (lower.starts_with(b"+") || lower.starts_with(b"0x") || lower == b"1e400")
            || digits && (lower.starts_with(b" ") || lower.ends_with(b" "))
            || lower.contains(&0)
            || matches!(
                lower.as_slice(),
                b"nan" | b"inf" | b"-inf" | b"+inf" | b"-0"
            )
    };
    let sorts = is_called(request, &["sort", "sort_ro"])
        && !request
            .iter()
            .any(|word| word.eq_ignore_ascii_case(b"ALPHA"));
    sorts || request.iter().skip(1).any(is_odd)
}

pub(super) fn grew_up_later(request: &[&[u8]]) -> bool {
    let tracks = |word: &&[u8]| word.eq_ignore_ascii_case(b"TRACKING");
    is_called(request, &["bitcount"]) && request.len() == 3
        || is_called(request, &["pfmerge"]) && request.len() == 2
        || is_called(request, &["xread"]) && request.contains(&&b"+"[..])
        || is_called(request, &["scan"])
            && request
                .iter()
                .any(|word| word.eq_ignore_ascii_case(b"type"))
        || is_called(request, &["readonly", "readwrite", "getex"])
        || is_called(request, &["client"]) && request.iter().any(tracks)
}

pub(super) fn is_stricter_in_7_0(request: &[&[u8]]) -> bool {
    let has = |word: &[u8]| request.iter().any(|one| one.eq_ignore_ascii_case(word));
    let is_far = |arg: &&[u8]| whole_number(arg).is_some_and(|at| i32::try_from(at).is_err());
    // Later ones run a request that waits again, and look at its first key first.
    const WAIT: &[&str] = &["blpop", "brpop", "blmpop", "bzmpop", "bzpopmin", "bzpopmax"];
    is_called(request, WAIT) && request.len() > 3
        || is_called(request, &["bitcount", "bitpos"]) && request.len() > 2
        || is_called(request, &["xread", "xreadgroup"]) && has(b"BLOCK")
        || is_called(request, &["set"]) && ends_in_the_past(request)
        || is_called(request, &["lset"]) && request.iter().any(is_far)
        || is_called(request, &["xautoclaim", "xclaim", "xsetid"])
}

pub(super) fn is_of_8_2(request: &[&[u8]]) -> bool {
    let counts = |word: &&[u8]| word.eq_ignore_ascii_case(b"ENTRIESREAD");
    is_called(request, &["xgroup"]) && request.iter().any(counts)
        || is_called(request, &["ltrim"])
        || is_called(
            request,
            &[
                "xackdel",
                "xdelex",
                "hexpire",
                "hpexpire",
                "hexpireat",
                "hpexpireat",
                "hsetex",
                "hgetex",
            ],
        )
}

pub(super) fn restores(request: &[&[u8]]) -> bool {
    is_called(request, &["restore"])
}

pub(super) fn is_dated_by_the_clock(request: &[&[u8]]) -> bool {
    is_called(request, &["xadd"]) && request.contains(&&b"*"[..])
}
