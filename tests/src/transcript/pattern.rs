//! The notation of replies: every RESP type by its own type byte, with holes for what differs.
//!
//! `+OK`, `-ERR text`, `:1`, `,1.5`, `#t`, `(123` and `_` stand as on the wire, with unprintable
//! bytes escaped; `$"bulk"`, `="txt:verbatim"` and `!"bulk error"` are quoted; `$-1` and `*-1`
//! are the nulls of RESP2; `*2`, `~2`, `>2` and `%2` are followed by their elements, each indented
//! by two more spaces; a map's pairs are written `key => value`.
//!
//! Holes: `<any>` is any reply and `<int 1..10>` any integer in the range, either end of which may
//! be left out. After a type byte `<any>`, `<int ..>`, `<float ..>`, `<like "a*b">` (where `*` is
//! any text) and `<is name>` (what was captured) stand for the rest; ` as name` captures it.
//!
//! `event del k` is short for the four elements by which a RESP2 client that subscribes to
//! [`EVENTS`] hears that `k` was deleted.

use super::text::{Captures, escape, quote, quote_if_needed, unescape, unquote, words};
use super::wire::{Body, Reply};

/// The pattern to which transcripts subscribe for hearing keyspace events.
pub const EVENTS: &str = "__keyevent@0__:*";

/// What a reply must look like.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Any reply.
    Any,
    /// A type byte and what follows it.
    Typed(u8, Content),
}

/// What follows the type byte of a pattern.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Exactly this text.
    Text(Vec<u8>),
    /// The null of this type.
    Null,
    /// These elements; a map's keys and values alternate.
    Many(Vec<Pattern>),
    /// Anything that the hole admits, captured under a name if it has one.
    Hole(Hole, Option<String>),
}

/// What a hole admits.
#[derive(Clone, Debug, PartialEq)]
pub enum Hole {
    /// Anything.
    Any,
    /// A number from the first to the last.
    Number(f64, f64),
    /// A text in which `*` is any text.
    Like(Vec<u8>),
    /// What was captured under this name.
    Is(String),
}

/// Whether elements must come in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As they stand.
    Kept,
    /// In any order at the top level.
    Free,
    /// In any order at the top level, but two by two.
    FreePairs,
    /// In any order at every level.
    FreeDeep,
}

impl Order {
    /// How many elements stay together, or none if the order counts.
    fn group(self, tag: u8) -> Option<usize> {
        match (self, tag) {
            (Self::Kept, _) => None,
            (_, b'%') | (Self::FreePairs, _) => Some(2),
            _ => Some(1),
        }
    }

    fn below(self) -> Self {
        if self == Self::FreeDeep {
            self
        } else {
            Self::Kept
        }
    }
}

/// Reads a pattern from its lines, without the leading `< `.
pub fn parse(lines: &[&str]) -> Result<Pattern, String> {
    let mut rest = lines;
    let pattern = take(&mut rest, 0)?;
    match rest.first() {
        None => Ok(pattern),
        Some(line) => Err(format!("not part of the reply: {line}")),
    }
}

/// Takes the pattern whose first line stands at `depth`, with the lines of its elements.
fn take(lines: &mut &[&str], depth: usize) -> Result<Pattern, String> {
    let (line, rest) = lines.split_first().ok_or("the reply misses elements")?;
    *lines = rest;
    let text = line
        .strip_prefix(&"  ".repeat(depth))
        .filter(|text| !text.starts_with(' '))
        .ok_or_else(|| format!("expected {depth} levels of indentation: {line}"))?;
    value(text, lines, depth)
}

fn value(text: &str, lines: &mut &[&str], depth: usize) -> Result<Pattern, String> {
    if text.starts_with('<') {
        return hole_of_any_type(text);
    }
    if let Some(event) = text.strip_prefix("event ") {
        return self::event(event);
    }
    let mut chars = text.chars();
    let tag = chars
        .next()
        .filter(char::is_ascii)
        .ok_or("a reply without type")? as u8;
    let body = chars.as_str();
    let content = if body.starts_with('<') {
        hole(body)?
    } else {
        content(tag, body, lines, depth)?
    };
    Ok(Pattern::Typed(tag, content))
}

fn event(text: &str) -> Result<Pattern, String> {
    let words = words(text, &Captures::new())?;
    let [name, key] = words.as_slice() else {
        return Err(format!("an event has a name and a key: {text}"));
    };
    let channel = [EVENTS.trim_end_matches('*').as_bytes(), name].concat();
    let parts = [
        b"pmessage".to_vec(),
        EVENTS.as_bytes().to_vec(),
        channel,
        key.clone(),
    ];
    let many = parts.map(|part| Pattern::Typed(b'$', Content::Text(part)));
    Ok(Pattern::Typed(b'*', Content::Many(many.into())))
}

fn content(tag: u8, body: &str, lines: &mut &[&str], depth: usize) -> Result<Content, String> {
    match tag {
        b'+' | b'-' | b':' | b',' | b'#' | b'(' | b'_' => Ok(Content::Text(unescape(body)?)),
        b'$' | b'=' | b'!' | b'*' if body == "-1" => Ok(Content::Null),
        b'$' | b'=' | b'!' => Ok(Content::Text(unquote(body)?)),
        b'*' | b'~' | b'>' => {
            let count = count(body)?;
            (0..count)
                .map(|_| take(lines, depth + 1))
                .collect::<Result<_, _>>()
                .map(Content::Many)
        }
        b'%' | b'|' => pairs(count(body)?, lines, depth + 1),
        _ => Err(format!("unknown reply type: {}", char::from(tag))),
    }
}

fn count(body: &str) -> Result<usize, String> {
    body.parse()
        .map_err(|error| format!("count {body:?}: {error}"))
}

fn pairs(count: usize, lines: &mut &[&str], depth: usize) -> Result<Content, String> {
    let mut many = Vec::new();
    for _ in 0..count {
        let (line, rest) = lines.split_first().ok_or("the map misses pairs")?;
        let (key, text) = line
            .split_once(" => ")
            .ok_or_else(|| format!("not a pair: {line}"))?;
        many.push(take(&mut &[key][..], depth)?);
        *lines = rest;
        many.push(value(text, lines, depth)?);
    }
    Ok(Content::Many(many))
}

fn hole_of_any_type(text: &str) -> Result<Pattern, String> {
    if text == "<any>" {
        return Ok(Pattern::Any);
    }
    Ok(Pattern::Typed(b':', hole(text)?))
}

fn hole(text: &str) -> Result<Content, String> {
    let inner = text
        .strip_prefix('<')
        .and_then(|text| text.strip_suffix('>'))
        .ok_or_else(|| format!("a hole is not closed: {text}"))?;
    let (inner, name) = match inner.rsplit_once(" as ") {
        Some((inner, name)) if !name.contains('"') => (inner, Some(name.to_owned())),
        _ => (inner, None),
    };
    let (kind, argument) = inner.split_once(' ').unwrap_or((inner, ""));
    let hole = match kind {
        "any" => Hole::Any,
        "int" | "float" => range(argument)?,
        "like" => Hole::Like(unquote(argument)?),
        "is" => Hole::Is(argument.to_owned()),
        _ => return Err(format!("unknown hole: {text}")),
    };
    Ok(Content::Hole(hole, name))
}

fn range(text: &str) -> Result<Hole, String> {
    let (low, high) = text
        .split_once("..")
        .ok_or_else(|| format!("not a range: {text}"))?;
    let end = |text: &str, open: f64| {
        if text.is_empty() {
            Ok(open)
        } else {
            text.parse().map_err(|_| format!("range {text}"))
        }
    };
    Ok(Hole::Number(
        end(low, f64::NEG_INFINITY)?,
        end(high, f64::INFINITY)?,
    ))
}

/// Whether `reply` is what `pattern` says; holes with a name add to `captures` on the way.
pub fn matches(pattern: &Pattern, reply: &Reply, order: Order, captures: &mut Captures) -> bool {
    match pattern {
        Pattern::Any => true,
        Pattern::Typed(tag, _) if *tag != reply.tag => false,
        Pattern::Typed(tag, content) => match (content, &reply.body) {
            (Content::Hole(hole, name), body) => admits(hole, name.as_deref(), body, captures),
            (Content::Text(expected), Body::Text(got)) => expected == got,
            (Content::Null, Body::Null) => true,
            (Content::Many(expected), Body::Many(got)) => match order.group(*tag) {
                None => in_order(expected, got, order.below(), captures),
                Some(group) => in_any_order(expected, got, group, order.below(), captures),
            },
            _ => false,
        },
    }
}

fn in_order(expected: &[Pattern], got: &[Reply], order: Order, captures: &mut Captures) -> bool {
    expected.len() == got.len()
        && expected
            .iter()
            .zip(got)
            .all(|(one, other)| matches(one, other, order, captures))
}

/// Takes for each group the first one left that fits: enough while holes do not overlap.
fn in_any_order(
    expected: &[Pattern],
    got: &[Reply],
    group: usize,
    order: Order,
    captures: &mut Captures,
) -> bool {
    let mut left: Vec<&[Reply]> = got.chunks(group).collect();
    expected.len() == got.len()
        && expected.chunks(group).all(|wanted| {
            let place = left
                .iter()
                .position(|one| in_order(wanted, one, order, captures));
            place.map(|place| left.remove(place)).is_some()
        })
}

fn admits(hole: &Hole, name: Option<&str>, body: &Body, captures: &mut Captures) -> bool {
    let Body::Text(text) = body else {
        return *hole == Hole::Any && name.is_none();
    };
    let fits = match hole {
        Hole::Any => true,
        Hole::Number(low, high) => std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse::<f64>().ok())
            .is_some_and(|number| (*low..=*high).contains(&number)),
        Hole::Like(glob) => like(glob, text),
        Hole::Is(other) => captures.get(other) == Some(text),
    };
    if let Some(name) = name.filter(|_| fits) {
        captures.insert(name.to_owned(), text.clone());
    }
    fits
}

/// Whether `text` is `glob` with something in place of each `*`.
fn like(glob: &[u8], text: &[u8]) -> bool {
    let mut pieces = glob.split(|&byte| byte == b'*');
    let Some(mut rest) = text.strip_prefix(pieces.next().unwrap_or_default()) else {
        return false;
    };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        match find(rest, piece) {
            Some(place) => rest = &rest[place + piece.len()..],
            None => return false,
        }
    }
    true
}

fn find(text: &[u8], piece: &[u8]) -> Option<usize> {
    if piece.is_empty() {
        return Some(0);
    }
    text.windows(piece.len()).position(|window| window == piece)
}

/// A reply in the notation, one line each for it and for everything nested in it.
pub fn write(reply: &Reply) -> Vec<String> {
    let mut lines = Vec::new();
    match as_event(reply) {
        Some(event) => lines.push(event),
        None => write_at(reply, 0, "", &mut lines),
    }
    lines
}

fn as_event(reply: &Reply) -> Option<String> {
    let Body::Many(many) = &reply.body else {
        return None;
    };
    let mut texts = many.iter().map(|one| match &one.body {
        Body::Text(text) if one.tag == b'$' => Some(text.as_slice()),
        _ => None,
    });
    let mut next = || texts.next().flatten();
    if reply.tag != b'*' || next()? != b"pmessage" || next()? != EVENTS.as_bytes() {
        return None;
    }
    let name = next()?.strip_prefix(EVENTS.trim_end_matches('*').as_bytes())?;
    let name = std::str::from_utf8(name).ok()?;
    Some(format!("event {name} {}", quote_if_needed(next()?)))
}

fn write_at(reply: &Reply, depth: usize, key: &str, lines: &mut Vec<String>) {
    let start = format!("{}{key}", "  ".repeat(depth));
    let Body::Many(many) = &reply.body else {
        lines.push(format!("{start}{}", scalar(reply)));
        return;
    };
    let tag = char::from(reply.tag);
    if matches!(reply.tag, b'%' | b'|') {
        lines.push(format!("{start}{tag}{}", many.len() / 2));
        for pair in many.chunks(2) {
            write_at(
                &pair[1],
                depth + 1,
                &format!("{} => ", scalar(&pair[0])),
                lines,
            );
        }
    } else {
        lines.push(format!("{start}{tag}{}", many.len()));
        for element in many {
            write_at(element, depth + 1, "", lines);
        }
    }
}

/// A reply without elements; a map's key that has some is beyond the notation.
fn scalar(reply: &Reply) -> String {
    let tag = char::from(reply.tag);
    match &reply.body {
        Body::Null => format!("{tag}-1"),
        Body::Text(text) if matches!(reply.tag, b'$' | b'=' | b'!') => {
            format!("{tag}{}", quote(text))
        }
        Body::Text(text) if text.first() == Some(&b'<') => {
            format!("{tag}\\x3c{}", escape(&text[1..], b""))
        }
        Body::Text(text) => format!("{tag}{}", escape(text, b"")),
        Body::Many(_) => format!("{tag}?"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(tag: u8, text: &str) -> Reply {
        Reply {
            tag,
            body: Body::Text(text.as_bytes().to_vec()),
        }
    }

    fn many(tag: u8, many: Vec<Reply>) -> Reply {
        Reply {
            tag,
            body: Body::Many(many),
        }
    }

    fn fits(lines: &[&str], reply: &Reply, order: Order) -> bool {
        matches(&parse(lines).unwrap(), reply, order, &mut Captures::new())
    }

    #[test]
    fn what_is_written_matches_itself() {
        let reply = many(
            b'%',
            vec![
                text(b'$', "k\r\n\u{e9}"),
                many(
                    b'*',
                    vec![text(b':', "1"), many(b'~', vec![]), text(b'_', "")],
                ),
                text(b'+', "<x>"),
                Reply {
                    tag: b'$',
                    body: Body::Null,
                },
            ],
        );
        let lines = write(&reply);
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert!(fits(&lines, &reply, Order::Kept));
    }

    #[test]
    fn types_are_not_confused() {
        assert!(!fits(&["$\"1\""], &text(b':', "1"), Order::Kept));
        assert!(!fits(
            &["_"],
            &Reply {
                tag: b'$',
                body: Body::Null
            },
            Order::Kept
        ));
        assert!(!fits(&["*0"], &many(b'~', vec![]), Order::Kept));
    }

    #[test]
    fn holes_admit_what_they_say() {
        assert!(fits(&["<int 1..10>"], &text(b':', "10"), Order::Kept));
        assert!(!fits(&["<int 1..10>"], &text(b':', "11"), Order::Kept));
        assert!(fits(
            &["$<like \"id=* name=*\">"],
            &text(b'$', "id=3 name="),
            Order::Kept
        ));
        assert!(!fits(
            &["$<like \"a*b\">"],
            &text(b'$', "ab c"),
            Order::Kept
        ));
        assert!(fits(&["*<any>"], &many(b'*', vec![]), Order::Kept));
    }

    #[test]
    fn a_captured_value_is_known_later() {
        let mut captures = Captures::new();
        let one = parse(&[":<any as id>"]).unwrap();
        let two = parse(&[":<is id>"]).unwrap();
        assert!(matches(&one, &text(b':', "7"), Order::Kept, &mut captures));
        assert!(matches(&two, &text(b':', "7"), Order::Kept, &mut captures));
        assert!(!matches(&two, &text(b':', "8"), Order::Kept, &mut captures));
    }

    #[test]
    fn an_event_is_short_for_its_message() {
        let parts = ["pmessage", EVENTS, "__keyevent@0__:set", "a key"];
        let reply = many(b'*', parts.map(|part| text(b'$', part)).into());
        assert_eq!(write(&reply), ["event set \"a key\""]);
        assert!(fits(&["event set \"a key\""], &reply, Order::Kept));
        assert!(!fits(&["event del \"a key\""], &reply, Order::Kept));
    }

    #[test]
    fn order_is_free_only_where_asked() {
        let reply = many(b'*', vec![text(b':', "2"), text(b':', "1")]);
        let lines = ["*2", "  :1", "  :2"];
        assert!(!fits(&lines, &reply, Order::Kept));
        assert!(fits(&lines, &reply, Order::Free));
        assert!(!fits(&lines, &reply, Order::FreePairs));
    }
}
