//! Pattern matching: `find`, `match`, `gmatch` and `gsub`.
//!
//! A pattern can ask for more steps than there is time, all within one call that no hook
//! reaches. So the matcher counts its steps and looks at the clock and the kill request
//! itself.

use crate::script::lua::{Outcome, Raised, Stack, Type};

const CAPTURES_MAX: usize = 32;

/// How deeply the matcher may recurse: a frame is some two hundred bytes.
const DEPTH_MAX: u32 = 1500;

/// Steps between two looks.
const STEPS_PER_LOOK: usize = 1 << 16;

/// What makes more of a pattern than plain text.
const SPECIALS: [bool; 256] = {
    let (mut specials, mut at) = ([false; 256], 0);
    let letters = b"^$*+?.([%-";
    while at < letters.len() {
        specials[letters[at] as usize] = true;
        at += 1;
    }
    specials
};

#[derive(Clone, Copy)]
enum Capture {
    /// From a position on, its end not reached yet.
    Open(usize),
    Closed(usize, usize),
    /// `()`: the position itself.
    Position(usize),
}

struct Matcher<'a> {
    stack: &'a Stack<'a>,
    text: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Capture>,
    depth: u32,
    steps: usize,
}

type Found = Result<Option<usize>, Raised>;

impl<'a> Matcher<'a> {
    fn new(stack: &'a Stack<'a>, text: &'a [u8], pattern: &'a [u8]) -> Matcher<'a> {
        Matcher {
            stack,
            text,
            pattern,
            captures: Vec::new(),
            depth: 0,
            steps: 0,
        }
    }

    /// Matches the pattern at one place; tells where the match ends.
    fn match_at(&mut self, at: usize) -> Found {
        self.captures.clear();
        self.depth = 0;
        self.step(at, 0)
    }

    /// Counts steps of some nanoseconds each.
    fn count(&mut self, steps: usize) -> Result<(), Raised> {
        self.steps += steps;
        if self.steps >= STEPS_PER_LOOK {
            self.steps = 0;
            self.stack.look()?;
        }
        Ok(())
    }

    fn step(&mut self, at: usize, pattern: usize) -> Found {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.stack.fail("pattern too complex"));
        }
        let found = self.follow(at, pattern);
        self.depth -= 1;
        found
    }

    /// Matches from one place of the text and one of the pattern, item by item.
    fn follow(&mut self, mut at: usize, mut item: usize) -> Found {
        loop {
            self.count(1)?;
            let Some(&byte) = self.pattern.get(item) else {
                return Ok(Some(at));
            };
            match (byte, self.pattern.get(item + 1)) {
                (b'(', Some(b')')) => return self.open(at, item + 2, Capture::Position(at)),
                (b'(', _) => return self.open(at, item + 1, Capture::Open(at)),
                (b')', _) => return self.close(at, item + 1),
                (b'%', Some(b'b')) => match self.balanced(at, item + 2)? {
                    Some(after) => (at, item) = (after, item + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => match self.frontier(at, item + 2)? {
                    Some(after) => item = after,
                    None => return Ok(None),
                },
                (b'%', Some(digit @ b'0'..=b'9')) => match self.again(at, *digit)? {
                    Some(after) => (at, item) = (after, item + 2),
                    None => return Ok(None),
                },
                (b'$', None) => return Ok((at == self.text.len()).then_some(at)),
                _ => match self.single(at, item)? {
                    Single::Next(after, next) => (at, item) = (after, next),
                    Single::Done(found) => return Ok(found),
                },
            }
        }
    }

    /// One character class and the suffix after it.
    fn single(&mut self, at: usize, item: usize) -> Result<Single, Raised> {
        let end = self.class_end(item)?;
        self.count(end - item)?;
        let matches = at < self.text.len() && self.matches_class(self.text[at], item, end);
        Ok(match self.pattern.get(end) {
            Some(b'?') => {
                if matches && let Some(found) = self.step(at + 1, end + 1)? {
                    return Ok(Single::Done(Some(found)));
                }
                Single::Next(at, end + 1)
            }
            Some(b'*') => Single::Done(self.most(at, item, end)?),
            Some(b'+') => Single::Done(if matches {
                self.most(at + 1, item, end)?
            } else {
                None
            }),
            Some(b'-') => Single::Done(self.least(at, item, end)?),
            _ if matches => Single::Next(at + 1, end),
            _ => Single::Done(None),
        })
    }

    fn most(&mut self, at: usize, item: usize, end: usize) -> Found {
        let mut count = 0;
        while at + count < self.text.len() && self.matches_class(self.text[at + count], item, end) {
            self.count(end - item)?;
            count += 1;
        }
        loop {
            if let Some(found) = self.step(at + count, end + 1)? {
                return Ok(Some(found));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    fn least(&mut self, mut at: usize, item: usize, end: usize) -> Found {
        loop {
            if let Some(found) = self.step(at, end + 1)? {
                return Ok(Some(found));
            }
            if at >= self.text.len() || !self.matches_class(self.text[at], item, end) {
                return Ok(None);
            }
            self.count(end - item)?;
            at += 1;
        }
    }

    fn open(&mut self, at: usize, item: usize, capture: Capture) -> Found {
        if self.captures.len() >= CAPTURES_MAX {
            return Err(self.stack.fail("too many captures"));
        }
        let level = self.captures.len();
        self.captures.push(capture);
        let found = self.step(at, item)?;
        if found.is_none() {
            self.captures.truncate(level);
        }
        Ok(found)
    }

    fn close(&mut self, at: usize, item: usize) -> Found {
        let is_open = |capture: &Capture| matches!(capture, Capture::Open(_));
        let Some(level) = self.captures.iter().rposition(is_open) else {
            return Err(self.stack.fail("invalid pattern capture"));
        };
        let before = self.captures[level];
        if let Capture::Open(start) = before {
            self.captures[level] = Capture::Closed(start, at);
        }
        let found = self.step(at, item)?;
        if found.is_none() {
            self.captures[level] = before;
        }
        Ok(found)
    }

    /// `%bxy`: from an `x` to the `y` that balances it.
    fn balanced(&mut self, at: usize, item: usize) -> Found {
        let (Some(&open), Some(&close)) = (self.pattern.get(item), self.pattern.get(item + 1))
        else {
            return Err(self.stack.fail("unbalanced pattern"));
        };
        if self.text.get(at) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1_usize;
        for (ahead, &byte) in self.text[at + 1..].iter().enumerate() {
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    self.count(ahead)?;
                    return Ok(Some(at + 1 + ahead + 1));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        self.count(self.text.len() - at)?;
        Ok(None)
    }

    /// `%f[set]`: the border where the set begins to match. Tells the item after it.
    fn frontier(&mut self, at: usize, item: usize) -> Found {
        if self.pattern.get(item) != Some(&b'[') {
            return Err(self.stack.fail("missing '[' after '%f' in pattern"));
        }
        let end = self.class_end(item)?;
        self.count(end - item)?;
        let before = if at == 0 { 0 } else { self.text[at - 1] };
        let after = self.text.get(at).copied().unwrap_or(0);
        let border =
            !self.matches_set(before, item, end - 1) && self.matches_set(after, item, end - 1);
        Ok(border.then_some(end))
    }

    /// `%1`: what a capture matched, once more.
    fn again(&mut self, at: usize, digit: u8) -> Found {
        let number = usize::from(digit).wrapping_sub(usize::from(b'1'));
        if let Some(Capture::Position(_)) = self.captures.get(number) {
            return Ok(None);
        }
        let Some(&Capture::Closed(start, end)) = self.captures.get(number) else {
            return Err(self.stack.fail("invalid capture index"));
        };
        self.count((end - start) / 16)?;
        let same = self.text[at..].starts_with(&self.text[start..end]);
        Ok(same.then_some(at + end - start))
    }

    /// Where the class that begins at `item` ends.
    fn class_end(&self, item: usize) -> Result<usize, Raised> {
        match self.pattern[item] {
            b'%' if item + 1 >= self.pattern.len() => {
                Err(self.stack.fail("malformed pattern (ends with '%')"))
            }
            b'%' => Ok(item + 2),
            b'[' => self.set_end(item + 1),
            _ => Ok(item + 1),
        }
    }

    fn set_end(&self, mut item: usize) -> Result<usize, Raised> {
        if self.pattern.get(item) == Some(&b'^') {
            item += 1;
        }
        // A bracket right at the start is a member of the set.
        let mut first = true;
        loop {
            match self.pattern.get(item) {
                None => return Err(self.stack.fail("malformed pattern (missing ']')")),
                Some(b']') if !first => return Ok(item + 1),
                Some(b'%') => item += 2,
                Some(_) => item += 1,
            }
            first = false;
        }
    }

    fn matches_class(&self, byte: u8, item: usize, end: usize) -> bool {
        match self.pattern[item] {
            b'.' => true,
            b'%' => is_in_class(byte, self.pattern[item + 1]),
            b'[' => self.matches_set(byte, item, end - 1),
            literal => literal == byte,
        }
    }

    /// The set lies between the brackets at `item` and `end`.
    fn matches_set(&self, byte: u8, item: usize, end: usize) -> bool {
        let mut members = &self.pattern[item + 1..end];
        let negated = members.first() == Some(&b'^');
        if negated {
            members = &members[1..];
        }
        loop {
            members = match members {
                [] => return negated,
                [b'%', class, rest @ ..] => {
                    if is_in_class(byte, *class) {
                        return !negated;
                    }
                    rest
                }
                [low, b'-', high, rest @ ..] => {
                    if (*low..=*high).contains(&byte) {
                        return !negated;
                    }
                    rest
                }
                [member, rest @ ..] => {
                    if *member == byte {
                        return !negated;
                    }
                    rest
                }
            };
        }
    }

    /// Pushes one capture, or the whole match when there are none.
    fn push_capture(&self, number: usize, whole: (usize, usize)) -> Result<(), Raised> {
        match self.captures.get(number) {
            None if number == 0 => self.stack.push_bytes(&self.text[whole.0..whole.1]),
            None => return Err(self.stack.fail("invalid capture index")),
            Some(Capture::Open(_)) => return Err(self.stack.fail("unfinished capture")),
            Some(Capture::Closed(start, end)) => self.stack.push_bytes(&self.text[*start..*end]),
            Some(Capture::Position(at)) => self.stack.push_number((at + 1) as f64),
        }
        Ok(())
    }

    fn push_captures(&self, whole: Option<(usize, usize)>) -> Result<usize, Raised> {
        let count = if whole.is_some() {
            self.captures.len().max(1)
        } else {
            self.captures.len()
        };
        self.stack.ensure(count)?;
        for number in 0..count {
            self.push_capture(number, whole.unwrap_or((0, 0)))?;
        }
        Ok(count)
    }
}

enum Single {
    Next(usize, usize),
    Done(Option<usize>),
}

fn is_in_class(byte: u8, class: u8) -> bool {
    let inside = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | b'\t'..=b'\r'),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    inside != class.is_ascii_uppercase()
}

pub fn find(stack: &Stack<'_>) -> Outcome {
    search(stack, true)
}

pub fn match_(stack: &Stack<'_>) -> Outcome {
    search(stack, false)
}

fn search(stack: &Stack<'_>, is_find: bool) -> Outcome {
    let (text, pattern) = (stack.check_text(1)?, stack.check_text(2)?);
    let start = start_index(stack.optional_integer(3, 1)?, text.len());
    let is_plain =
        is_find && (stack.boolean(4) || !pattern.iter().any(|&byte| SPECIALS[usize::from(byte)]));
    if is_plain {
        return Ok(find_plain(stack, text, pattern, start));
    }
    let (pattern, anchored) = split_anchor(pattern);
    let mut matcher = Matcher::new(stack, text, pattern);
    for at in start..=text.len() {
        if let Some(end) = matcher.match_at(at)? {
            if !is_find {
                return matcher.push_captures(Some((at, end)));
            }
            stack.push_number((at + 1) as f64);
            stack.push_number(end as f64);
            return Ok(2 + matcher.push_captures(None)?);
        }
        if anchored {
            break;
        }
    }
    stack.push_nil();
    Ok(1)
}

fn split_anchor(pattern: &[u8]) -> (&[u8], bool) {
    pattern
        .strip_prefix(b"^")
        .map_or((pattern, false), |rest| (rest, true))
}

/// A place to start from, counted from 1 or from the end, as an offset within the text.
fn start_index(index: i64, len: usize) -> usize {
    let index = if index < 0 {
        index.saturating_add(len as i64 + 1)
    } else {
        index
    };
    usize::try_from(index.saturating_sub(1))
        .unwrap_or(0)
        .min(len)
}

fn find_plain(stack: &Stack<'_>, text: &[u8], pattern: &[u8], start: usize) -> usize {
    if let Some(at) = memchr::memmem::find(&text[start..], pattern) {
        stack.push_number((start + at + 1) as f64);
        stack.push_number((start + at + pattern.len()) as f64);
        2
    } else {
        stack.push_nil();
        1
    }
}

/// The iterator keeps the text, the pattern and where to go on.
pub fn gmatch(stack: &Stack<'_>) -> Outcome {
    stack.check_text(1)?;
    stack.check_text(2)?;
    stack.set_top(2);
    stack.push_table(1, 0);
    stack.push_closure(gmatch_next, 3);
    Ok(1)
}

fn gmatch_next(stack: &Stack<'_>) -> Outcome {
    let text = stack.bytes(stack.kept(1)).unwrap_or_default();
    let pattern = stack.bytes(stack.kept(2)).unwrap_or_default();
    stack.raw_get_index(stack.kept(3), 1);
    let from = stack.number(-1).unwrap_or_default() as usize;
    let mut matcher = Matcher::new(stack, text, pattern);
    for at in from..=text.len() {
        if let Some(end) = matcher.match_at(at)? {
            let next = if end == at { end + 1 } else { end };
            stack.push_number(next as f64);
            stack.raw_set_index(stack.kept(3), 1);
            return matcher.push_captures(Some((at, end)));
        }
    }
    Ok(0)
}

pub fn gsub(stack: &Stack<'_>) -> Outcome {
    let (text, pattern) = (stack.check_text(1)?, stack.check_text(2)?);
    let kind = stack.type_of(3);
    if !matches!(
        kind,
        Type::String | Type::Number | Type::Function | Type::Table
    ) {
        return Err(stack.bad_argument(3, "string/function/table expected"));
    }
    // The references' counter has 32 bits.
    let limit = stack.optional_integer(4, text.len() as i64 + 1)? as i32;
    let (pattern, anchored) = split_anchor(pattern);
    let mut matcher = Matcher::new(stack, text, pattern);
    let (mut out, mut at, mut count) = (Vec::new(), 0, 0);
    while count < limit {
        let found = matcher.match_at(at)?;
        if let Some(end) = found {
            count += 1;
            add_value(&matcher, kind, (at, end), &mut out)?;
            stack.check_memory(out.len())?;
        }
        match found {
            Some(end) if end > at => at = end,
            _ if at < text.len() => {
                out.push(text[at]);
                at += 1;
            }
            _ => break,
        }
        if anchored {
            break;
        }
    }
    out.extend_from_slice(&text[at..]);
    stack.push_bytes(&out);
    stack.push_number(f64::from(count));
    Ok(2)
}

/// Appends what the replacement, the third argument, makes of a match.
fn add_value(
    matcher: &Matcher<'_>,
    kind: Type,
    whole: (usize, usize),
    out: &mut Vec<u8>,
) -> Result<(), Raised> {
    let stack = matcher.stack;
    match kind {
        Type::Function => {
            stack.push_copy(3);
            let count = matcher.push_captures(Some(whole))?;
            stack.call(count, Some(1))?;
        }
        Type::Table => {
            matcher.push_capture(0, whole)?;
            index_table(stack)?;
        }
        _ => return add_text(matcher, whole, out),
    }
    if !stack.boolean(-1) {
        out.extend_from_slice(&matcher.text[whole.0..whole.1]);
    } else if let Some(value) = stack.text(-1) {
        out.extend_from_slice(value);
    } else {
        let kind = stack.type_of(-1).name();
        return Err(stack.fail(&format!("invalid replacement value (a {kind})")));
    }
    stack.pop(1);
    Ok(())
}

/// Replaces the key on top by its value in the third argument, metatable included.
fn index_table(stack: &Stack<'_>) -> Result<(), Raised> {
    if !stack.metatable(3) {
        stack.raw_get(3);
        return Ok(());
    }
    stack.pop(1);
    stack.push_native(get_through_metatable);
    stack.insert(-2);
    stack.push_copy(3);
    stack.insert(-2);
    stack.call(2, Some(1))
}

/// `table[key]` with at most a chain of tables and one function behind it.
fn get_through_metatable(stack: &Stack<'_>) -> Outcome {
    for _ in 0..100 {
        if stack.type_of(1) == Type::Table {
            stack.push_copy(2);
            stack.raw_get(1);
            if !stack.is_nil(-1) || !stack.metafield(1, "__index") {
                return Ok(1);
            }
        } else if !stack.metafield(1, "__index") {
            let kind = stack.type_of(1).name();
            return Err(stack.fail(&format!("attempt to index a {kind} value")));
        }
        if stack.type_of(-1) == Type::Function {
            stack.push_copy(1);
            stack.push_copy(2);
            stack.call(2, Some(1))?;
            return Ok(1);
        }
        stack.replace(1);
        stack.set_top(2);
    }
    Err(stack.fail("loop in gettable"))
}

/// A text replacement, in which `%1` stands for a capture.
fn add_text(matcher: &Matcher<'_>, whole: (usize, usize), out: &mut Vec<u8>) -> Result<(), Raised> {
    let stack = matcher.stack;
    let replacement = stack.text(3).unwrap_or_default();
    stack.spend(replacement.len() * 4)?;
    let mut bytes = replacement.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'0') => out.extend_from_slice(&matcher.text[whole.0..whole.1]),
            Some(digit @ b'1'..=b'9') => {
                matcher.push_capture(usize::from(digit - b'1'), whole)?;
                out.extend_from_slice(stack.text(-1).unwrap_or_default());
                stack.pop(1);
            }
            Some(&other) => out.push(other),
            None => out.push(0),
        }
    }
    Ok(())
}
