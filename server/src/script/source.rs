//! Makes `LuaJIT` read a source text as plain Lua 5.1 does.
//!
//! `LuaJIT` takes more than the language has: 64-bit and imaginary literals, `goto` and labels,
//! the escapes `\x`, `\u` and `\z`, letters beyond ASCII, a first line that begins with `#`.
//! Scripts must meet the same errors here as on the references, so those few places are
//! rewritten into something that `LuaJIT` refuses with the same words, or reads with the same
//! meaning.

use std::borrow::Cow;

use super::sandbox::SHORTCUTS;

/// A text for `LuaJIT`, and how to name the rewritten token in an error message.
pub struct Adapted<'a> {
    pub text: Cow<'a, [u8]>,
    disguise: Option<(Vec<u8>, Vec<u8>)>,
}

impl Adapted<'_> {
    /// The compiler's message in terms of the original text.
    pub fn restore(&self, message: &[u8]) -> Vec<u8> {
        let message = match message.strip_suffix(b"no loop to break") {
            Some(_) => [message, b" near '<eof>'"].concat(),
            None => message.to_vec(),
        };
        let mut message = replace_last(
            &message,
            b"invalid escape sequence near",
            b"escape sequence too large near",
        );
        for word in ["goto", "const", "continue"] {
            let (shown, original) = (format!("near '{word}_'"), format!("near '{word}'"));
            message = replace_last(&message, shown.as_bytes(), original.as_bytes());
        }
        if let Some((shown, original)) = &self.disguise {
            message = replace_last(&message, shown, original);
        }
        message
    }
}

fn replace_last(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    match memchr::memmem::rfind(text, from) {
        Some(at) => [&text[..at], to, &text[at + from.len()..]].concat(),
        None => text.to_vec(),
    }
}

/// Rewrites what `LuaJIT` would take and Lua 5.1 would not.
pub fn adapt(source: &[u8]) -> Adapted<'_> {
    Adapter::new(source, false).finish()
}

/// The same for a chunk of which only the first result counts, with its tail calls undone.
///
/// `LuaJIT` forgets the caller when a tail call leads to a native function, so an error raised
/// there could not name its line. A second result, nil, makes an ordinary call of it.
pub fn adapt_chunk(source: &[u8]) -> Adapted<'_> {
    Adapter::new(source, true).finish()
}

/// As [`adapt_chunk`], for a script that uses its globals *plainly*: it reads them by name and
/// does nothing else with them, as far as its text shows. It never says `_G`, loads no text,
/// and neither assigns nor declares a name for which `is_shared`. Its calls of the server then
/// go by [`SHORTCUTS`]. None for any other script.
pub fn adapt_plain(source: &[u8], is_shared: impl Fn(&[u8]) -> bool) -> Option<Plain<'_>> {
    if source.first() == Some(&0x1B) {
        return None;
    }
    let mut adapter = Adapter::new(source, true);
    adapter.run();
    let Names {
        plain,
        only_reads_arguments,
        assigned,
        shortcuts,
        ..
    } = adapter.names;
    if !plain || adapter.disguise.is_some() || assigned.iter().any(|name| is_shared(name)) {
        return None;
    }
    adapter.edits.extend(shortcuts);
    adapter.edits.sort_by_key(|edit| edit.at);
    Some(Plain {
        text: apply(source, &adapter.edits),
        only_reads_arguments,
    })
}

/// A plain script.
pub struct Plain<'a> {
    pub text: Cow<'a, [u8]>,
    /// It reads elements of `KEYS` and `ARGV` and their numbers, but neither changes the tables
    /// nor gives them to anybody else.
    pub only_reads_arguments: bool,
}

/// What a text does with names that are no fields.
struct Names<'a> {
    plain: bool,
    only_reads_arguments: bool,
    /// Those that it may assign or declare: each that a function is given as its name, or that
    /// an equals sign or a comma follows.
    assigned: Vec<&'a [u8]>,
    /// Calls of the server to be shortened.
    shortcuts: Vec<Edit>,
    /// The last token, if it was a name that is no field.
    last: Option<&'a [u8]>,
    /// The last token was the dot or the colon before a field, or `function`.
    before_field: bool,
    after_function: bool,
    /// An expression must follow the last token, if it was this or a word.
    expression_after: Option<u8>,
    /// Whether what a comma parts are values, rather than what an assignment is made to; with
    /// the same of the brackets that are open around.
    values: bool,
    outer_values: Vec<bool>,
    /// The last tokens were `unpack(`.
    unpacking: bool,
}

impl<'a> Names<'a> {
    fn word(&mut self, source: &'a [u8], at: usize, word: &'a [u8]) {
        let (field, named) = (self.before_field, self.after_function);
        let (expression_after, unpacking) = (self.expression_after, self.unpacking);
        self.other();
        self.after_function = word == b"function";
        if field {
            return;
        }
        if KEYWORDS.contains(&word) {
            return self.keyword(word);
        }
        if expression_after.is_none() {
            // A statement begins.
            self.values = false;
        }
        self.last = Some(word);
        let next = source.get(at + word.len());
        match word {
            b"KEYS" | b"ARGV" => {
                let read = match expression_after {
                    Some(b'#') => true,
                    Some(b'(') if unpacking => true,
                    Some(b',') => self.values && next == Some(&b'['),
                    Some(_) => next == Some(&b'['),
                    None => false,
                };
                self.only_reads_arguments &= read;
            }
            b"unpack" => self.only_reads_arguments &= next == Some(&b'(') && !named,
            _ => {}
        }
        if named {
            self.assigned.push(word);
        }
        match word {
            b"redis" | b"server" => {
                let rest = &source[at + word.len()..];
                self.plain &= rest.first() == Some(&b'.');
                if !named {
                    self.shortcuts.extend(shortcut(at, word.len(), rest));
                }
            }
            b"_G" | b"load" | b"loadstring" | b"getfenv" | b"setfenv" => self.plain = false,
            _ if word.starts_with(b"__khoa") => self.plain = false,
            _ => {}
        }
    }

    fn keyword(&mut self, word: &[u8]) {
        let within_expression: [&[u8]; 6] = [b"and", b"or", b"not", b"nil", b"true", b"false"];
        if !within_expression.contains(&word) {
            self.values = matches!(word, b"return" | b"in");
        }
        let before_expression: [&[u8]; 9] = [
            b"return", b"in", b"and", b"or", b"not", b"if", b"elseif", b"while", b"until",
        ];
        if before_expression.contains(&word) {
            self.expression_after = Some(b' ');
        }
    }

    fn punctuation(&mut self, before: u8, byte: u8, next: u8) {
        if let Some(name) = self.last
            && (byte == b',' || byte == b'=' && next != b'=')
        {
            self.assigned.push(name);
        }
        let unpacking = byte == b'(' && self.last == Some(b"unpack");
        self.other();
        self.unpacking = unpacking;
        match byte {
            b'(' | b'[' | b'{' => self
                .outer_values
                .push(std::mem::replace(&mut self.values, true)),
            b')' | b']' | b'}' => self.values = self.outer_values.pop().unwrap_or(false),
            b'=' if next != b'=' && before != b'=' => self.values = true,
            b';' => self.values = false,
            _ => {}
        }
        if b"=<>+-*/%^.([{,#".contains(&byte) {
            self.expression_after = Some(byte);
        }
        self.before_field = matches!(byte, b'.' | b':');
    }

    /// A token of another kind.
    fn other(&mut self) {
        self.last = None;
        self.before_field = false;
        self.after_function = false;
        self.expression_after = None;
        self.unpacking = false;
    }
}

/// The edit that shortens `redis.call(`, given what follows the table's name.
fn shortcut(at: usize, table: usize, rest: &[u8]) -> Option<Edit> {
    let field = rest.get(1..)?;
    let len = word_len(field);
    let called = field[len..].trim_ascii_start().first() == Some(&b'(');
    let (_, short) = SHORTCUTS
        .iter()
        .find(|(name, _)| called && name.as_bytes() == &field[..len])?;
    Some(Edit {
        at,
        len: table + 1 + len,
        text: short.as_bytes().to_vec(),
    })
}

struct Adapter<'a> {
    source: &'a [u8],
    at: usize,
    edits: Vec<Edit>,
    names: Names<'a>,
    disguise: Option<(Vec<u8>, Vec<u8>)>,
    undo_tail_calls: bool,
    /// Where the last token ended.
    last_end: usize,
    /// The open blocks; for each whether it is a function's body.
    blocks: Vec<bool>,
    /// How many of them are.
    functions: usize,
    braces: usize,
    parens: usize,
    /// Calls of natives that a function ends with, innermost last.
    last_calls: Vec<LastCall>,
    /// The `return` of the chunk itself that is being read: how many blocks and braces are
    /// open around it, and where it stands.
    returning: Option<(usize, usize, usize)>,
}

impl<'a> Adapter<'a> {
    fn new(source: &'a [u8], undo_tail_calls: bool) -> Adapter<'a> {
        Adapter {
            source,
            at: 0,
            edits: Vec::new(),
            names: Names {
                plain: true,
                only_reads_arguments: true,
                assigned: Vec::new(),
                shortcuts: Vec::new(),
                last: None,
                before_field: false,
                after_function: false,
                expression_after: None,
                values: false,
                outer_values: Vec::new(),
                unpacking: false,
            },
            disguise: None,
            undo_tail_calls,
            last_end: 0,
            blocks: Vec::new(),
            functions: 0,
            braces: 0,
            parens: 0,
            last_calls: Vec::new(),
            returning: None,
        }
    }

    fn finish(mut self) -> Adapted<'a> {
        // LuaJIT skips these; Lua 5.1 stumbles over them.
        if self.source.first() == Some(&b'#') || self.source.starts_with(b"\xEF\xBB\xBF") {
            self.insert(0, b" ");
        }
        self.run();
        self.edits.sort_by_key(|edit| edit.at);
        Adapted {
            text: apply(self.source, &self.edits),
            disguise: self.disguise,
        }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.source.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Writes something else for the next `len` bytes and goes past them.
    fn substitute(&mut self, len: usize, text: &[u8]) {
        self.edits.push(Edit {
            at: self.at,
            len,
            text: text.to_vec(),
        });
        self.at += len;
    }

    fn insert(&mut self, at: usize, text: &[u8]) {
        self.edits.push(Edit {
            at,
            len: 0,
            text: text.to_vec(),
        });
    }

    /// Goes on until the end, or until the first token that is sure to be refused.
    fn run(&mut self) {
        while self.at < self.source.len() && self.disguise.is_none() {
            match (self.peek(0), self.peek(1)) {
                (b'-', b'-') => {
                    self.comment();
                    continue;
                }
                (b' ' | b'\t'..=b'\r', _) => {
                    self.at += 1;
                    continue;
                }
                (b'[', b'[' | b'=') if self.long_bracket() => self.names.other(),
                (b'"' | b'\'', _) => {
                    self.names.other();
                    self.string();
                }
                (b'0'..=b'9', _) | (b'.', b'0'..=b'9') => {
                    self.names.other();
                    self.number();
                }
                (b'a'..=b'z' | b'A'..=b'Z' | b'_', _) => self.word(),
                (b':', b':') => self.substitute(2, b": :"),
                (b'<', b'<') => self.substitute(2, b"< <"),
                (b'>', b'>') => self.substitute(2, b"> >"),
                (b'-', b'>') => self.substitute(2, b"- >"),
                (b'~', b'=') => {
                    self.names.punctuation(0, b'<', 0);
                    self.at += 2;
                }
                (byte @ (b'+' | b'-' | b'*' | b'/' | b'%' | b'^'), _) if self.is_assignment() => {
                    self.disguise(1, &[byte]);
                }
                (b'.', b'.') if self.is_assignment() => self.disguise(2, b".."),
                (b'.', b'.') => self.dots(),
                (byte @ (0x80.. | b'!' | b'~' | b'&' | b'|' | b'?'), _) => {
                    self.disguise(1, &[byte]);
                }
                (byte, _) => self.punctuation(byte),
            }
            self.last_end = self.at;
        }
        self.end_return();
    }

    /// Two dots join; three are the arguments of a function that takes any number of them.
    fn dots(&mut self) {
        let three = self.peek(2) == b'.';
        if three {
            self.names.other();
        } else {
            self.names.punctuation(0, b'+', 0);
        }
        self.at += if three { 3 } else { 2 };
    }

    /// Puts a character that no Lua knows in the place of a token that only `LuaJIT` does.
    fn disguise(&mut self, len: usize, token: &[u8]) {
        let original = [b"near '", token, b"'"].concat();
        self.disguise = Some((b"near '`'".to_vec(), original));
        self.substitute(len, b"`");
    }

    fn punctuation(&mut self, byte: u8) {
        let before = self.at.checked_sub(1).map_or(0, |at| self.source[at]);
        self.names.punctuation(before, byte, self.peek(1));
        match byte {
            b'(' => self.parens += 1,
            b')' => self.close_paren(),
            b'{' => self.braces += 1,
            b'}' => self.braces = self.braces.saturating_sub(1),
            b';' if self
                .returning
                .is_some_and(|(_, braces, _)| braces == self.braces) =>
            {
                self.end_return();
            }
            _ => {}
        }
        self.at += 1;
    }

    /// Keeps account of blocks, to know which `return` is the chunk's own and where it ends.
    fn keyword(&mut self, word: &[u8]) {
        let ends_block = matches!(word, b"end" | b"else" | b"elseif" | b"until");
        if ends_block {
            self.end_last_call();
        }
        if ends_block
            && self
                .returning
                .is_some_and(|(blocks, ..)| blocks == self.blocks.len())
        {
            self.end_return();
        }
        match word {
            b"function" => {
                self.blocks.push(true);
                self.functions += 1;
            }
            b"do" | b"if" | b"repeat" => self.blocks.push(false),
            b"end" | b"until" => {
                let is_function = self.blocks.pop() == Some(true);
                self.functions -= usize::from(is_function);
            }
            b"return" => self.begin_return(self.at + word.len()),
            _ => {}
        }
    }

    /// A `return` whose expression begins at a place.
    fn begin_return(&mut self, start: usize) {
        if self.functions == 0 {
            self.returning = Some((self.blocks.len(), self.braces, start));
        } else if self.undo_tail_calls && calls_native(&self.source[start..]) {
            let (blocks, braces, parens) = (self.blocks.len(), self.braces, self.parens);
            self.last_calls.push(LastCall {
                start,
                blocks,
                braces,
                parens,
                end: None,
            });
        }
    }

    fn close_paren(&mut self) {
        self.parens = self.parens.saturating_sub(1);
        if let Some(call) = self.last_calls.last_mut()
            && call.parens == self.parens
            && call.end.is_none()
        {
            call.end = Some(self.at + 1);
        }
    }

    /// A native that returns one value gives the same in parentheses, but not as a tail call.
    fn end_last_call(&mut self) {
        let (blocks, braces, parens) = (self.blocks.len(), self.braces, self.parens);
        let is_over = |call: &mut LastCall| {
            call.blocks == blocks && call.braces == braces && call.parens == parens
        };
        let Some(call) = self.last_calls.pop_if(is_over) else {
            return;
        };
        if call.end == Some(self.last_end) && self.disguise.is_none() {
            self.insert(call.start, b"(");
            self.insert(self.last_end, b")");
        }
    }

    /// A call at the end of the returned expression, which only these characters can close,
    /// gets company.
    fn end_return(&mut self) {
        let Some((_, _, start)) = self.returning.take() else {
            return;
        };
        let ends = self.last_end > start
            && matches!(
                self.source[self.last_end - 1],
                b')' | b'}' | b'"' | b'\'' | b']'
            );
        if self.undo_tail_calls && ends && self.disguise.is_none() {
            self.insert(self.last_end, b",nil");
        }
    }

    fn comment(&mut self) {
        self.at += 2;
        if self.peek(0) == b'[' && self.long_bracket() {
            return;
        }
        let rest = &self.source[self.at..];
        self.at += memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
    }

    /// Goes past `[[…]]` or `[=[…]=]`; says no, and stays, when no long bracket begins here.
    fn long_bracket(&mut self) -> bool {
        let rest = &self.source[self.at + 1..];
        let level = rest.iter().take_while(|&&byte| byte == b'=').count();
        if rest.get(level) != Some(&b'[') {
            return false;
        }
        let end = [b"]", "=".repeat(level).as_bytes(), b"]"].concat();
        let body = &rest[level + 1..];
        let len = memchr::memmem::find(body, &end).map_or(body.len(), |found| found + end.len());
        self.at += 1 + level + 1 + len;
        true
    }

    fn string(&mut self) {
        let quote = self.peek(0);
        self.at += 1;
        while self.at < self.source.len() {
            match self.peek(0) {
                b'\\' => self.escape(),
                b'\n' | b'\r' => return,
                byte => {
                    self.at += 1;
                    if byte == quote {
                        return;
                    }
                }
            }
        }
    }

    /// Any other character stands for itself in Lua 5.1.
    fn escape(&mut self) {
        match self.peek(1) {
            b'a'
            | b'b'
            | b'f'
            | b'n'
            | b'r'
            | b't'
            | b'v'
            | b'\\'
            | b'"'
            | b'\''
            | b'\n'
            | b'0'..=b'9' => self.at += 2,
            b'\r' => self.at += 2 + usize::from(self.peek(2) == b'\n'),
            _ if self.at + 1 >= self.source.len() => self.at += 1,
            _ => {
                self.substitute(1, b"");
                self.at += 1;
            }
        }
    }

    fn number(&mut self) {
        let rest = &self.source[self.at..];
        let mut len = rest
            .iter()
            .take_while(|byte| byte.is_ascii_digit() || **byte == b'.')
            .count();
        if matches!(rest.get(len), Some(b'e' | b'E')) {
            len += 1;
            len += usize::from(matches!(rest.get(len), Some(b'+' | b'-')));
        }
        let is_word = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
        len += rest[len..].iter().take_while(is_word).count();
        let token = &rest[..len];
        if super::numbers::parse(token).is_some() {
            self.at += len;
            return;
        }
        // LuaJIT has more forms of numbers, but this is none of them.
        let token = token.to_vec();
        self.substitute(len, b"1zz ");
        self.disguise = Some((b"1zz".to_vec(), token));
    }

    fn word(&mut self) {
        let rest = &self.source[self.at..];
        let len = word_len(rest);
        let word = &rest[..len];
        if matches!(word, b"goto" | b"const" | b"continue") && self.is_statement(word) {
            // As a name, which it is in Lua 5.1, it is refused for what follows.
            self.substitute(len, &[word, b"_"].concat());
            return;
        }
        self.names.word(self.source, self.at, word);
        self.keyword(word);
        self.at += len;
    }
}

/// Text in the place of some of the source.
struct Edit {
    at: usize,
    len: usize,
    text: Vec<u8>,
}

/// Makes the edits, which are in order and apart from each other.
fn apply<'a>(source: &'a [u8], edits: &[Edit]) -> Cow<'a, [u8]> {
    if edits.is_empty() {
        return Cow::Borrowed(source);
    }
    let (mut out, mut copied) = (Vec::with_capacity(source.len() + 16), 0);
    for edit in edits {
        out.extend_from_slice(&source[copied..edit.at]);
        out.extend_from_slice(&edit.text);
        copied = edit.at + edit.len;
    }
    out.extend_from_slice(&source[copied..]);
    Cow::Owned(out)
}

/// A call of a native at the end of a function.
struct LastCall {
    /// Where its expression begins, right behind `return`.
    start: usize,
    /// What is open around it.
    blocks: usize,
    braces: usize,
    parens: usize,
    /// Where its argument list ends.
    end: Option<usize>,
}

/// Does an expression begin with the call of a native that returns exactly one value?
fn calls_native(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    let is_path = |byte: &&u8| is_word(**byte) || **byte == b'.';
    // None of them has a longer name.
    let len = text.iter().take(40).take_while(is_path).count();
    let (path, rest) = text.split_at(len);
    let one_value = match path.iter().position(|&byte| byte == b'.') {
        Some(dot) => matches!(
            &path[..dot],
            b"redis" | b"server" | b"cjson" | b"bit" | b"math"
        ),
        None => matches!(path, b"tonumber" | b"tostring" | b"error"),
    };
    // These two of `math` return two values.
    let two = matches!(path, b"math.frexp" | b"math.modf");
    one_value && !two && rest.trim_ascii_start().first() == Some(&b'(')
}

impl Adapter<'_> {
    /// Would `LuaJIT` take the word at hand for the beginning of a statement of its own?
    fn is_statement(&self, word: &[u8]) -> bool {
        let rest = self.source[self.at + word.len()..].trim_ascii_start();
        let next = &rest[..word_len(rest)];
        let leads_on = match word {
            b"continue" => rest.is_empty() || rest[0] == b';' || !next.is_empty(),
            _ => !next.is_empty() && !KEYWORDS.contains(&next),
        };
        leads_on && self.begins_statement()
    }

    /// Could a statement begin behind the last token?
    fn begins_statement(&self) -> bool {
        let before = &self.source[..self.last_end];
        let start = before
            .iter()
            .rposition(|byte| !is_word(*byte))
            .map_or(0, |at| at + 1);
        match &before[start..] {
            b"" => before.last().is_none_or(|byte| b")]};\"'".contains(byte)),
            word => !matches!(
                word,
                b"return"
                    | b"and"
                    | b"or"
                    | b"not"
                    | b"local"
                    | b"function"
                    | b"in"
                    | b"if"
                    | b"while"
                    | b"until"
                    | b"elseif"
                    | b"for"
            ),
        }
    }

    /// `+=` and its like.
    fn is_assignment(&self) -> bool {
        let len = if self.peek(0) == b'.' { 2 } else { 1 };
        let rest = self.source[self.at + len..].trim_ascii_start();
        rest.first() == Some(&b'=') && rest.get(1) != Some(&b'=')
    }
}

const KEYWORDS: [&[u8]; 21] = [
    b"and",
    b"break",
    b"do",
    b"else",
    b"elseif",
    b"end",
    b"false",
    b"for",
    b"function",
    b"if",
    b"in",
    b"local",
    b"nil",
    b"not",
    b"or",
    b"repeat",
    b"return",
    b"then",
    b"true",
    b"until",
    b"while",
];

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn word_len(text: &[u8]) -> usize {
    text.iter().take_while(|byte| is_word(**byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: &str) {
        assert_eq!(
            String::from_utf8_lossy(&adapt(source.as_bytes()).text),
            expected
        );
    }

    #[test]
    fn plain_lua_is_left_as_it_is() {
        for source in [
            "return redis.call('GET', KEYS[1])",
            "local a = 0x10 + 1e-5 .. '\\065\\n' --[[ 1LL \\x ]] -- é",
            "return [==[ \\x41 ]] goto a ]==], \"é\"",
            "local goto = 1 return goto",
            "return a[b[1]]",
            "return a..1.5 ...2",
        ] {
            assert!(
                matches!(adapt(source.as_bytes()).text, Cow::Borrowed(_)),
                "{source}"
            );
        }
    }

    #[test]
    fn the_chunks_own_tail_calls_are_undone() {
        for (source, expected) in [
            ("return f(x)", "return f(x),nil"),
            ("return f'x' -- )", "return f'x',nil -- )"),
            (
                "if a then return f{1;2}; else return end",
                "if a then return f{1;2},nil; else return end",
            ),
            (
                "local function g() return f() end return g()",
                "local function g() return f() end return g(),nil",
            ),
            (
                "return function() return f() end",
                "return function() return f() end",
            ),
            (
                "for i=1,2 do return f(function() return 1 end) end",
                "for i=1,2 do return f(function() return 1 end),nil end",
            ),
            ("return 1", "return 1"),
            (
                "local f = function() return redis.call('a', (1)) end",
                "local f = function() return( redis.call('a', (1))) end",
            ),
            (
                "local function f() return tonumber(x), 1 end",
                "local function f() return tonumber(x), 1 end",
            ),
            (
                "local function f() return redis.call(x).ok() end",
                "local function f() return redis.call(x).ok() end",
            ),
        ] {
            let adapted = adapt_chunk(source.as_bytes());
            assert_eq!(String::from_utf8_lossy(&adapted.text), expected);
        }
    }

    #[test]
    fn a_plain_script_calls_the_server_by_a_shortcut() {
        let is_shared = |name: &[u8]| matches!(name, b"KEYS" | b"tonumber");
        let plain = |source: &str| {
            adapt_plain(source.as_bytes(), is_shared)
                .map(|plain| String::from_utf8_lossy(&plain.text).into_owned())
        };
        for (source, expected) in [
            (
                "if redis.call('get',KEYS[1]) == 1 then return server.pcall ('x') end",
                "if __khoa_call('get',KEYS[1]) == 1 then return __khoa_pcall ('x'),nil end",
            ),
            (
                "local rcall = redis.call return rcall(x.redis, 'redis.call(')",
                "local rcall = redis.call return rcall(x.redis, 'redis.call('),nil",
            ),
            (
                "local a = 'x'..redis.call'y' t.KEYS, t.tonumber = 1, 2",
                "local a = 'x'..redis.call'y' t.KEYS, t.tonumber = 1, 2",
            ),
            ("redis.call = 1", "redis.call = 1"),
            ("function redis.call() end", "function redis.call() end"),
            ("return KEYS[1] == 1", "return KEYS[1] == 1"),
        ] {
            assert_eq!(plain(source).as_deref(), Some(expected), "{source}");
        }
        for source in [
            "KEYS = 1",
            "a, KEYS = 1, 2",
            "KEYS, a = 1, 2",
            "KEYS--[[c]]--[=[d]=]\n= 1",
            "function KEYS() end",
            "local function tonumber() end",
            "local redis = 1",
            "local f = function(redis) return redis.call(1) end",
            "local r = redis return r.call(1)",
            "return redis--[[]].call(1)",
            "return _G.redis",
            "return 'x'.._G.redis",
            "return loadstring('KEYS = 1')()",
            "return 'x'..load(f)()",
            "return __khoa_call('x')",
            "return a ! b",
            "\x1bLua",
        ] {
            assert_eq!(plain(source), None, "{source}");
        }
    }

    #[test]
    fn a_script_that_only_reads_its_arguments_is_known_by_its_text() {
        let only_reads = |source: &str| {
            adapt_plain(source.as_bytes(), |_| false)
                .expect("it is plain")
                .only_reads_arguments
        };
        for source in [
            "return KEYS[1]",
            "if redis.call('get', KEYS[1]) == ARGV[1] then return #KEYS + #ARGV end",
            "local a, b = KEYS[1], ARGV[2] f(a, KEYS[3], b) return {1, KEYS[1], x = ARGV[1]}",
            "redis.call('del', unpack(KEYS)) for i = 1, #KEYS do f(KEYS[i], ARGV[i]) end",
            "for i = ARGV[1], ARGV[2] do local x = -ARGV[i] end return KEYS[1], KEYS[2]",
            "a, b = 1, KEYS[1]; while ARGV[1] ~= ARGV[2] do t.ARGV = 1 end",
            "return f(nil, KEYS[1], true and x, ARGV[1], ..., ARGV[2])",
            "repeat x = y(KEYS[1]) until not KEYS[2] or KEYS[3] .. ARGV[1] < ARGV[2]",
        ] {
            assert!(only_reads(source), "{source}");
        }
        for source in [
            "KEYS[1] = 2",
            "local a = b KEYS[1] = 2",
            "local a = b KEYS[1], x = 2, 3",
            "local a = b x, KEYS[1] = 2, 3",
            "local a = b x, KEYS[1], y = 2, 3, 4",
            "if a then KEYS[1] = 2 end",
            "for i = 1, 2 do KEYS[i] = 2 end",
            "return function() KEYS[1] = 2 end",
            "pcall(function() x, KEYS[1], y = 1, 2, 3 end)",
            "pcall(function() (a).x, KEYS[1] = 1, 2 end)",
            "local a = ... KEYS[1] = 2",
            "local a = nil x, KEYS[1] = 2, 3",
            "local a = b; (a).x, KEYS[1] = 1, 2",
            "if x then (a).x, KEYS[1] = 1, 2 end",
            "local t = {f = function() x, KEYS[1] = 1, 2 end}",
            "x[1], KEYS[1] = 1, 2",
            "KEYS.x = 1",
            "local k = KEYS",
            "f(KEYS)",
            "return KEYS",
            "return {KEYS}",
            "setmetatable(KEYS, {})",
            "for _, k in ipairs(KEYS) do f(k) end",
            "local function unpack(t) t[1] = 2 end unpack(KEYS)",
            "local f = function(unpack) unpack(KEYS) end",
            "for unpack in f do unpack(KEYS) end",
            "(KEYS)[1] = 2",
            "KEYS --[[c]] [1] = 2",
            "return KEYS:x()",
        ] {
            assert!(!only_reads(source), "{source}");
        }
    }

    #[test]
    fn escapes_beyond_the_language_stand_for_themselves() {
        check(r#"return "\x41\u{41}\q\\x""#, r#"return "x41u{41}q\\x""#);
    }

    #[test]
    fn tokens_beyond_the_language_are_refused_in_its_words() {
        check("goto a ::a::", "goto_ a : :a: :");
        let adapted = adapt(b"return 1LL");
        let message = adapted.restore(b"user_script:1: malformed number near '1zz'");
        assert_eq!(message, b"user_script:1: malformed number near '1LL'");
        let adapted = adapt("local é=1".as_bytes());
        let message = adapted.restore(b"user_script:1: '<name>' expected near '`'");
        assert_eq!(message, b"user_script:1: '<name>' expected near '\xC3'");
        check("x += 1", "x `= 1");
        check("const x = 1", "const_ x = 1");
        check("while 1 do continue end", "while 1 do continue_ end");
        check(
            "local continue = 1 return continue",
            "local continue = 1 return continue",
        );
        check(
            "if const then goto = const end",
            "if const then goto = const end",
        );
        check("#x", " #x");
        check("return a<<b, c->d", "return a< <b, c- >d");
        for operator in ["!", "~", "&", "|", "?"] {
            check(&format!("return a {operator} b ~= c"), "return a ` b ~= c");
        }
    }
}
