//! How two replies are made alike where a row allows them to differ.

use crate::transcript::wire::{Body, Reply};

use super::super::vocabulary::{SCRIPTS, sha_of};
use super::{Case, name_of, part};

pub(super) fn each(ours: &mut Reply, theirs: &mut Reply, change: impl Fn(&mut Reply)) {
    change(ours);
    change(theirs);
}

/// Something by which replies can be put in order.
pub(super) fn rank(reply: &Reply) -> Vec<u8> {
    let mut rank = vec![reply.tag];
    match &reply.body {
        Body::Text(text) => rank.extend_from_slice(text),
        Body::Null => {}
        Body::Many(many) => many.iter().for_each(|one| rank.extend(self::rank(one))),
    }
    rank
}

pub(super) fn any_order(_: &Case<'_>, ours: &mut Reply, theirs: &mut Reply) {
    each(ours, theirs, |reply| {
        if let Body::Many(many) = &mut reply.body {
            many.sort_by_key(rank);
        }
    });
}

pub(super) fn any_order_of_pairs(_: &Case<'_>, ours: &mut Reply, theirs: &mut Reply) {
    each(ours, theirs, sort_pairs);
}

pub(super) fn sort_pairs(reply: &mut Reply) {
    if let Body::Many(many) = &mut reply.body {
        let mut pairs: Vec<Vec<Reply>> = many.chunks(2).map(<[Reply]>::to_vec).collect();
        pairs.sort_by_key(|pair| rank(&pair[0]));
        *many = pairs.concat();
    }
}

pub(super) fn newer_commands(_: &Case<'_>, ours: &mut Reply, _: &mut Reply) {
    const NEWER: [&[u8]; 3] = [b"delex", b"digest", b"msetex"];
    if let Body::Many(many) = &mut ours.body {
        many.retain(
            |one| !matches!(&one.body, Body::Text(name) if NEWER.contains(&name.as_slice())),
        );
    }
}

pub(super) fn signs_of_nan(_: &Case<'_>, ours: &mut Reply, theirs: &mut Reply) {
    each(ours, theirs, |reply| {
        if reply.body == Body::Text(b"-nan".to_vec()) {
            reply.body = Body::Text(b"nan".to_vec());
        }
    });
}

pub(super) fn numbers_of_scripts(_: &Case<'_>, ours: &mut Reply, theirs: &mut Reply) {
    let is = |reply: &Reply, name: &[u8]| reply.body == Body::Text(name.to_vec());
    if is(ours, b"int") && is(theirs, b"embstr") {
        *ours = theirs.clone();
    }
}

/// With BY, what is equal or not to be sorted comes in any order, and LIMIT takes a part of that.
pub(super) fn unsorted(case: &Case<'_>, ours: &mut Reply, theirs: &mut Reply) {
    let has = |word: &[u8]| {
        case.request
            .iter()
            .any(|one| one.eq_ignore_ascii_case(word))
    };
    // Texts end with a zero byte there, and so some are equal that are not the same.
    if has(b"ALPHA") && rank(theirs).contains(&0) {
        return drawn(case, ours, theirs);
    }
    let by = case
        .request
        .iter()
        .position(|word| word.eq_ignore_ascii_case(b"BY"));
    let Some(pattern) = by.and_then(|by| case.request.get(by + 1)) else {
        return;
    };
    if pattern.contains(&b'*') && !has(b"ALPHA") {
        return;
    }
    if has(b"LIMIT") || has(b"GET") {
        drawn(case, ours, theirs);
    } else {
        any_order(case, ours, theirs);
    }
}

pub(super) fn nearest(case: &Case<'_>, ours: &mut Reply, theirs: &mut Reply) {
    let has = |word: &[u8]| {
        let mut words = case.request.iter();
        words.any(|one| one.eq_ignore_ascii_case(word))
    };
    let distances = |reply: &Reply| -> Vec<Vec<u8>> {
        let Body::Many(many) = &reply.body else {
            return Vec::new();
        };
        many.iter().map(|one| part(one, 1).to_vec()).collect()
    };
    if has(b"COUNT") && (!has(b"WITHDIST") || distances(ours) == distances(theirs)) {
        drawn(case, ours, theirs);
    }
}

/// Texts of so many bytes are doubles with all their digits.
pub(super) const LONG_DOUBLE: usize = 15;

pub(super) fn same_doubles(_: &Case<'_>, ours: &mut Reply, theirs: &mut Reply) {
    settle_doubles(ours, theirs);
}

pub(super) fn near_doubles(_: &Case<'_>, ours: &mut Reply, theirs: &mut Reply) {
    settle_near_doubles(ours, theirs);
}

pub(super) fn settle_near_doubles(ours: &mut Reply, theirs: &mut Reply) {
    const TOLERANCE: f64 = 1e-14;
    match (&mut ours.body, &mut theirs.body) {
        (Body::Many(one), Body::Many(other)) => {
            for (one, other) in one.iter_mut().zip(other) {
                settle_near_doubles(one, other);
            }
        }
        (Body::Text(one), Body::Text(other)) => {
            let double = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<f64>().ok();
            let far = double(one)
                .zip(double(other))
                .map(|(one, other)| (one - other).abs());
            if far.is_some_and(|far| far <= TOLERANCE) {
                one.clone_from(other);
            }
        }
        _ => {}
    }
}

pub(super) fn anything(_: &Case<'_>, ours: &mut Reply, theirs: &mut Reply) {
    ours.clone_from(theirs);
}

pub(super) fn any_error(_: &Case<'_>, ours: &mut Reply, theirs: &mut Reply) {
    settle_errors(ours, theirs);
}

/// An error, or the text of one that a script has caught.
pub(super) fn settle_errors(ours: &mut Reply, theirs: &mut Reply) {
    let is_error = |reply: &Reply| match &reply.body {
        Body::Text(text) => {
            let code = text.split(|&byte| byte == b' ').next().unwrap_or_default();
            reply.tag == b'-' || code.len() > 2 && code.iter().all(u8::is_ascii_uppercase)
        }
        _ => false,
    };
    if let (Body::Many(one), Body::Many(other)) = (&mut ours.body, &mut theirs.body) {
        for (one, other) in one.iter_mut().zip(other) {
            settle_errors(one, other);
        }
    } else if is_error(ours) && is_error(theirs) {
        ours.clone_from(theirs);
    }
}

pub(super) fn settle_doubles(ours: &mut Reply, theirs: &mut Reply) {
    match (&mut ours.body, &mut theirs.body) {
        (Body::Many(one), Body::Many(other)) => {
            for (one, other) in one.iter_mut().zip(other) {
                settle_doubles(one, other);
            }
        }
        (Body::Text(one), Body::Text(other)) => {
            let double = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<f64>().ok();
            let is_long = one.len().max(other.len()) >= LONG_DOUBLE;
            if is_long && double(one).is_some_and(|value| Some(value) == double(other)) {
                one.clone_from(other);
            }
        }
        _ => {}
    }
}

pub(super) fn help_texts(_: &Case<'_>, ours: &mut Reply, theirs: &mut Reply) {
    let is_help = |reply: &Reply| match &reply.body {
        Body::Many(many) => many.len() > 1 && many.iter().all(|line| line.tag == b'+'),
        _ => false,
    };
    if is_help(ours) && is_help(theirs) {
        *ours = theirs.clone();
    }
}

/// A script that speaks RESP3 gets maps; for a client that does not they are flat.
pub(super) fn lua_maps(case: &Case<'_>, ours: &mut Reply, theirs: &mut Reply) {
    let speaks_resp3 = case
        .outer
        .get(1)
        .is_some_and(|script| script.starts_with(b"redis.setresp(3)"));
    if speaks_resp3 || is_sha_of_resp3(case.outer) {
        each(ours, theirs, sort_deep);
    } else {
        each(ours, theirs, sort_maps);
    }
}

pub(super) fn is_sha_of_resp3(request: &[&[u8]]) -> bool {
    let mut scripts = SCRIPTS
        .iter()
        .filter(|script| script.starts_with(b"redis.setresp(3)"));
    request
        .get(1)
        .is_some_and(|sha| scripts.any(|script| sha.eq_ignore_ascii_case(&sha_of(script))))
}

pub(super) fn sort_maps(reply: &mut Reply) {
    if matches!(reply.tag, b'%' | b'~') {
        sort_deep(reply);
    } else if let Body::Many(many) = &mut reply.body {
        many.iter_mut().for_each(sort_maps);
    }
}

pub(super) fn any_order_deep(_: &Case<'_>, ours: &mut Reply, theirs: &mut Reply) {
    each(ours, theirs, sort_deep);
}

pub(super) fn sort_deep(reply: &mut Reply) {
    if let Body::Many(many) = &mut reply.body {
        many.iter_mut().for_each(sort_deep);
        many.sort_by_key(rank);
    }
}

/// A whole collection at once is compared in any order; of a part only the form.
pub(super) fn scanned(case: &Case<'_>, ours: &mut Reply, theirs: &mut Reply) {
    let name = name_of(case.request);
    let has = |word: &[u8]| {
        case.request
            .iter()
            .any(|one| one.eq_ignore_ascii_case(word))
    };
    let pairs = name == "zscan" && !has(b"NOSCORES") || name == "hscan" && !has(b"NOVALUES");
    let is_whole = |reply: &Reply| match &reply.body {
        Body::Many(many) => many
            .first()
            .is_some_and(|cursor| cursor.body == Body::Text(b"0".to_vec())),
        _ => false,
    };
    let from_start = case.request.iter().take(3).any(|word| *word == b"0");
    let whole = from_start && is_whole(ours) && is_whole(theirs);
    each(ours, theirs, |reply| {
        if let Body::Many(many) = &mut reply.body
            && let [cursor, elements] = many.as_mut_slice()
        {
            cursor.body = Body::Null;
            match &mut elements.body {
                Body::Many(many) if !whole => many.clear(),
                Body::Many(_) if pairs => sort_pairs(elements),
                Body::Many(many) => many.sort_by_key(rank),
                _ => {}
            }
        }
    });
}

pub(super) fn drawn(_: &Case<'_>, ours: &mut Reply, theirs: &mut Reply) {
    let alike = match (&ours.body, &theirs.body) {
        (Body::Text(_), Body::Text(_)) => ours.tag == b'$' && theirs.tag == b'$',
        (Body::Many(one), Body::Many(other)) => ours.tag == theirs.tag && one.len() == other.len(),
        _ => false,
    };
    if alike {
        *ours = theirs.clone();
    }
}

/// How far apart in milliseconds two servers may have run the same request.
pub(super) const NEAR: i64 = 30_000;

pub(super) fn near_times(_: &Case<'_>, ours: &mut Reply, theirs: &mut Reply) {
    if let (Body::Many(one), Body::Many(other)) = (&mut ours.body, &mut theirs.body) {
        one.iter_mut()
            .zip(other)
            .for_each(|(one, other)| settle_near(one, other));
    } else {
        settle_near(ours, theirs);
    }
}

pub(super) fn settle_near(ours: &mut Reply, theirs: &mut Reply) {
    if let (Some(one), Some(other)) = (number(ours), number(theirs))
        && one > 0
        && other > 0
        && one.abs_diff(other) <= NEAR as u64
    {
        *ours = theirs.clone();
    }
}

pub(super) fn number(reply: &Reply) -> Option<i64> {
    match &reply.body {
        Body::Text(text) if reply.tag == b':' => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

pub(super) fn idle_times(case: &Case<'_>, ours: &mut Reply, theirs: &mut Reply) {
    let pending = name_of(case.request) == "xpending";
    each(ours, theirs, |reply| forget_times(reply, pending));
}

/// Takes the times out: those behind their names, and the third of four in a pending entry.
pub(super) fn forget_times(reply: &mut Reply, pending: bool) {
    const TIMES: [&[u8]; 4] = [b"idle", b"inactive", b"seen-time", b"active-time"];
    let Body::Many(many) = &mut reply.body else {
        return;
    };
    let is_entry = many.len() == 4 && many[0].tag == b'$' && many[2].tag == b':';
    if pending && is_entry {
        many[2].body = Body::Null;
    }
    // In the full form of XINFO an entry is (id, consumer, time, count) or (id, time, count).
    let is_full = !pending && matches!(many.len(), 3 | 4) && many[0].tag == b'$' && is_id(&many[0]);
    if is_full {
        let time = many.len() - 2;
        if many[time].tag == b':' {
            many[time].body = Body::Null;
        }
    }
    for at in 1..many.len() {
        let named =
            matches!(&many[at - 1].body, Body::Text(name) if TIMES.contains(&name.as_slice()));
        if named && many[at].tag == b':' && number(&many[at]) != Some(-1) {
            many[at].body = Body::Null;
        }
    }
    for one in many {
        forget_times(one, pending);
    }
}

pub(super) fn is_id(reply: &Reply) -> bool {
    matches!(&reply.body, Body::Text(text) if text.contains(&b'-'))
}

pub(super) fn both_texts(_: &Case<'_>, ours: &mut Reply, theirs: &mut Reply) {
    if let (Body::Text(_), Body::Text(_)) = (&ours.body, &theirs.body)
        && ours.tag == b'$'
        && theirs.tag == b'$'
    {
        *ours = theirs.clone();
    }
}

pub(super) fn any_number(_: &Case<'_>, ours: &mut Reply, theirs: &mut Reply) {
    if let (Body::Many(one), Body::Many(other)) = (&mut ours.body, &mut theirs.body) {
        one.iter_mut()
            .zip(other)
            .for_each(|(one, other)| settle_number(one, other));
    } else {
        settle_number(ours, theirs);
    }
}

pub(super) fn settle_number(ours: &mut Reply, theirs: &mut Reply) {
    if number(ours).is_some_and(|one| one > 0) && number(theirs).is_some_and(|one| one > 0) {
        *ours = theirs.clone();
    }
}
