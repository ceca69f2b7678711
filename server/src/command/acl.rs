//! ACL: users and their permissions, told and changed.

use super::{help::help, *};
use crate::{
    acl::{self, DEFAULT, LogEntry, Permissions, User, join_selectors},
    client_list,
    command::spec::{Categories, Flags},
    number::before_zero,
};

const ROW: Command = Command {
    group: "server",
    since: "6.0.0",
    ..Command::BASE
};
const OPEN: Flags = Flags::of([Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]);
const ADMINS: Flags = OPEN.with(Flags::ADMIN);

pub const COMMANDS: &[Command] = &[Command {
    name: "acl",
    arity: -2,
    summary: "Holds the commands about users.",
    complexity: "that of the subcommand",
    subcommands: &[
        Command {
            name: "acl|cat",
            arity: -2,
            flags: OPEN,
            summary: "Returns the categories, or the commands of one.",
            complexity: "O(N) where N is the number of names",
            args: "[category:string]",
            handler: acl_cat,
            ..ROW
        },
        Command {
            name: "acl|deluser",
            arity: -3,
            flags: ADMINS,
            tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
            summary: "Deletes users, and ends their connections.",
            args: "username:string...",
            handler: acl_deluser,
            ..ROW
        },
        Command {
            name: "acl|dryrun",
            arity: -4,
            flags: ADMINS,
            since: "7.0.0",
            summary: "Tells whether a user may make a request, without making it.",
            args: "username:string command:string [arg:string...]",
            handler: acl_dryrun,
            ..ROW
        },
        Command {
            name: "acl|genpass",
            arity: -2,
            flags: OPEN,
            summary: "Returns a password at random.",
            args: "[bits:integer]",
            handler: acl_genpass,
            ..ROW
        },
        Command {
            name: "acl|getuser",
            arity: 3,
            flags: ADMINS,
            history: &[
                ("6.2.0", "Tells the channels too."),
                (
                    "7.0.0",
                    "Tells the selectors, and gives keys and channels as rules.",
                ),
                ("9.1.0", "Tells the databases."),
            ],
            summary: "Returns what a user may do.",
            complexity: "O(N) where N is the number of rules",
            args: "username:string",
            handler: acl_getuser,
            ..ROW
        },
        Command {
            name: "acl|help",
            arity: 2,
            flags: Flags::of([Flags::LOADING, Flags::STALE]),
            summary: "Describes the subcommands.",
            handler: help,
            ..ROW
        },
        Command {
            name: "acl|list",
            arity: 2,
            flags: ADMINS,
            summary: "Returns every user, as an ACL file would say it.",
            complexity: "O(N) where N is the number of users",
            handler: acl_list,
            ..ROW
        },
        Command {
            name: "acl|load",
            arity: 2,
            flags: ADMINS,
            summary: "Reads the users from the ACL file.",
            complexity: "O(N) where N is the number of users",
            handler: acl_load,
            ..ROW
        },
        Command {
            name: "acl|log",
            arity: -2,
            flags: ADMINS,
            history: &[("7.2.0", "Numbers the entries and dates them.")],
            summary: "Returns what was denied lately, or forgets it.",
            complexity: "O(N) where N is the number of entries shown",
            args: "[operation<count:integer|RESET>]",
            handler: acl_log,
            ..ROW
        },
        Command {
            name: "acl|save",
            arity: 2,
            flags: ADMINS,
            tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
            summary: "Writes the users to the ACL file.",
            complexity: "O(N) where N is the number of users",
            handler: acl_save,
            ..ROW
        },
        Command {
            name: "acl|setuser",
            arity: -3,
            flags: ADMINS,
            tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
            history: &[
                ("6.2.0", "Knows rules of channels."),
                (
                    "7.0.0",
                    "Knows selectors, and keys to read or to write only.",
                ),
                ("9.1.0", "Knows rules of databases."),
            ],
            summary: "Makes a user, or changes what it may do.",
            complexity: "O(N) where N is the number of rules",
            args: "username:string [rule:string...]",
            handler: acl_setuser,
            ..ROW
        },
        Command {
            name: "acl|users",
            arity: 2,
            flags: ADMINS,
            summary: "Returns the names of the users.",
            complexity: "O(N) where N is the number of users",
            handler: acl_users,
            ..ROW
        },
        Command {
            name: "acl|whoami",
            arity: 2,
            flags: OPEN,
            summary: "Returns the user of this connection.",
            handler: acl_whoami,
            ..ROW
        },
    ],
    ..ROW
}];

fn acl_cat(call: &mut Call<'_>) -> Result<(), Stop> {
    let names: Vec<&str> = match call.args.get(2) {
        None => Categories::NAMES.iter().map(|(_, name)| *name).collect(),
        Some(asked) if call.args.len() == 3 => commands_of(asked)?,
        Some(_) => return Err(call.subcommand_syntax().into()),
    };
    call.reply.array(names.len());
    for name in names {
        call.reply.bulk(name.as_bytes());
    }
    Ok(())
}

fn commands_of(asked: &[u8]) -> Result<Vec<&'static str>, Error> {
    let known = Categories::NAMES
        .iter()
        .find(|(_, name)| is_word(before_zero(asked), name));
    let Some(&(category, _)) = known else {
        let asked = shown(asked, 128);
        return Err(Error::quoting([b"ERR Unknown category '", asked, b"'"]));
    };
    let rows = all().flat_map(|row| match row.subcommands {
        [] => std::slice::from_ref(row),
        subcommands => subcommands,
    });
    let fits = rows.filter(|row| row.all_categories().has(category));
    Ok(fits.map(|row| row.name).collect())
}

fn acl_deluser(call: &mut Call<'_>) -> Result<(), Stop> {
    let names = &call.args[2..];
    if names.contains(&DEFAULT.as_bytes()) {
        return Err(Error::text("ERR The 'default' user cannot be removed").into());
    }
    let users = &mut call.engine.users;
    let deleted = names.iter().filter(|name| users.remove(name)).count();
    if deleted > 0 {
        call.engine.end_unfit_sessions(call.session);
    }
    call.reply.integer(deleted as i64);
    Ok(())
}

fn acl_dryrun(call: &mut Call<'_>) -> Result<(), Stop> {
    let request = &call.args[3..];
    let Some(user) = call.engine.users.get(call.arg(2)) else {
        return Err(Error::quoting([b"ERR User '", call.arg(2), b"' not found"]).into());
    };
    let Ok(command) = lookup(request) else {
        return Err(Error::quoting([b"ERR Command '", request[0], b"' not found"]).into());
    };
    if !command.accepts(request.len()) {
        return Err(wrong_arity(command).into());
    }
    let asked = call.engine.request(call.session, command, request);
    match call.engine.users.check(&user.name, asked) {
        Ok(()) => call.reply.ok(),
        Err(denied) => call
            .reply
            .bulk(&denied.dry_run(&user.name, command, request)),
    }
    Ok(())
}

fn acl_genpass(call: &mut Call<'_>) -> Result<(), Stop> {
    const BITS: Error = Error::text(
        "ERR ACL GENPASS argument must be the number of bits for the output password, a positive \
        number up to 4096",
    );
    let bits = match call.args.len() {
        2 => 256,
        3 => call.int(2)?,
        _ => return Err(call.subcommand_syntax().into()),
    };
    if !(1..=4096).contains(&bits) {
        return Err(BITS.into());
    }
    // A password must not follow from a seed that a test has set.
    let mut random = crate::random::Random::from_entropy();
    let digits = (bits as usize).div_ceil(4);
    let password: String = (0..digits)
        .map(|_| char::from(b"0123456789abcdef"[random.below(16)]))
        .collect();
    call.reply.bulk(password.as_bytes());
    Ok(())
}

fn acl_getuser(call: &mut Call<'_>) -> Result<(), Stop> {
    let Some(user) = call.engine.users.get(call.arg(2)) else {
        call.reply.null();
        return Ok(());
    };
    let reply = &mut *call.reply;
    reply.map(7);
    reply.bulk(b"flags");
    reply.set(1 + usize::from(user.no_pass));
    reply.bulk(if user.on { b"on" } else { b"off" });
    if user.no_pass {
        reply.bulk(b"nopass");
    }
    reply.bulk(b"passwords");
    reply.array(user.passwords.len());
    for password in &user.passwords {
        reply.bulk(password.as_bytes());
    }
    write_permissions(reply, &user.root);
    reply.bulk(b"selectors");
    reply.array(user.selectors.len());
    for selector in &user.selectors {
        reply.map(4);
        write_permissions(reply, selector);
    }
    Ok(())
}

fn write_permissions(reply: &mut dyn Reply, permissions: &Permissions) {
    let fields: [(&str, Vec<u8>); 4] = [
        ("commands", permissions.commands().into_bytes()),
        ("keys", permissions.keys()),
        ("channels", permissions.channels()),
        ("databases", permissions.databases().into_bytes()),
    ];
    for (name, value) in fields {
        reply.bulk(name.as_bytes());
        reply.bulk(&value);
    }
}

fn acl_list(call: &mut Call<'_>) -> Result<(), Stop> {
    let lines: Vec<Vec<u8>> = call.engine.users.iter().map(User::describe).collect();
    call.reply.array(lines.len());
    for line in lines {
        call.reply.bulk(&line);
    }
    Ok(())
}

fn acl_load(call: &mut Call<'_>) -> Result<(), Stop> {
    let path = acl_file(call)?;
    let users = acl::file::read(&path, call.engine.config.listens_to_all())
        .map_err(|why| Error::owned(format!("ERR {why}")))?;
    call.engine.users.replace(users);
    call.engine.end_unfit_sessions(call.session);
    call.reply.ok();
    Ok(())
}

/// The ACL file that the settings name.
fn acl_file(call: &Call<'_>) -> Result<String, Error> {
    const NONE: Error = Error::text(
        "ERR This instance is not configured to use an ACL file. You may want to specify users \
        via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a \
        configuration file set) in order to store users in the configuration.",
    );
    let path = call.engine.config.get("aclfile");
    if path.is_empty() {
        return Err(NONE);
    }
    Ok(path.to_owned())
}

fn acl_save(call: &mut Call<'_>) -> Result<(), Stop> {
    const FAILED: Error = Error::text(
        "ERR There was an error trying to save the ACLs. Please check the server logs for more \
        information",
    );
    let path = acl_file(call)?;
    acl::file::write(&path, &call.engine.users).map_err(|error| {
        tracing::warn!(%error, path, "the ACL file was not written");
        FAILED
    })?;
    call.reply.ok();
    Ok(())
}

fn acl_log(call: &mut Call<'_>) -> Result<(), Stop> {
    const DEFAULT_COUNT: i64 = 10;
    let count = match call.args.get(2) {
        None => DEFAULT_COUNT,
        Some(word) if is_word(word, "RESET") => {
            call.engine.users.log.clear();
            call.reply.ok();
            return Ok(());
        }
        Some(_) => call.int(2)?.max(0),
    };
    let now = call.now_ms();
    let entries: Vec<LogEntry> = call
        .engine
        .users
        .log
        .entries()
        .take(count as usize)
        .cloned()
        .collect();
    call.reply.array(entries.len());
    for entry in entries {
        write_entry(call.reply, &entry, now);
    }
    Ok(())
}

fn write_entry(reply: &mut dyn Reply, entry: &LogEntry, now: u64) {
    reply.map(10);
    reply.bulk(b"count");
    reply.integer(entry.count as i64);
    let fields: [(&str, &[u8]); 4] = [
        ("reason", entry.reason.as_bytes()),
        ("context", entry.context.as_bytes()),
        ("object", &entry.object),
        ("username", entry.user.as_bytes()),
    ];
    for (name, value) in fields {
        reply.bulk(name.as_bytes());
        reply.bulk(value);
    }
    reply.bulk(b"age-seconds");
    reply.double(now.saturating_sub(entry.created) as f64 / 1000.0);
    reply.bulk(b"client-info");
    reply.bulk(&entry.client);
    let fields = [
        ("entry-id", entry.id),
        ("timestamp-created", entry.created),
        ("timestamp-last-updated", entry.updated),
    ];
    for (name, value) in fields {
        reply.bulk(name.as_bytes());
        reply.integer(value as i64);
    }
}

fn acl_setuser(call: &mut Call<'_>) -> Result<(), Stop> {
    const BAD_NAME: Error = Error::text("ERR Usernames can't contain spaces or null characters");
    let name = std::str::from_utf8(call.arg(2)).map_err(|_| BAD_NAME)?;
    if !acl::is_name(name) {
        return Err(BAD_NAME.into());
    }
    let all_channels = call.engine.config.listens_to_all();
    let modifiers = join_selectors(&call.args[3..]).map_err(|open| {
        let text = b"ERR Unmatched parenthesis in acl selector starting at '";
        Error::owned([text, open, b"'."].concat())
    })?;
    let known = call.engine.users.get(name.as_bytes());
    let is_new = known.is_none();
    let mut user = known
        .cloned()
        .unwrap_or_else(|| User::new(name, all_channels));
    for modifier in &modifiers {
        user.modify(modifier, all_channels).map_err(|why| {
            const BEFORE: &[u8] = b"ERR Error in ACL SETUSER modifier '";
            Error::quoting([BEFORE, modifier, b"': ", why.text().as_bytes()])
        })?;
    }
    call.engine.users.put(user);
    if !is_new {
        call.engine.end_unfit_sessions(call.session);
    }
    call.reply.ok();
    Ok(())
}

fn acl_users(call: &mut Call<'_>) -> Result<(), Stop> {
    let names: Vec<_> = call
        .engine
        .users
        .iter()
        .map(|user| user.name.clone())
        .collect();
    call.reply.array(names.len());
    for name in names {
        call.reply.bulk(name.as_bytes());
    }
    Ok(())
}

fn acl_whoami(call: &mut Call<'_>) -> Result<(), Stop> {
    call.reply.bulk(call.session.user.as_bytes());
    Ok(())
}

/// Writes down what was denied to a session.
pub fn log_denied(
    engine: &mut Engine,
    session: &Session,
    user: &str,
    context: &'static str,
    (reason, object): (&'static str, Vec<u8>),
) {
    let mut client = Vec::new();
    client_list::describe(&mut client, session, engine, 0);
    client.pop_if(|last| *last == b'\n');
    let now = engine.keys.now().millis();
    *engine.stats.denied.entry(reason).or_default() += 1;
    let entry = LogEntry {
        id: 0,
        count: 1,
        reason,
        context,
        object,
        user: user.to_owned(),
        client,
        created: now,
        updated: now,
    };
    let max_len = engine.config.int("acllog-max-len").max(0) as usize;
    engine.users.log.add(entry, max_len);
}
