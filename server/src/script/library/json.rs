//! `cjson`: JSON as the references read and write it.

use std::cell::Cell;

use super::add_natives;
use crate::script::{
    convert::c_string,
    lua::{Outcome, Raised, Stack, Type},
    numbers,
};

/// The reader and the writer are recursive, so settings cannot go beyond this.
const DEPTH_HARD_MAX: i64 = 1000;

/// The settings of one `cjson` table.
#[derive(Clone, Copy)]
pub struct Options {
    sparse_convert: bool,
    sparse_ratio: i64,
    sparse_safe: i64,
    encode_max_depth: i64,
    decode_max_depth: i64,
    precision: i64,
    keep_buffer: bool,
    encode_invalid: Invalid,
    decode_invalid: bool,
}

/// What becomes of a number that JSON does not have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Invalid {
    Refuse,
    Write,
    Null,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_max_depth: 1000,
            decode_max_depth: 1000,
            precision: 14,
            keep_buffer: true,
            encode_invalid: Invalid::Refuse,
            decode_invalid: true,
        }
    }
}

/// The settings of all `cjson` tables of a run; the first is the shared one's.
#[derive(Default)]
pub struct Settings {
    all: std::cell::RefCell<Vec<Options>>,
    changed: Cell<bool>,
}

impl Settings {
    /// Forgets what a run changed, so that the next one finds the defaults.
    pub fn reset(&self) {
        if self.changed.replace(false) {
            self.all.borrow_mut().clear();
        }
    }

    fn get(&self, number: usize) -> Options {
        self.all.borrow().get(number).copied().unwrap_or_default()
    }

    fn set(&self, number: usize, options: Options) {
        let mut all = self.all.borrow_mut();
        if all.len() <= number {
            all.resize(number + 1, Options::default());
        }
        all[number] = options;
        self.changed.set(true);
    }

    /// A new table's number.
    fn add(&self) -> usize {
        let number = self.all.borrow().len().max(1);
        self.set(number, Options::default());
        number
    }
}

pub fn open(stack: &Stack<'_>, _original: i32, table: i32) {
    fill(stack, table, 0);
}

/// Adds the functions of the settings of a number.
fn fill(stack: &Stack<'_>, table: i32, number: usize) {
    macro_rules! add {
        ($($name:literal => $native:path),* $(,)?) => {$(
            stack.push_number(number as f64);
            stack.push_closure($native, 1);
            stack.raw_set_field(table, $name);
        )*};
    }
    add!(
        "decode" => decode,
        "decode_invalid_numbers" => decode_invalid_numbers,
        "decode_max_depth" => decode_max_depth,
        "encode" => encode,
        "encode_invalid_numbers" => encode_invalid_numbers,
        "encode_keep_buffer" => encode_keep_buffer,
        "encode_max_depth" => encode_max_depth,
        "encode_number_precision" => encode_number_precision,
        "encode_sparse_array" => encode_sparse_array,
    );
    add_natives!(stack, table, { "new" => new });
    stack.push_null_pointer();
    stack.raw_set_field(table, "null");
    stack.push_bytes(b"cjson");
    stack.raw_set_field(table, "_NAME");
    stack.push_bytes(b"2.1.0");
    stack.raw_set_field(table, "_VERSION");
}

fn new(stack: &Stack<'_>) -> Outcome {
    let number = stack.context().session.json.add();
    stack.push_table(0, 16);
    fill(stack, stack.absolute(-1), number);
    Ok(1)
}

fn options(stack: &Stack<'_>) -> (usize, Options) {
    let number = stack.number(stack.kept(1)).unwrap_or_default() as usize;
    (number, stack.context().session.json.get(number))
}

fn save(stack: &Stack<'_>, number: usize, options: Options) {
    stack.context().session.json.set(number, options);
}

// ---- Settings ----

fn check_count(stack: &Stack<'_>, most: usize) -> Result<(), Raised> {
    if stack.top() > most {
        return Err(stack.bad_argument(most + 1, "found too many arguments"));
    }
    Ok(())
}

/// Reads an optional integer setting and pushes what holds now.
fn integer_setting(
    stack: &Stack<'_>,
    argument: usize,
    value: &mut i64,
    least: i64,
    most: i64,
) -> Result<(), Raised> {
    if !stack.is_nil(argument as i32) {
        let given = i64::from(stack.check_integer(argument)? as i32);
        if given < least || given > most {
            let problem = format!("expected integer between {least} and {most}");
            return Err(stack.bad_argument(1, &problem));
        }
        *value = given;
    }
    Ok(())
}

/// Reads an optional boolean, which may also be given as `on` or `off`.
fn switch_setting(stack: &Stack<'_>, argument: usize, value: &mut bool) -> Result<(), Raised> {
    match stack.type_of(argument as i32) {
        Type::None | Type::Nil => {}
        Type::Boolean => *value = stack.boolean(argument as i32),
        _ => match stack.check_text(argument)? {
            b"on" => *value = true,
            b"off" => *value = false,
            other => return Err(invalid_option(stack, argument, other)),
        },
    }
    Ok(())
}

fn invalid_option(stack: &Stack<'_>, argument: usize, given: &[u8]) -> Raised {
    let problem = [b"invalid option '", c_string(given), b"'"].concat();
    stack.bad_argument_bytes(argument, &problem)
}

fn encode_max_depth(stack: &Stack<'_>) -> Outcome {
    check_count(stack, 1)?;
    let (number, mut options) = options(stack);
    integer_setting(
        stack,
        1,
        &mut options.encode_max_depth,
        1,
        i64::from(i32::MAX),
    )?;
    save(stack, number, options);
    stack.push_number(options.encode_max_depth as f64);
    Ok(1)
}

fn decode_max_depth(stack: &Stack<'_>) -> Outcome {
    check_count(stack, 1)?;
    let (number, mut options) = options(stack);
    integer_setting(
        stack,
        1,
        &mut options.decode_max_depth,
        1,
        i64::from(i32::MAX),
    )?;
    save(stack, number, options);
    stack.push_number(options.decode_max_depth as f64);
    Ok(1)
}

fn encode_number_precision(stack: &Stack<'_>) -> Outcome {
    check_count(stack, 1)?;
    let (number, mut options) = options(stack);
    integer_setting(stack, 1, &mut options.precision, 1, 14)?;
    save(stack, number, options);
    stack.push_number(options.precision as f64);
    Ok(1)
}

fn encode_keep_buffer(stack: &Stack<'_>) -> Outcome {
    check_count(stack, 1)?;
    let (number, mut options) = options(stack);
    switch_setting(stack, 1, &mut options.keep_buffer)?;
    save(stack, number, options);
    stack.push_boolean(options.keep_buffer);
    Ok(1)
}

fn decode_invalid_numbers(stack: &Stack<'_>) -> Outcome {
    check_count(stack, 1)?;
    let (number, mut options) = options(stack);
    switch_setting(stack, 1, &mut options.decode_invalid)?;
    save(stack, number, options);
    stack.push_boolean(options.decode_invalid);
    Ok(1)
}

fn encode_invalid_numbers(stack: &Stack<'_>) -> Outcome {
    check_count(stack, 1)?;
    let (number, mut options) = options(stack);
    if stack.bytes(1) == Some(b"null") {
        options.encode_invalid = Invalid::Null;
    } else {
        let mut write = options.encode_invalid == Invalid::Write;
        switch_setting(stack, 1, &mut write)?;
        if !stack.is_nil(1) {
            options.encode_invalid = if write {
                Invalid::Write
            } else {
                Invalid::Refuse
            };
        }
    }
    save(stack, number, options);
    match options.encode_invalid {
        Invalid::Null => stack.push_bytes(b"null"),
        other => stack.push_boolean(other == Invalid::Write),
    }
    Ok(1)
}

fn encode_sparse_array(stack: &Stack<'_>) -> Outcome {
    check_count(stack, 3)?;
    let (number, mut options) = options(stack);
    switch_setting(stack, 1, &mut options.sparse_convert)?;
    integer_setting(stack, 2, &mut options.sparse_ratio, 0, i64::from(i32::MAX))?;
    integer_setting(stack, 3, &mut options.sparse_safe, 0, i64::from(i32::MAX))?;
    save(stack, number, options);
    stack.push_boolean(options.sparse_convert);
    stack.push_number(options.sparse_ratio as f64);
    stack.push_number(options.sparse_safe as f64);
    Ok(3)
}

// ---- Writing ----

fn encode(stack: &Stack<'_>) -> Outcome {
    if stack.top() != 1 {
        return Err(stack.bad_argument(1, "expected 1 argument"));
    }
    let mut writer = Writer {
        stack,
        options: options(stack).1,
        out: Vec::new(),
        counted: 0,
    };
    writer.value(0)?;
    stack.push_bytes(&writer.out);
    Ok(1)
}

struct Writer<'a> {
    stack: &'a Stack<'a>,
    options: Options,
    out: Vec<u8>,
    /// How much of the output has been counted as work.
    counted: usize,
}

impl Writer<'_> {
    /// Writes the value on top of the stack and leaves it there.
    fn value(&mut self, depth: i64) -> Result<(), Raised> {
        self.count()?;
        let stack = self.stack;
        match stack.type_of(-1) {
            Type::String => write_string(stack.bytes(-1).unwrap_or_default(), &mut self.out),
            Type::Number => self.number(stack.number(-1).unwrap_or_default())?,
            Type::Boolean => {
                let text: &[u8] = if stack.boolean(-1) { b"true" } else { b"false" };
                self.out.extend_from_slice(text);
            }
            Type::Nil => self.out.extend_from_slice(b"null"),
            Type::LightUserdata if stack.is_null_pointer(-1) => {
                self.out.extend_from_slice(b"null");
            }
            Type::Table => self.table(depth + 1)?,
            kind => return Err(self.refuse(kind, "type not supported")),
        }
        Ok(())
    }

    /// Large results take time and memory, which one call must not take without a look.
    fn count(&mut self) -> Result<(), Raised> {
        self.stack.spend(32 + self.out.len() - self.counted)?;
        self.counted = self.out.len();
        self.stack.check_memory(self.out.len())
    }

    fn refuse(&self, kind: Type, problem: &str) -> Raised {
        self.stack
            .fail(&format!("Cannot serialise {}: {problem}", kind.name()))
    }

    fn number(&mut self, value: f64) -> Result<(), Raised> {
        if value.is_finite() {
            numbers::write_general(value, self.options.precision as u8, &mut self.out);
            return Ok(());
        }
        match self.options.encode_invalid {
            Invalid::Refuse => return Err(self.refuse(Type::Number, "must not be NaN or Inf")),
            Invalid::Null => self.out.extend_from_slice(b"null"),
            Invalid::Write if value.is_nan() => self.out.extend_from_slice(b"nan"),
            Invalid::Write => {
                let name = numbers::name_of_special(value).unwrap_or_default();
                self.out.extend_from_slice(name.as_bytes());
            }
        }
        Ok(())
    }

    fn table(&mut self, depth: i64) -> Result<(), Raised> {
        let most = self.options.encode_max_depth.min(DEPTH_HARD_MAX);
        if depth > most || !self.stack.has_room(4) {
            let message = format!("Cannot serialise, excessive nesting ({depth})");
            return Err(self.stack.fail(&message));
        }
        // What a proxy shows is what stands behind it.
        let real = crate::script::sandbox::push_real(self.stack, -1);
        match self.array_len()? {
            Some(len) => self.array(len, depth)?,
            None => self.object(depth)?,
        }
        self.stack.pop(usize::from(real));
        Ok(())
    }

    /// The length that the table has as an array; none for an object, such as an empty table.
    fn array_len(&self) -> Result<Option<i32>, Raised> {
        let stack = self.stack;
        let (mut longest, mut items) = (0_i64, 0_i64);
        stack.push_nil();
        while stack.next(-2) {
            let key = match stack.type_of(-2) {
                Type::Number => stack.number(-2).unwrap_or_default(),
                _ => 0.0,
            };
            stack.pop(1);
            if key < 1.0 || key.fract() != 0.0 || key > f64::from(i32::MAX) {
                stack.pop(1);
                return Ok(None);
            }
            longest = longest.max(key as i64);
            items += 1;
        }
        let options = &self.options;
        let sparse = options.sparse_ratio > 0
            && longest > items.saturating_mul(options.sparse_ratio)
            && longest > options.sparse_safe;
        if sparse && !options.sparse_convert {
            return Err(self.refuse(Type::Table, "excessively sparse array"));
        }
        Ok((longest > 0 && !sparse).then_some(longest as i32))
    }

    fn array(&mut self, len: i32, depth: i64) -> Result<(), Raised> {
        self.out.push(b'[');
        for index in 1..=len {
            if index > 1 {
                self.out.push(b',');
            }
            self.stack.raw_get_index(-1, index);
            self.value(depth)?;
            self.stack.pop(1);
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, depth: i64) -> Result<(), Raised> {
        let stack = self.stack;
        self.out.push(b'{');
        let mut first = true;
        stack.push_nil();
        while stack.next(-2) {
            if !std::mem::take(&mut first) {
                self.out.push(b',');
            }
            match stack.type_of(-2) {
                Type::Number => {
                    self.out.push(b'"');
                    self.number(stack.number(-2).unwrap_or_default())?;
                    self.out.push(b'"');
                }
                Type::String => write_string(stack.bytes(-2).unwrap_or_default(), &mut self.out),
                kind => return Err(self.refuse(kind, "table key must be a number or string")),
            }
            self.out.push(b':');
            self.value(depth)?;
            stack.pop(1);
        }
        self.out.push(b'}');
        Ok(())
    }
}

/// The bytes that are written as an escape.
const ESCAPED: [bool; 256] = {
    let (mut escaped, mut byte) = ([false; 256], 0);
    while byte < 256 {
        escaped[byte] = byte < 32 || matches!(byte as u8, b'"' | b'\\' | b'/' | 127);
        byte += 1;
    }
    escaped
};

fn write_string(mut text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    while let Some(plain) = text.iter().position(|&byte| ESCAPED[usize::from(byte)]) {
        out.extend_from_slice(&text[..plain]);
        write_escape(text[plain], out);
        text = &text[plain + 1..];
    }
    out.extend_from_slice(text);
    out.push(b'"');
}

fn write_escape(byte: u8, out: &mut Vec<u8>) {
    let letter = match byte {
        8 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        12 => b'f',
        b'\r' => b'r',
        0..=31 | 127 => {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            out.extend_from_slice(b"\\u00");
            out.push(DIGITS[usize::from(byte >> 4)]);
            out.push(DIGITS[usize::from(byte & 15)]);
            return;
        }
        byte => byte,
    };
    out.extend_from_slice(&[b'\\', letter]);
}

// ---- Reading ----

fn decode(stack: &Stack<'_>) -> Outcome {
    if stack.top() != 1 {
        return Err(stack.bad_argument(1, "expected 1 argument"));
    }
    let text = stack.check_text(1)?;
    if matches!(text, [0, _, ..] | [_, 0, ..]) {
        return Err(stack.fail("JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut reader = Reader {
        stack,
        options: options(stack).1,
        text,
        at: 0,
        start: 0,
    };
    let token = reader.token();
    reader.value(token, 0)?;
    match reader.token() {
        Token::End => Ok(1),
        other => Err(reader.unexpected("the end", &other)),
    }
}

enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Colon,
    Comma,
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    End,
    /// What is wrong, and where.
    Wrong(&'static str, usize),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::Text(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::End => "T_END",
            Token::Wrong(problem, _) => problem,
        }
    }
}

struct Reader<'a> {
    stack: &'a Stack<'a>,
    options: Options,
    text: &'a [u8],
    at: usize,
    /// Where the last token began.
    start: usize,
}

impl Reader<'_> {
    fn unexpected(&self, expected: &str, found: &Token) -> Raised {
        let at = match found {
            Token::Wrong(_, at) => *at,
            _ => self.start,
        };
        let (name, at) = (found.name(), at + 1);
        self.stack.fail(&format!(
            "Expected {expected} but found {name} at character {at}"
        ))
    }

    /// Pushes the value that begins with a token.
    fn value(&mut self, token: Token, depth: i64) -> Result<(), Raised> {
        self.stack.spend(64)?;
        self.stack.check_memory(0)?;
        match token {
            Token::Text(text) => self.stack.push_bytes(&text),
            Token::Number(value) => self.stack.push_number(value),
            Token::Boolean(value) => self.stack.push_boolean(value),
            Token::Null => self.stack.push_null_pointer(),
            Token::ObjectBegin => self.object(depth + 1)?,
            Token::ArrayBegin => self.array(depth + 1)?,
            other => return Err(self.unexpected("value", &other)),
        }
        Ok(())
    }

    fn check_depth(&self, depth: i64) -> Result<(), Raised> {
        let most = self.options.decode_max_depth.min(DEPTH_HARD_MAX);
        if depth <= most && self.stack.has_room(5) {
            return Ok(());
        }
        let at = self.at;
        self.stack.check_memory(0)?;
        let message = format!("Found too many nested data structures ({depth}) at character {at}");
        Err(self.stack.fail(&message))
    }

    fn object(&mut self, depth: i64) -> Result<(), Raised> {
        self.check_depth(depth)?;
        self.stack.push_table(0, 0);
        let mut token = self.token();
        if let Token::ObjectEnd = token {
            return Ok(());
        }
        loop {
            match token {
                Token::Text(key) => self.stack.push_bytes(&key),
                other => return Err(self.unexpected("object key string", &other)),
            }
            match self.token() {
                Token::Colon => {}
                other => return Err(self.unexpected("colon", &other)),
            }
            let value = self.token();
            self.value(value, depth)?;
            self.stack.raw_set(-3);
            match self.token() {
                Token::ObjectEnd => return Ok(()),
                Token::Comma => token = self.token(),
                other => return Err(self.unexpected("comma or object end", &other)),
            }
        }
    }

    fn array(&mut self, depth: i64) -> Result<(), Raised> {
        self.check_depth(depth)?;
        self.stack.push_table(0, 0);
        let mut token = self.token();
        if let Token::ArrayEnd = token {
            return Ok(());
        }
        for index in 1.. {
            self.value(token, depth)?;
            self.stack.raw_set_index(-2, index);
            match self.token() {
                Token::ArrayEnd => break,
                Token::Comma => token = self.token(),
                other => return Err(self.unexpected("comma or array end", &other)),
            }
        }
        Ok(())
    }

    fn token(&mut self) -> Token {
        let rest = &self.text[self.at..];
        let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += rest.iter().take_while(is_space).count();
        self.start = self.at;
        let rest = &self.text[self.at..];
        let Some(&byte) = rest.first() else {
            return Token::End;
        };
        let token = match byte {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b':' => Token::Colon,
            b',' => Token::Comma,
            0 => return Token::End,
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' => {
                if !self.options.decode_invalid && is_invalid_number(rest) {
                    return Token::Wrong("invalid number", self.start);
                }
                return self.number();
            }
            _ => return self.word(),
        };
        self.at += 1;
        token
    }

    fn word(&mut self) -> Token {
        let rest = &self.text[self.at..];
        let words = [
            (&b"true"[..], Token::Boolean(true)),
            (b"false", Token::Boolean(false)),
            (b"null", Token::Null),
        ];
        for (word, token) in words {
            if rest.starts_with(word) {
                self.at += word.len();
                return token;
            }
        }
        if self.options.decode_invalid && is_invalid_number(rest) {
            return self.number();
        }
        Token::Wrong("invalid token", self.start)
    }

    /// As much of the text as C's `strtod` takes.
    fn number(&mut self) -> Token {
        let rest = &self.text[self.at..];
        let len = number_len(rest);
        match numbers::parse(&rest[..len]) {
            Some(value) => {
                self.at += len;
                Token::Number(value)
            }
            None => Token::Wrong("invalid number", self.start),
        }
    }

    fn string(&mut self) -> Token {
        let mut out = Vec::new();
        self.at += 1;
        loop {
            let rest = &self.text[self.at..];
            let len = memchr::memchr3(b'"', b'\\', 0, rest).unwrap_or(rest.len());
            out.extend_from_slice(&rest[..len]);
            self.at += len;
            // A zero byte ends the text, as it does in C.
            if matches!(rest.get(len), None | Some(0)) {
                return Token::Wrong("unexpected end of string", self.at);
            }
            if rest[len] == b'"' {
                self.at += 1;
                return Token::Text(out);
            }
            let at = self.at;
            if let Err(problem) = self.escape(&mut out) {
                return Token::Wrong(problem, at);
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), &'static str> {
        const UNICODE: &str = "invalid unicode escape code";
        let byte = match self.text.get(self.at + 1) {
            Some(b'u') => {
                let first = self.code_unit(self.at).ok_or(UNICODE)?;
                let mut len = 6;
                let code = match first {
                    0xD800..=0xDBFF => {
                        let second = self.code_unit(self.at + 6).ok_or(UNICODE)?;
                        if !(0xDC00..=0xDFFF).contains(&second) {
                            return Err(UNICODE);
                        }
                        len = 12;
                        0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
                    }
                    code => code,
                };
                let letter = char::from_u32(code).ok_or(UNICODE)?;
                out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                self.at += len;
                return Ok(());
            }
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(&byte @ (b'"' | b'\\' | b'/')) => byte,
            _ => return Err("invalid escape code"),
        };
        out.push(byte);
        self.at += 2;
        Ok(())
    }

    /// The four digits of `\uXXXX` at a place.
    fn code_unit(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        digits.iter().try_fold(0, |code, digit| {
            Some(code * 16 + char::from(*digit).to_digit(16)?)
        })
    }
}

/// Numbers that C reads and JSON does not have.
fn is_invalid_number(text: &[u8]) -> bool {
    if text.first() == Some(&b'+') {
        return true;
    }
    let text = text.strip_prefix(b"-").unwrap_or(text);
    match text {
        [b'0', b'x' | b'X' | b'0'..=b'9', ..] => true,
        [first, ..] if *first <= b'9' => false,
        _ => ["inf", "nan"]
            .iter()
            .any(|word| starts_with_word(text, word)),
    }
}

fn starts_with_word(text: &[u8], word: &str) -> bool {
    text.get(..word.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
}

/// How many bytes C's `strtod` would take.
fn number_len(text: &[u8]) -> usize {
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let rest = &text[sign..];
    for word in ["infinity", "inf", "nan"] {
        if starts_with_word(rest, word) {
            return sign + word.len();
        }
    }
    let count = |from: usize, is_digit: fn(&u8) -> bool| {
        rest.get(from..)
            .unwrap_or_default()
            .iter()
            .take_while(|byte| is_digit(byte))
            .count()
    };
    if matches!(rest, [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit()) {
        let mut len = 2 + count(2, u8::is_ascii_hexdigit);
        if rest.get(len) == Some(&b'.') {
            len += 1 + count(len + 1, u8::is_ascii_hexdigit);
        }
        return sign + len + exponent_len(&rest[len..], b'p');
    }
    let mut len = count(0, u8::is_ascii_digit);
    if rest.get(len) == Some(&b'.') {
        len += 1 + count(len + 1, u8::is_ascii_digit);
    }
    sign + len + exponent_len(&rest[len..], b'e')
}

fn exponent_len(text: &[u8], letter: u8) -> usize {
    if !text
        .first()
        .is_some_and(|byte| byte.eq_ignore_ascii_case(&letter))
    {
        return 0;
    }
    let sign = usize::from(matches!(text.get(1), Some(b'-' | b'+')));
    let digits = text[1 + sign..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if digits == 0 { 0 } else { 1 + sign + digits }
}
