//! What a client says about its connection: who it is, which protocol, which database.

use super::{acl::log_denied, *};
use crate::{
    acl::DEFAULT,
    command::spec::{Categories, Flags},
    info::{self, REDIS_VERSION},
    reply::Protocol,
    session::{ReplyMode, Session},
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "auth",
        arity: -2,
        flags: Flags::of([
            Flags::NOSCRIPT,
            Flags::LOADING,
            Flags::STALE,
            Flags::FAST,
            Flags::NO_AUTH,
            Flags::ALLOW_BUSY,
        ]),
        categories: Categories::CONNECTION,
        group: "connection",
        history: &[("6.0.0", "Takes the name of a user before the password.")],
        summary: "Logs the connection in.",
        complexity: "O(N) where N is the number of passwords of the user",
        args: "[username:string{6.0.0}] password:string",
        handler: auth,
        ..Command::BASE
    },
    Command {
        name: "echo",
        arity: 2,
        flags: Flags::of([Flags::LOADING, Flags::STALE, Flags::FAST]),
        categories: Categories::CONNECTION,
        group: "connection",
        summary: "Returns its argument.",
        args: "message:string",
        handler: echo,
        ..Command::BASE
    },
    Command {
        name: "hello",
        arity: -1,
        flags: Flags::of([
            Flags::NOSCRIPT,
            Flags::LOADING,
            Flags::STALE,
            Flags::FAST,
            Flags::NO_AUTH,
            Flags::ALLOW_BUSY,
        ]),
        categories: Categories::CONNECTION,
        group: "connection",
        since: "6.0.0",
        history: &[
            ("8.1.0", "Tells the `availability_zone` when there is one."),
            (
                "6.2.0",
                "Only tells of the connection when no version is given.",
            ),
        ],
        summary: "Chooses the protocol version, logs in and names the connection if asked.",
        args: "[arguments(protover:integer [AUTH@auth(username:string password:string)] \
            [SETNAME@clientname:string])]",
        handler: hello,
        ..Command::BASE
    },
    Command {
        name: "ping",
        arity: -1,
        flags: Flags::FAST,
        categories: Categories::CONNECTION,
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        group: "connection",
        summary: "Answers, so that a client sees that the server lives.",
        args: "[message:string]",
        handler: ping,
        ..Command::BASE
    },
    Command {
        name: "quit",
        arity: -1,
        flags: Flags::of([
            Flags::NOSCRIPT,
            Flags::LOADING,
            Flags::STALE,
            Flags::FAST,
            Flags::NO_AUTH,
            Flags::ALLOW_BUSY,
        ]),
        categories: Categories::CONNECTION,
        group: "connection",
        summary: "Closes the connection.",
        handler: quit,
        ..Command::BASE
    },
    Command {
        name: "reset",
        arity: 1,
        flags: Flags::of([
            Flags::NOSCRIPT,
            Flags::LOADING,
            Flags::STALE,
            Flags::FAST,
            Flags::NO_AUTH,
            Flags::ALLOW_BUSY,
        ]),
        categories: Categories::CONNECTION,
        group: "connection",
        since: "6.2.0",
        summary: "Puts the connection back to its first state.",
        handler: reset,
        ..Command::BASE
    },
    Command {
        name: "select",
        arity: 2,
        flags: Flags::of([Flags::LOADING, Flags::STALE, Flags::FAST, Flags::ALLOW_BUSY]),
        categories: Categories::CONNECTION,
        group: "connection",
        summary: "Chooses the database that the connection works on.",
        args: "index:integer",
        handler: select,
        ..Command::BASE
    },
];

const WRONG_PASSWORD: Error =
    Error::text("WRONGPASS invalid username-password pair or user is disabled.");

fn auth(call: &mut Call<'_>) -> Result<(), Stop> {
    const NO_PASSWORD: Error = Error::text(
        "ERR AUTH <password> called without any password configured for the default user. \
        Are you sure your configuration is correct?",
    );
    match *call.args {
        [_, _] if call.engine.users.default_needs_no_password() => return Err(NO_PASSWORD.into()),
        [_, password] => log_in(call.engine, call.session, DEFAULT.as_bytes(), password)?,
        [_, user, password] => log_in(call.engine, call.session, user, password)?,
        _ => return Err(Error::SYNTAX.into()),
    }
    call.reply.ok();
    Ok(())
}

/// Makes the session act for a user, if the password is right.
fn log_in(
    engine: &mut Engine,
    session: &mut Session,
    user: &[u8],
    password: &[u8],
) -> Result<(), Error> {
    let known = engine.users.get(user);
    let right = known.is_some_and(|user| user.admits(password));
    let name = String::from_utf8_lossy(user);
    if !right {
        let command = session.last_command.map_or("auth", |command| command.name);
        let object = command.to_uppercase().into_bytes();
        log_denied(engine, session, &name, "toplevel", ("auth", object));
        return Err(WRONG_PASSWORD);
    }
    session.user = name.into();
    session.authenticated = true;
    Ok(())
}

/// A name as CLIENT LIST can show it between spaces: up to a zero byte.
pub(super) fn checked_name(name: &[u8]) -> Result<Vec<u8>, Error> {
    if is_plain(name) {
        return Ok(name.to_vec());
    }
    Err(Error::text(
        "ERR Client names cannot contain spaces, newlines or special characters.",
    ))
}

pub(super) fn is_plain(text: &[u8]) -> bool {
    number::before_zero(text).iter().all(u8::is_ascii_graphic)
}

fn echo(call: &mut Call<'_>) -> Result<(), Stop> {
    call.reply.bulk(call.arg(1));
    Ok(())
}

fn hello(call: &mut Call<'_>) -> Result<(), Stop> {
    let asked = parse_hello(call)?;
    if let Some((user, password)) = asked.login {
        log_in(call.engine, call.session, user, password)?;
    }
    if !call.session.authenticated {
        return Err(Error::text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
            HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
            select the RESP protocol version at the same time",
        )
        .into());
    }
    if let Some(name) = asked.name {
        call.session.name = name;
    }
    if let Some(protocol) = asked.protocol {
        call.session.protocol = protocol;
        call.reply.set_protocol(protocol);
    }
    write_hello(call);
    Ok(())
}

/// What HELLO asks for.
struct Hello<'a> {
    protocol: Option<Protocol>,
    login: Option<(&'a [u8], &'a [u8])>,
    name: Option<Vec<u8>>,
}

fn parse_hello<'a>(call: &Call<'a>) -> Result<Hello<'a>, Error> {
    let mut options = call.options(1);
    let mut asked = Hello {
        protocol: None,
        login: None,
        name: None,
    };
    let Some(version) = options.next() else {
        return Ok(asked);
    };
    asked.protocol = Some(match number::parse_i64(version) {
        Some(2) => Protocol::Resp2,
        Some(3) => Protocol::Resp3,
        Some(_) => return Err(Error::text("NOPROTO unsupported protocol version")),
        None => {
            let text = "ERR Protocol version is not an integer or out of range";
            return Err(Error::text(text));
        }
    });
    while let Some(option) = options.next() {
        if is_word(option, "AUTH") && options.len() >= 2 {
            asked.login = Some((options.value()?, options.value()?));
        } else if is_word(option, "SETNAME") && !options.is_empty() {
            asked.name = Some(checked_name(options.value()?)?);
        } else {
            let text = [b"ERR Syntax error in HELLO option '", option, b"'"].concat();
            return Err(Error::owned(text));
        }
    }
    Ok(asked)
}

fn write_hello(call: &mut Call<'_>) {
    let version = match call.session.protocol {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    };
    let engine = &*call.engine;
    let server = if engine.config.is_on("extended-redis-compatibility") {
        "redis"
    } else {
        "khoa"
    };
    let reply = &mut *call.reply;
    let zone = engine.config.get("availability-zone");
    reply.map(7 + usize::from(!zone.is_empty()));
    for (name, value) in [("server", server), ("version", REDIS_VERSION)] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(version);
    reply.bulk(b"id");
    reply.integer(call.session.id.number as i64);
    let mode = info::mode(engine);
    for (name, value) in [("mode", mode), ("role", "master")] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
    if !zone.is_empty() {
        reply.bulk(b"availability_zone");
        reply.bulk(zone.as_bytes());
    }
}

fn ping(call: &mut Call<'_>) -> Result<(), Stop> {
    if call.args.len() > 2 {
        return Err(call.wrong_arity().into());
    }
    // A RESP2 subscriber can tell replies from messages only by their shape.
    if call.session.protocol == Protocol::Resp2 && call.session.subscriptions() > 0 {
        call.reply.array(2);
        call.reply.bulk(b"pong");
        call.reply.bulk(call.arg(1));
    } else if call.args.len() == 2 {
        call.reply.bulk(call.arg(1));
    } else {
        call.reply.simple("PONG");
    }
    Ok(())
}

fn quit(call: &mut Call<'_>) -> Result<(), Stop> {
    call.session.closing = true;
    call.reply.ok();
    Ok(())
}

fn reset(call: &mut Call<'_>) -> Result<(), Stop> {
    call.engine.reset_session(call.session);
    let authenticated = call.engine.is_open();
    let session = &mut *call.session;
    session.db = 0;
    session.name.clear();
    session.user = "default".into();
    session.authenticated = authenticated;
    session.protocol = Protocol::Resp2;
    if session.reply_mode == ReplyMode::Off {
        session.reply_mode = ReplyMode::On;
    }
    session.no_evict = false;
    session.no_touch = false;
    session.follows_redirects = false;
    call.reply.set_protocol(Protocol::Resp2);
    call.reply.simple("RESET");
    Ok(())
}

fn select(call: &mut Call<'_>) -> Result<(), Stop> {
    call.session.db = keys::database(call.engine, call.int(1)?)?;
    call.engine.keys.select(call.session.db);
    call.reply.ok();
    Ok(())
}
