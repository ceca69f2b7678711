//! Glob patterns: the matcher agrees with a slow one that tries everything.

use khoa_server::fuzzing::{matches, matches_any_case};

/// The pattern is the first line, the text is what follows.
pub fn run(input: &[u8]) {
    let at = input.iter().position(|&byte| byte == b'\n');
    let at = at.unwrap_or(input.len());
    let (pattern, text) = (&input[..at], input.get(at + 1..).unwrap_or_default());
    assert_eq!(matches(pattern, text), matches_slowly(pattern, text, false));
    assert_eq!(
        matches_any_case(pattern, text),
        matches_slowly(pattern, text, true)
    );
}

/// A piece of a pattern.
enum Piece {
    Star,
    /// The bytes that it stands for.
    One(Box<[bool; 256]>),
}

/// Keeps for every piece which beginnings of the text the pieces so far can stand for.
fn matches_slowly(pattern: &[u8], text: &[u8], any_case: bool) -> bool {
    // The references look at no pattern for an empty text, not even at one of stars.
    if text.is_empty() {
        return pattern.is_empty();
    }
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    for piece in pieces(pattern, any_case) {
        reached = match piece {
            Piece::Star => {
                let mut seen = false;
                let or_earlier = |&here: &bool| {
                    seen |= here;
                    seen
                };
                reached.iter().map(or_earlier).collect()
            }
            Piece::One(set) => {
                let fits = |at: usize| at > 0 && reached[at - 1] && set[usize::from(text[at - 1])];
                (0..=text.len()).map(fits).collect()
            }
        };
    }
    reached[text.len()]
}

fn pieces(mut rest: &[u8], any_case: bool) -> Vec<Piece> {
    let mut pieces = Vec::new();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        pieces.push(match (first, tail) {
            (b'*', _) => Piece::Star,
            (b'?', _) => Piece::One(Box::new([true; 256])),
            (b'[', _) => Piece::One(class(&mut rest, any_case)),
            (b'\\', [literal, after @ ..]) => {
                rest = after;
                Piece::One(range(*literal, *literal, any_case))
            }
            _ => Piece::One(range(first, first, any_case)),
        });
    }
    pieces
}

/// What stands between brackets; one that is not closed ends with the pattern.
fn class(rest: &mut &[u8], any_case: bool) -> Box<[bool; 256]> {
    let inverse = rest.first() == Some(&b'^');
    if inverse {
        *rest = &rest[1..];
    }
    let mut set = Box::new([false; 256]);
    loop {
        let (low, high, len) = match **rest {
            [] => break,
            [b']', ..] => {
                *rest = &rest[1..];
                break;
            }
            [b'\\', literal, ..] => (literal, literal, 2),
            [one, b'-', other, ..] => (one.min(other), one.max(other), 3),
            [literal, ..] => (literal, literal, 1),
        };
        let added = range(low, high, any_case);
        set.iter_mut()
            .zip(added.iter())
            .for_each(|(has, &adds)| *has |= adds);
        *rest = &rest[len..];
    }
    set.iter_mut().for_each(|has| *has ^= inverse);
    set
}

/// The bytes of a range, with letters of the other case if that does not count. Its ends are
/// folded first, so that it may be another range then.
fn range(low: u8, high: u8, any_case: bool) -> Box<[bool; 256]> {
    let fold = |byte: u8| {
        if any_case {
            byte.to_ascii_lowercase()
        } else {
            byte
        }
    };
    let mut set = Box::new([false; 256]);
    for byte in 0..=u8::MAX {
        set[usize::from(byte)] = (fold(low)..=fold(high)).contains(&fold(byte));
    }
    set
}

pub fn seeds() -> Vec<Vec<u8>> {
    let all = [
        "h[^e-z]llo*\nhallo",
        "a*b*c\\*?\naXbYbZc*!",
        "[z-a][\\]-^][abc\nm\\c",
        "a*a*a*a*a*b\naaaaaaaaaaaaaaaaaaaaa",
        "user:[0-9][0-9]*:*\nuser:42:name",
        "__keyspace@*__:[A-Z_]*\n__keyspace@0__:K_EY",
    ];
    all.map(|text| text.as_bytes().to_vec()).to_vec()
}

pub fn words() -> Vec<Vec<u8>> {
    let all = [
        "*", "?", "[^", "[", "]", "-", "\\", "a-z", "[^a-c]", "\\]", "**", "\n",
    ];
    all.map(|text| text.as_bytes().to_vec()).to_vec()
}
