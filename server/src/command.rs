//! The command table: a command is one row beside its handler, and all else follows from it.
//!
//! Arity errors, what MULTI and scripts refuse, ACL categories, COMMAND, the README table and
//! the fuzz grammar read the rows. A new command is a row and a function in its family's file; a
//! new family is one name in `FAMILIES`.

use std::{collections::HashMap, sync::LazyLock};

use crate::{blocking::Wait, engine::Engine, error::Error, number, reply::Reply, session::Session};

pub mod acl;
pub mod bitmaps;
pub mod clients;
pub mod cluster;
pub mod connection;
pub mod debug;
pub mod diagnostics;
mod draws;
pub mod geo;
pub mod hashes;
pub mod help;
pub mod hyperloglogs;
pub mod introspection;
pub mod key_positions;
pub mod keys;
pub mod lists;
pub mod migration;
pub mod pubsub;
pub mod replication;
mod scanning;
#[cfg_attr(not(feature = "scripting"), path = "command/scripting/absent.rs")]
pub mod scripting;
pub mod serialization;
pub mod server;
pub mod sets;
pub mod sort;
pub mod sorted_sets;
pub mod spec;
pub mod streams;
pub mod strings;
pub mod transactions;

pub use spec::{Begin, Categories, Find, Flags, KeySpec};

/// Every family's rows.
static FAMILIES: &[&[Command]] = &[
    acl::COMMANDS,
    bitmaps::COMMANDS,
    clients::COMMANDS,
    cluster::COMMANDS,
    connection::COMMANDS,
    debug::COMMANDS,
    diagnostics::COMMANDS,
    geo::COMMANDS,
    hashes::COMMANDS,
    hyperloglogs::COMMANDS,
    introspection::COMMANDS,
    keys::COMMANDS,
    lists::COMMANDS,
    migration::COMMANDS,
    pubsub::COMMANDS,
    scripting::COMMANDS,
    serialization::COMMANDS,
    replication::COMMANDS,
    server::COMMANDS,
    sets::COMMANDS,
    sorted_sets::COMMANDS,
    sort::COMMANDS,
    streams::COMMANDS,
    strings::COMMANDS,
    transactions::COMMANDS,
];

/// Runs a command that passed every gate. It writes exactly one reply, or returns why not.
pub type Handler = fn(&mut Call<'_>) -> Result<(), Stop>;

/// A row of the table.
pub struct Command {
    /// In lower case; a subcommand is `parent|child`.
    pub name: &'static str,
    /// Arguments with the name; at least so many when negative.
    pub arity: i32,
    pub flags: Flags,
    /// The categories that do not follow from the flags.
    pub categories: Categories,
    pub keys: &'static [KeySpec],
    pub tips: &'static [&'static str],
    pub group: &'static str,
    pub since: &'static str,
    /// What came later, each with the version that brought it.
    pub history: &'static [(&'static str, &'static str)],
    /// Since when another command is to be used, and which.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Is it for servers among themselves and for tests?
    pub internal: bool,
    pub summary: &'static str,
    /// Empty where none can be told.
    pub complexity: &'static str,
    /// The arguments in the notation that [`spec::parse_args`] reads.
    pub args: &'static str,
    pub subcommands: &'static [Command],
    pub handler: Handler,
}

impl Command {
    /// What a row leaves out.
    pub const BASE: Command = Command {
        name: "",
        arity: 0,
        flags: Flags::NONE,
        categories: Categories::NONE,
        keys: &[],
        tips: &[],
        group: "generic",
        since: "1.0.0",
        history: &[],
        deprecated: None,
        internal: false,
        summary: "",
        complexity: "O(1)",
        args: "",
        subcommands: &[],
        handler: container,
    };

    /// The part of the name behind the `|` of a subcommand, or all of it.
    pub fn own_name(&self) -> &'static str {
        self.name.split_once('|').map_or(self.name, |(_, own)| own)
    }

    pub fn accepts(&self, args: usize) -> bool {
        let arity = self.arity.unsigned_abs() as usize;
        if self.arity < 0 {
            args >= arity
        } else {
            args == arity
        }
    }

    pub fn is_write(&self) -> bool {
        self.flags.has(Flags::WRITE)
    }

    /// Is it over so soon that its time need not be measured by itself?
    pub fn is_quick(&self, args: &[&[u8]]) -> bool {
        let on_data = self.is_write() || self.flags.has(Flags::READONLY);
        self.flags.has(Flags::FAST)
            || on_data && self.complexity == "O(1)"
            // What is costly to free is freed later, so that one key less is one step.
            || matches!(self.name, "del" | "unlink") && args.len() == 2
    }

    /// All categories, those that follow from the flags included.
    pub fn all_categories(&self) -> Categories {
        // What a read-only script may read is up to its caller: the script itself is no read.
        let script = self.categories.has(Categories::SCRIPTING);
        let flags = if script {
            self.flags.without(Flags::READONLY)
        } else {
            self.flags
        };
        self.categories.with(flags.implied_categories())
    }
}

/// The handler of rows that only hold subcommands; the gates never let a call through to it.
fn container(_call: &mut Call<'_>) -> Result<(), Stop> {
    Err(Error::SYNTAX.into())
}

/// Why a handler ended without a reply.
#[derive(Debug)]
pub enum Stop {
    Error(Error),
    /// There is nothing yet: run the request again when one of these keys changes.
    Wait(Wait),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Error(error)
    }
}

/// What a handler is given: the request, the asker, the server and the place for the answer.
pub struct Call<'a> {
    pub engine: &'a mut Engine,
    pub session: &'a mut Session,
    pub command: &'static Command,
    /// The request, the command's name first.
    pub args: &'a [&'a [u8]],
    pub reply: &'a mut dyn Reply,
}

impl<'a> Call<'a> {
    /// The argument at an index that the arity guarantees, or an empty one.
    pub fn arg(&self, index: usize) -> &'a [u8] {
        self.args.get(index).copied().unwrap_or_default()
    }

    /// The argument as an integer.
    pub fn int(&self, index: usize) -> Result<i64, Error> {
        number::parse_i64(self.arg(index)).ok_or(Error::NOT_AN_INTEGER)
    }

    /// The time of this command, in milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.engine.keys.now().millis()
    }

    /// A cursor over the arguments from an index on.
    pub fn options(&self, from: usize) -> Options<'a> {
        Options {
            rest: self.args.get(from..).unwrap_or_default(),
        }
    }

    /// The error for a subcommand that takes no such arguments.
    pub fn subcommand_syntax(&self) -> Error {
        let parent = self.command.name.split('|').next().unwrap_or_default();
        Error::quoting([
            b"ERR unknown subcommand or wrong number of arguments for '",
            self.arg(1),
            b"'. Try ",
            parent.to_uppercase().as_bytes(),
            b" HELP.",
        ])
    }

    /// The error for a wrong number of arguments, for handlers that see it only themselves.
    pub fn wrong_arity(&self) -> Error {
        wrong_arity(self.command)
    }
}

pub fn wrong_arity(command: &Command) -> Error {
    Error::owned(format!(
        "ERR wrong number of arguments for '{}' command",
        command.name
    ))
}

/// A cursor over optional arguments: words are matched in any case.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    rest: &'a [&'a [u8]],
}

impl<'a> Options<'a> {
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn len(&self) -> usize {
        self.rest.len()
    }

    pub fn rest(&self) -> &'a [&'a [u8]] {
        self.rest
    }

    /// The next argument, whatever it is.
    #[expect(clippy::should_implement_trait, reason = "a cursor, not an iterator")]
    pub fn next(&mut self) -> Option<&'a [u8]> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// The next argument, left where it is.
    pub fn peek(&self) -> Option<&'a [u8]> {
        self.rest.first().copied()
    }

    /// The next argument, or a syntax error when there is none.
    pub fn value(&mut self) -> Result<&'a [u8], Error> {
        self.next().ok_or(Error::SYNTAX)
    }

    /// The next argument as an integer.
    pub fn int(&mut self) -> Result<i64, Error> {
        number::parse_i64(self.value()?).ok_or(Error::NOT_AN_INTEGER)
    }

    /// Takes the next argument if it is this word, given in upper case.
    pub fn take(&mut self, word: &str) -> bool {
        let taken = self.rest.first().is_some_and(|arg| is_word(arg, word));
        if taken {
            self.rest = &self.rest[1..];
        }
        taken
    }
}

pub fn is_word(arg: &[u8], word: &str) -> bool {
    let same = |(&one, &other): (&u8, &u8)| {
        one == other || one ^ other == 0x20 && one.is_ascii_alphabetic()
    };
    arg.len() == word.len() && arg.iter().zip(word.as_bytes()).all(same)
}

/// All rows, families in order, without their subcommands.
pub fn all() -> impl Iterator<Item = &'static Command> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

/// A command or one of its subcommands by full name, in any case, `|` between the two.
pub fn by_name(name: &[u8]) -> Option<&'static Command> {
    let mut parts = name.splitn(2, |&byte| byte == b'|');
    let command = TABLE.get(parts.next()?)?;
    match parts.next() {
        None => Some(command),
        Some(child) => subcommand(command, child),
    }
}

pub fn subcommand(command: &'static Command, name: &[u8]) -> Option<&'static Command> {
    command
        .subcommands
        .iter()
        .find(|child| is_word(name, child.own_name()))
}

/// As [`lookup`], looking first at the command that the client ran before: a pipeline mostly
/// repeats it.
pub fn lookup_after(
    before: Option<&'static Command>,
    args: &[&[u8]],
) -> Result<&'static Command, Error> {
    match before {
        Some(row) if row.subcommands.is_empty() && is_word(args[0], row.name) => Ok(row),
        _ => lookup(args),
    }
}

/// The row that a request is for, by its first argument or two.
pub fn lookup(args: &[&[u8]]) -> Result<&'static Command, Error> {
    let name = args.first().copied().unwrap_or_default();
    let Some(command) = TABLE.get(name) else {
        return Err(unknown_command(args));
    };
    if command.subcommands.is_empty() || args.len() < 2 {
        return Ok(command);
    }
    subcommand(command, args[1]).ok_or_else(|| unknown_subcommand(command, args[1]))
}

/// The error for a name that no row has, with the beginning of the arguments.
fn unknown_command(args: &[&[u8]]) -> Error {
    const NAME_MAX: usize = 128;
    const ARGS_MAX: usize = 128;
    let name = args.first().copied().unwrap_or_default();
    let mut text = b"ERR unknown command '".to_vec();
    text.extend(shown(name, NAME_MAX));
    text.extend(b"', with args beginning with: ");
    let start = text.len();
    for arg in &args[1.min(args.len())..] {
        let used = text.len() - start;
        if used >= ARGS_MAX {
            break;
        }
        text.push(b'\'');
        text.extend(shown(arg, ARGS_MAX - used));
        text.extend(b"' ");
    }
    Error::owned(text)
}

/// The beginning of an argument, as far as the references show it: up to a zero byte.
fn shown(arg: &[u8], max: usize) -> &[u8] {
    let end = memchr::memchr(0, arg).unwrap_or(arg.len());
    &arg[..end.min(max)]
}

fn unknown_subcommand(command: &Command, name: &[u8]) -> Error {
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend(shown(name, 128));
    text.extend(format!("'. Try {} HELP.", command.name.to_uppercase()).bytes());
    Error::owned(text)
}

/// Names to rows, in any case.
struct Table(HashMap<&'static str, &'static Command, foldless::Hasher>);

impl Table {
    fn get(&self, name: &[u8]) -> Option<&'static Command> {
        const LONGEST: usize = 32;
        let mut lower = [0; LONGEST];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        self.0.get(std::str::from_utf8(lower).ok()?).copied()
    }
}

static TABLE: LazyLock<Table> =
    LazyLock::new(|| Table(all().map(|command| (command.name, command)).collect()));

/// A hasher for the few hundred fixed names of the table, which no outsider chooses.
mod foldless {
    #[derive(Clone, Copy, Default)]
    pub struct Hasher;

    impl std::hash::BuildHasher for Hasher {
        type Hasher = State;

        fn build_hasher(&self) -> State {
            State(0xCBF2_9CE4_8422_2325)
        }
    }

    pub struct State(u64);

    impl std::hash::Hasher for State {
        fn finish(&self) -> u64 {
            self.0 ^ (self.0 >> 29)
        }

        fn write(&mut self, bytes: &[u8]) {
            for &byte in bytes {
                self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
            }
            self.0 = self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_row() -> impl Iterator<Item = &'static Command> {
        all().flat_map(|command| std::iter::once(command).chain(command.subcommands))
    }

    #[test]
    fn names_are_unique_and_lower_case() {
        let mut seen = std::collections::HashSet::new();
        for row in every_row() {
            assert!(seen.insert(row.name), "{} stands twice", row.name);
            assert_eq!(row.name, row.name.to_lowercase());
        }
    }

    #[test]
    fn every_row_is_documented_and_its_arguments_parse() {
        for row in every_row() {
            assert!(row.summary.ends_with('.'), "{} needs a summary", row.name);
            assert!(row.arity != 0, "{} needs an arity", row.name);
            assert!(
                spec::parse_args(row.args).is_ok(),
                "{}: {}",
                row.name,
                row.args
            );
        }
    }

    #[test]
    fn subcommands_carry_the_name_of_their_parent() {
        for row in all() {
            for child in row.subcommands {
                assert!(
                    child.name.starts_with(&format!("{}|", row.name)),
                    "{}",
                    child.name
                );
            }
        }
    }
}
