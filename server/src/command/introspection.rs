//! COMMAND: what the table says about itself, as clients, proxies and people ask for it.

use super::{
    Begin, Call, Categories, Command, Find, Flags, KeySpec, Options, Stop,
    help::help,
    is_word,
    key_positions::{KeyPosition, has_keys, key_positions},
    spec::{Arg, parse_args},
};
use crate::{error::Error, glob, reply::Reply};

/// The command table commands.
pub const COMMANDS: &[Command] = &[Command {
    name: "command",
    arity: -1,
    flags: Flags::of([Flags::LOADING, Flags::STALE]),
    categories: Categories::CONNECTION,
    tips: &["nondeterministic_output_order"],
    group: "server",
    since: "2.8.13",
    summary: "Describes all commands.",
    complexity: "O(N) where N is the number of commands",
    subcommands: &[
        Command {
            name: "command|count",
            arity: 2,
            flags: Flags::of([Flags::LOADING, Flags::STALE]),
            categories: Categories::CONNECTION,
            group: "server",
            since: "2.8.13",
            summary: "Returns the number of commands.",
            handler: command_count,
            ..Command::BASE
        },
        Command {
            name: "command|docs",
            arity: -2,
            flags: Flags::of([Flags::LOADING, Flags::STALE]),
            categories: Categories::CONNECTION,
            tips: &["nondeterministic_output_order"],
            group: "server",
            since: "7.0.0",
            summary: "Documents commands, all when none is named.",
            complexity: "O(N) where N is the number of commands asked for",
            args: "[command-name:string...]",
            handler: command_docs,
            ..Command::BASE
        },
        Command {
            name: "command|getkeys",
            arity: -3,
            flags: Flags::of([Flags::LOADING, Flags::STALE]),
            categories: Categories::CONNECTION,
            group: "server",
            since: "2.8.13",
            summary: "Returns the keys within a whole command.",
            complexity: "O(N) where N is the number of arguments",
            args: "command:string [arg:string...]",
            handler: command_getkeys,
            ..Command::BASE
        },
        Command {
            name: "command|getkeysandflags",
            arity: -3,
            flags: Flags::of([Flags::LOADING, Flags::STALE]),
            categories: Categories::CONNECTION,
            group: "server",
            since: "7.0.0",
            summary: "Returns the keys within a whole command and what is done with each.",
            complexity: "O(N) where N is the number of arguments",
            args: "command:string [arg:string...]",
            handler: command_getkeysandflags,
            ..Command::BASE
        },
        Command {
            name: "command|help",
            arity: 2,
            flags: Flags::of([Flags::LOADING, Flags::STALE]),
            categories: Categories::CONNECTION,
            group: "server",
            since: "5.0.0",
            summary: "Lists the subcommands with a line about each.",
            handler: help,
            ..Command::BASE
        },
        Command {
            name: "command|info",
            arity: -2,
            flags: Flags::of([Flags::LOADING, Flags::STALE]),
            categories: Categories::CONNECTION,
            tips: &["nondeterministic_output_order"],
            group: "server",
            since: "2.8.13",
            history: &[("7.0.0", "Tells of all commands when none is named.")],
            summary: "Describes commands, all when none is named.",
            complexity: "O(N) where N is the number of commands asked for",
            args: "[command-name:string...]",
            handler: command_info,
            ..Command::BASE
        },
        Command {
            name: "command|list",
            arity: -2,
            flags: Flags::of([Flags::LOADING, Flags::STALE]),
            categories: Categories::CONNECTION,
            tips: &["nondeterministic_output_order"],
            group: "server",
            since: "7.0.0",
            summary: "Returns the names of the commands that pass a filter.",
            complexity: "O(N) where N is the number of commands",
            args: "[FILTERBY@filterby<MODULE@module-name:string|ACLCAT@category:string|\
                    PATTERN@pattern:pattern>]",
            handler: command_list,
            ..Command::BASE
        },
    ],
    handler: command,
    ..Command::BASE
}];

/// COMMAND: the details of all commands.
fn command(call: &mut Call<'_>) -> Result<(), Stop> {
    call.reply.array(super::all().count());
    for row in super::all() {
        write_info(call.reply, row);
    }
    Ok(())
}

fn command_count(call: &mut Call<'_>) -> Result<(), Stop> {
    call.reply.integer(super::all().count() as i64);
    Ok(())
}

fn command_info(call: &mut Call<'_>) -> Result<(), Stop> {
    let names = &call.args[2..];
    if names.is_empty() {
        return command(call);
    }
    call.reply.array(names.len());
    for name in names {
        match super::by_name(name) {
            Some(row) => write_info(call.reply, row),
            None => call.reply.null(),
        }
    }
    Ok(())
}

fn command_docs(call: &mut Call<'_>) -> Result<(), Stop> {
    let names = &call.args[2..];
    let rows: Vec<&Command> = if names.is_empty() {
        super::all().collect()
    } else {
        names
            .iter()
            .filter_map(|name| super::by_name(name))
            .collect()
    };
    call.reply.map(rows.len());
    for row in rows {
        write_docs(call.reply, row);
    }
    Ok(())
}

fn command_list(call: &mut Call<'_>) -> Result<(), Stop> {
    let mut options = call.options(2);
    let filter = if options.is_empty() {
        Filter::All
    } else {
        parse_filter(&mut options)?
    };
    let mut names = Vec::new();
    for row in super::all() {
        if filter.lets(row) {
            names.push(row.name);
        }
        names.extend(
            row.subcommands
                .iter()
                .filter(|row| filter.lets(row))
                .map(|row| row.name),
        );
    }
    call.reply.array(names.len());
    for name in names {
        call.reply.bulk(name.as_bytes());
    }
    Ok(())
}

/// What COMMAND LIST lists.
enum Filter<'a> {
    All,
    /// The commands of a module, of which there are none.
    Module,
    Category(Option<Categories>),
    Pattern(&'a [u8]),
}

fn parse_filter<'a>(options: &mut Options<'a>) -> Result<Filter<'a>, Error> {
    if !options.take("FILTERBY") || options.len() != 2 {
        return Err(Error::SYNTAX);
    }
    if options.take("MODULE") {
        return Ok(Filter::Module);
    }
    if options.take("ACLCAT") {
        let name = options.value()?;
        let known = Categories::NAMES
            .iter()
            .find(|(_, known)| is_word(name, known));
        return Ok(Filter::Category(known.map(|&(category, _)| category)));
    }
    if options.take("PATTERN") {
        Ok(Filter::Pattern(options.value()?))
    } else {
        Err(Error::SYNTAX)
    }
}

impl Filter<'_> {
    fn lets(&self, row: &Command) -> bool {
        match self {
            Filter::All => true,
            Filter::Module => false,
            Filter::Category(category) => {
                category.is_some_and(|category| row.all_categories().has(category))
            }
            Filter::Pattern(pattern) => glob::matches_any_case(pattern, row.name.as_bytes()),
        }
    }
}

fn command_getkeys(call: &mut Call<'_>) -> Result<(), Stop> {
    let request = &call.args[2..];
    let keys = request_keys(request)?;
    call.reply.array(keys.len());
    for key in keys {
        call.reply.bulk(request[key.index]);
    }
    Ok(())
}

fn command_getkeysandflags(call: &mut Call<'_>) -> Result<(), Stop> {
    let request = &call.args[2..];
    let keys = request_keys(request)?;
    call.reply.array(keys.len());
    for key in keys {
        call.reply.array(2);
        call.reply.bulk(request[key.index]);
        write_words(call.reply, key.flags.split(' '));
    }
    Ok(())
}

/// The keys of a request that is given as arguments.
fn request_keys(request: &[&[u8]]) -> Result<Vec<KeyPosition>, Error> {
    let command =
        super::lookup(request).map_err(|_| Error::text("ERR Invalid command specified"))?;
    if !has_keys(command) {
        return Err(Error::text("ERR The command has no key arguments"));
    }
    if !command.accepts(request.len()) {
        return Err(Error::text(
            "ERR Invalid number of arguments specified for command",
        ));
    }
    key_positions(command, request)
        .ok_or(Error::text("ERR Invalid arguments specified for command"))
}

// ---- What COMMAND INFO says of a row ----

fn write_info(reply: &mut dyn Reply, row: &Command) {
    reply.array(10);
    reply.bulk(row.name.as_bytes());
    reply.integer(row.arity.into());
    write_words(reply, row.flags.names());
    let (first, last, step) = legacy_range(row.keys);
    for number in [first, last, step] {
        reply.integer(number);
    }
    let categories: Vec<String> = row
        .all_categories()
        .names()
        .map(|name| format!("@{name}"))
        .collect();
    write_words(reply, categories.iter().map(String::as_str));
    reply.set(row.tips.len());
    for tip in row.tips {
        reply.bulk(tip.as_bytes());
    }
    reply.set(row.keys.len());
    for spec in row.keys {
        write_key_spec(reply, spec);
    }
    reply.array(row.subcommands.len());
    for child in row.subcommands {
        write_info(reply, child);
    }
}

fn write_words<'a>(reply: &mut dyn Reply, words: impl Iterator<Item = &'a str>) {
    let words: Vec<&str> = words.collect();
    reply.set(words.len());
    for word in words {
        reply.simple(word);
    }
}

/// First key, last key and step, for clients that know nothing of key specs: the first run of
/// keys that stand side by side.
fn legacy_range(keys: &[KeySpec]) -> (i64, i64, i64) {
    let mut range: Option<(i64, i64, i64)> = None;
    for spec in keys {
        let (Begin::Index(index), Find::Range { last, step, .. }) = (spec.begin, spec.find) else {
            continue;
        };
        let (index, last, step) = (index as i64, i64::from(last), step as i64);
        let last = if last < 0 { last } else { index + last };
        range = match range {
            None => Some((index, last, step)),
            Some((first, end, 1)) if step == 1 && end + 1 == index => Some((first, last, 1)),
            other => other,
        };
    }
    range.unwrap_or((0, 0, 0))
}

fn write_key_spec(reply: &mut dyn Reply, spec: &KeySpec) {
    let noted = !spec.notes.is_empty();
    reply.map(3 + usize::from(noted));
    if noted {
        write_pair(reply, "notes", spec.notes);
    }
    reply.bulk(b"flags");
    write_words(reply, spec.flags.split(' '));
    reply.bulk(b"begin_search");
    match spec.begin {
        Begin::Index(index) => write_search(reply, "index", &[("index", index as i64)]),
        Begin::Keyword { word, from } => {
            write_search_head(reply, "keyword", 2);
            write_pair(reply, "keyword", word);
            write_number(reply, "startfrom", from.into());
        }
        Begin::Unknown => write_search(reply, "unknown", &[]),
    }
    reply.bulk(b"find_keys");
    match spec.find {
        Find::Range { last, step, limit } => {
            let numbers = [
                ("lastkey", last.into()),
                ("keystep", step as i64),
                ("limit", limit as i64),
            ];
            write_search(reply, "range", &numbers);
        }
        Find::Counted { at, first, step } => {
            let numbers = [
                ("keynumidx", at as i64),
                ("firstkey", first as i64),
                ("keystep", step as i64),
            ];
            write_search(reply, "keynum", &numbers);
        }
        Find::Unknown => write_search(reply, "unknown", &[]),
    }
}

fn write_search(reply: &mut dyn Reply, kind: &str, numbers: &[(&str, i64)]) {
    write_search_head(reply, kind, numbers.len());
    for &(name, number) in numbers {
        write_number(reply, name, number);
    }
}

fn write_search_head(reply: &mut dyn Reply, kind: &str, fields: usize) {
    reply.map(2);
    write_pair(reply, "type", kind);
    reply.bulk(b"spec");
    reply.map(fields);
}

fn write_pair(reply: &mut dyn Reply, name: &str, value: &str) {
    reply.bulk(name.as_bytes());
    reply.bulk(value.as_bytes());
}

fn write_number(reply: &mut dyn Reply, name: &str, value: i64) {
    reply.bulk(name.as_bytes());
    reply.integer(value);
}

// ---- What COMMAND DOCS says of a row ----

/// The name of the row, then a map about it.
fn write_docs(reply: &mut dyn Reply, row: &Command) {
    let args = parse_args(row.args).unwrap_or_default();
    reply.bulk(row.name.as_bytes());
    let flag = match row.deprecated {
        Some(_) => Some("deprecated"),
        None => row.internal.then_some("syscmd"),
    };
    let given = [
        !row.complexity.is_empty(),
        !row.history.is_empty(),
        flag.is_some(),
        row.deprecated.is_some(),
        row.deprecated.is_some(),
        !args.is_empty(),
        !row.subcommands.is_empty(),
    ];
    reply.map(3 + given.into_iter().filter(|&given| given).count());
    write_pair(reply, "summary", row.summary);
    write_pair(reply, "since", row.since);
    write_pair(reply, "group", row.group);
    if !row.complexity.is_empty() {
        write_pair(reply, "complexity", row.complexity);
    }
    if let Some(flag) = flag {
        reply.bulk(b"doc_flags");
        write_words(reply, std::iter::once(flag));
    }
    if let Some((since, by)) = row.deprecated {
        write_pair(reply, "deprecated_since", since);
        write_pair(reply, "replaced_by", by);
    }
    write_history(reply, row.history);
    if !args.is_empty() {
        reply.bulk(b"arguments");
        write_args(
            reply,
            &args,
            &mut KeyCount {
                specs: row.keys,
                next: 0,
            },
        );
    }
    if !row.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(row.subcommands.len());
        for child in row.subcommands {
            write_docs(reply, child);
        }
    }
}

fn write_history(reply: &mut dyn Reply, history: &[(&str, &str)]) {
    if history.is_empty() {
        return;
    }
    reply.bulk(b"history");
    reply.set(history.len());
    for (version, text) in history {
        reply.array(2);
        reply.bulk(version.as_bytes());
        reply.bulk(text.as_bytes());
    }
}

/// Which key spec the next key argument belongs to.
struct KeyCount {
    specs: &'static [KeySpec],
    next: usize,
}

impl KeyCount {
    fn index_of(&mut self, arg: &Arg) -> Option<i64> {
        let unknown = |at: usize| {
            self.specs
                .get(at)
                .is_some_and(|spec| matches!(spec.begin, Begin::Unknown))
        };
        let index = match arg.kind.as_str() {
            "key" => self.next.min(self.specs.len().checked_sub(1)?),
            // A pattern that key names are made from: its spec can only say that it is unknown.
            "pattern" if unknown(1) => 1,
            _ => return None,
        };
        self.next = index + 1;
        Some(index as i64)
    }
}

fn write_args(reply: &mut dyn Reply, args: &[Arg], keys: &mut KeyCount) {
    reply.array(args.len());
    for arg in args {
        write_arg(reply, arg, keys);
    }
}

fn write_arg(reply: &mut dyn Reply, arg: &Arg, keys: &mut KeyCount) {
    let index = arg.key_spec.or_else(|| keys.index_of(arg));
    let flags = [
        (arg.optional, "optional"),
        (arg.multiple, "multiple"),
        (arg.multiple_token, "multiple_token"),
    ];
    let flagged = flags.iter().any(|&(set, _)| set);
    let leaf = arg.children.is_empty();
    // Name, type, and the text to display or else the children.
    let optional = [
        index.is_some(),
        arg.token.is_some(),
        arg.since.is_some(),
        arg.deprecated.is_some(),
        flagged,
    ];
    reply.map(3 + optional.into_iter().filter(|&given| given).count());
    write_pair(reply, "name", &arg.name);
    write_pair(reply, "type", &arg.kind);
    if leaf {
        let shown = arg.display.as_ref().unwrap_or(&arg.name);
        write_pair(reply, "display_text", shown);
    }
    if let Some(index) = index {
        write_number(reply, "key_spec_index", index);
    }
    if let Some(token) = &arg.token {
        write_pair(reply, "token", token);
    }
    if let Some(since) = &arg.since {
        write_pair(reply, "since", since);
    }
    if let Some(version) = &arg.deprecated {
        write_pair(reply, "deprecated_since", version);
    }
    if flagged {
        reply.bulk(b"flags");
        write_words(
            reply,
            flags.iter().filter(|&&(set, _)| set).map(|&(_, name)| name),
        );
    }
    if !leaf {
        reply.bulk(b"arguments");
        write_args(reply, &arg.children, keys);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(keys: &[KeySpec]) -> (i64, i64, i64) {
        legacy_range(keys)
    }

    #[test]
    fn old_clients_see_the_first_run_of_keys() {
        assert_eq!(range(&[]), (0, 0, 0));
        assert_eq!(range(&[KeySpec::range("OW", 1, -1, 2)]), (1, -1, 2));
        assert_eq!(
            range(&[KeySpec::one("RW", 1), KeySpec::one("OW", 2)]),
            (1, 2, 1)
        );
        let bitop = [KeySpec::one("OW", 2), KeySpec::range("RO", 3, -1, 1)];
        assert_eq!(range(&bitop), (2, -1, 1));
        let stored = [KeySpec::one("OW", 1), KeySpec::counted("RO", 2)];
        assert_eq!(range(&stored), (1, 1, 1));
        assert_eq!(range(&[KeySpec::counted("RO", 2)]), (0, 0, 0));
    }

    #[test]
    fn a_filter_sees_categories_that_follow_from_flags() {
        let get = Command {
            name: "get",
            flags: Flags::READONLY,
            ..Command::BASE
        };
        assert!(Filter::Category(Some(Categories::READ)).lets(&get));
        assert!(!Filter::Category(Some(Categories::WRITE)).lets(&get));
        assert!(!Filter::Category(None).lets(&get));
        assert!(Filter::Pattern(b"G?T").lets(&get));
    }
}
