//! CLIENT: what connections there are, what each wants, and power over the others.

use super::{
    connection::{checked_name, is_plain},
    *,
};
use crate::{
    blocking,
    client_list::{self, Filter},
    command::spec::{Categories, Flags},
    engine::Pause,
    session::{ClientId, ReplyMode, Session},
    tracking::{Mode, overlap},
};

pub const COMMANDS: &[Command] = &[Command {
    name: "client",
    arity: -2,
    group: "connection",
    since: "2.4.0",
    summary: "Holds the commands about client connections.",
    complexity: "that of the subcommand",
    subcommands: &[
        Command {
            name: "client|caching",
            arity: 3,
            flags: Flags::of([
                Flags::NOSCRIPT,
                Flags::LOADING,
                Flags::STALE,
                Flags::ALLOW_BUSY,
            ]),
            categories: Categories::CONNECTION,
            group: "connection",
            since: "6.0.0",
            summary: "Says whether the keys of the next command are tracked, in opt-in or \
                    opt-out mode.",
            args: "mode<YES|NO>",
            handler: client_caching,
            ..Command::BASE
        },
        Command {
            name: "client|capa",
            arity: -3,
            flags: Flags::of([
                Flags::NOSCRIPT,
                Flags::LOADING,
                Flags::STALE,
                Flags::ALLOW_BUSY,
            ]),
            categories: Categories::CONNECTION,
            group: "connection",
            since: "8.0.0",
            summary: "Tells the server what this client is able to handle.",
            args: "capability:string...",
            handler: client_capa,
            ..Command::BASE
        },
        Command {
            name: "client|getname",
            arity: 2,
            flags: Flags::of([
                Flags::NOSCRIPT,
                Flags::LOADING,
                Flags::STALE,
                Flags::ALLOW_BUSY,
            ]),
            categories: Categories::CONNECTION,
            group: "connection",
            since: "2.6.9",
            summary: "Returns the name of the connection.",
            handler: client_getname,
            ..Command::BASE
        },
        Command {
            name: "client|getredir",
            arity: 2,
            flags: Flags::of([
                Flags::NOSCRIPT,
                Flags::LOADING,
                Flags::STALE,
                Flags::ALLOW_BUSY,
            ]),
            categories: Categories::CONNECTION,
            group: "connection",
            since: "6.0.0",
            summary: "Returns the id of the client that receives the tracking messages.",
            handler: client_getredir,
            ..Command::BASE
        },
        Command {
            name: "client|help",
            arity: 2,
            flags: Flags::of([Flags::LOADING, Flags::STALE]),
            categories: Categories::CONNECTION,
            group: "connection",
            since: "5.0.0",
            summary: "Lists the subcommands with a line about each.",
            handler: help::help,
            ..Command::BASE
        },
        Command {
            name: "client|id",
            arity: 2,
            flags: Flags::of([
                Flags::NOSCRIPT,
                Flags::LOADING,
                Flags::STALE,
                Flags::ALLOW_BUSY,
            ]),
            categories: Categories::CONNECTION,
            group: "connection",
            since: "5.0.0",
            summary: "Returns the id of the connection.",
            handler: client_id,
            ..Command::BASE
        },
        Command {
            name: "client|import-source",
            arity: 3,
            flags: Flags::of([Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
            categories: Categories::CONNECTION,
            group: "connection",
            since: "8.1.0",
            summary: "Marks the connection as one that imports data.",
            args: "enabled<ON|OFF>",
            handler: client_import_source,
            ..Command::BASE
        },
        Command {
            name: "client|info",
            arity: 2,
            flags: Flags::of([Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
            categories: Categories::CONNECTION,
            tips: &["nondeterministic_output"],
            group: "connection",
            since: "6.2.0",
            summary: "Returns a line that describes the connection.",
            handler: client_info,
            ..Command::BASE
        },
        Command {
            name: "client|kill",
            arity: -3,
            flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
            categories: Categories::CONNECTION,
            group: "connection",
            since: "2.4.0",
            history: &[
                ("2.8.12", "Takes filters."),
                ("2.8.12", "Filters by `ID`."),
                ("3.2.0", "Knows the type `master`."),
                (
                    "5.0.0",
                    "Knows the type `replica`, of which `slave` is an older name.",
                ),
                ("6.2.0", "Filters by `LADDR`."),
                ("8.0.0", "Filters by `MAXAGE`."),
                (
                    "8.0.0",
                    "Knows the type `primary`, of which `master` is an older name.",
                ),
                ("8.1.0", "Takes several numbers behind `ID`."),
                (
                    "9.0.0",
                    "Filters by `NAME`, `IDLE`, `FLAGS`, `LIB-NAME`, `LIB-VER`, `DB`, `CAPA` \
                     and `IP`, and by the opposites of all filters.",
                ),
            ],
            summary: "Closes the connections that fit the filters.",
            complexity: "O(N) where N is the number of clients",
            args: "filter<old-format:string{=ip:port <2.8.12}|\
                   new-format<[ID@client-id:integer{2.8.12}...]|[TYPE@client-type<NORMAL|\
                   MASTER{3.2.0}|PRIMARY{8.0.0}|SLAVE|REPLICA{5.0.0}|PUBSUB>{2.8.12}]|\
                   [USER@username:string]|[ADDR@addr:string{=ip:port}]|\
                   [LADDR@laddr:string{=ip:port 6.2.0}]|[SKIPME@skipme<YES|NO>]|\
                   [MAXAGE@maxage:integer{8.0.0}]|[NAME@name:string{9.0.0}]|\
                   [IDLE@idle:integer{9.0.0}]|[FLAGS@flags:string{9.0.0}]|\
                   [LIB-NAME@lib-name:string{9.0.0}]|[LIB-VER@lib-ver:string{9.0.0}]|\
                   [DB@db:integer{9.0.0}]|[CAPA@capa:string{9.0.0}]|[IP@ip:string{9.0.0}]|\
                   [NOT-TYPE@not-client-type<NORMAL|MASTER|PRIMARY|SLAVE|REPLICA|PUBSUB>{9.0.0}]|\
                   [NOT-ID@not-client-id:integer{9.0.0}...]|[NOT-USER@not-username:string{9.0.0}]|\
                   [NOT-ADDR@not-addr:string{=ip:port 9.0.0}]|\
                   [NOT-LADDR@not-laddr:string{=ip:port 9.0.0}]|[NOT-NAME@not-name:string{9.0.0}]|\
                   [NOT-FLAGS@not-flags:string{9.0.0}]|[NOT-LIB-NAME@not-lib-name:string{9.0.0}]|\
                   [NOT-LIB-VER@not-lib-ver:string{9.0.0}]|[NOT-DB@not-db:integer{9.0.0}]|\
                   [NOT-CAPA@not-capa:string{9.0.0}]|[NOT-IP@not-ip:string{9.0.0}]>...>",
            handler: client_kill,
            ..Command::BASE
        },
        Command {
            name: "client|list",
            arity: -2,
            flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
            categories: Categories::CONNECTION,
            tips: &["nondeterministic_output"],
            group: "connection",
            since: "2.4.0",
            history: &[
                ("2.8.12", "Shows `id`."),
                ("5.0.0", "Filters by `TYPE`."),
                ("6.0.0", "Shows `user`."),
                (
                    "6.2.0",
                    "Shows `argv-mem`, `tot-mem`, `laddr` and `redir`, and filters by `ID`.",
                ),
                ("7.0.0", "Shows `resp`, `multi-mem`, `rbs` and `rbp`."),
                ("7.0.3", "Shows `ssub`."),
                (
                    "8.0.0",
                    "Knows the type `primary`, of which `master` is an older name.",
                ),
                (
                    "8.1.0",
                    "Filters by `USER`, `ADDR`, `LADDR`, `SKIPME` and `MAXAGE`.",
                ),
                (
                    "9.0.0",
                    "Filters by `NAME`, `IDLE`, `FLAGS`, `LIB-NAME`, `LIB-VER`, `DB`, `CAPA` \
                     and `IP`, and by the opposites of all filters.",
                ),
            ],
            summary: "Returns a line for every connection that fits the filters.",
            complexity: "O(N) where N is the number of clients",
            args: "[TYPE@client-type<NORMAL|MASTER|REPLICA|PUBSUB>{5.0.0}] \
                   [ID@client-id:integer{6.2.0}...] [USER@username:string{8.1.0}] \
                   [ADDR@addr:string{=ip:port 8.1.0}] [LADDR@laddr:string{=ip:port 8.1.0}] \
                   [SKIPME@skipme<YES|NO>{8.1.0}] [MAXAGE@maxage:integer{8.1.0}] \
                   [NAME@name:string{9.0.0}] [IDLE@idle:integer{9.0.0}] \
                   [FLAGS@flags:string{9.0.0}] [LIB-NAME@lib-name:string{9.0.0}] \
                   [LIB-VER@lib-ver:string{9.0.0}] [DB@db:integer{9.0.0}] \
                   [CAPA@capa:string{9.0.0}] [IP@ip:string{9.0.0}] \
                   [NOT-TYPE@not-client-type<NORMAL|MASTER|REPLICA|PUBSUB>{9.0.0}] \
                   [NOT-ID@not-client-id:integer{9.0.0}...] [NOT-USER@not-username:string{9.0.0}] \
                   [NOT-ADDR@not-addr:string{=ip:port 9.0.0}] \
                   [NOT-LADDR@not-laddr:string{=ip:port 9.0.0}] [NOT-NAME@not-name:string{9.0.0}] \
                   [NOT-FLAGS@not-flags:string{9.0.0}] [NOT-LIB-NAME@not-lib-name:string{9.0.0}] \
                   [NOT-LIB-VER@not-lib-ver:string{9.0.0}] [NOT-DB@not-db:integer{9.0.0}] \
                   [NOT-CAPA@not-capa:string{9.0.0}] [NOT-IP@not-ip:string{9.0.0}]",
            handler: client_list,
            ..Command::BASE
        },
        Command {
            name: "client|no-evict",
            arity: 3,
            flags: Flags::of([
                Flags::ADMIN,
                Flags::NOSCRIPT,
                Flags::LOADING,
                Flags::STALE,
                Flags::ALLOW_BUSY,
            ]),
            categories: Categories::CONNECTION,
            group: "connection",
            since: "7.0.0",
            summary: "Exempts the connection from eviction of clients, or ends that.",
            args: "enabled<ON|OFF>",
            handler: client_no_evict,
            ..Command::BASE
        },
        Command {
            name: "client|no-touch",
            arity: 3,
            flags: Flags::of([
                Flags::NOSCRIPT,
                Flags::LOADING,
                Flags::STALE,
                Flags::ALLOW_BUSY,
            ]),
            categories: Categories::CONNECTION,
            group: "connection",
            since: "7.2.0",
            summary: "Says whether this client's reads count as use of the keys.",
            args: "enabled<ON|OFF>",
            handler: client_no_touch,
            ..Command::BASE
        },
        Command {
            name: "client|pause",
            arity: -3,
            flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
            categories: Categories::CONNECTION,
            group: "connection",
            since: "3.0.0",
            history: &[("6.2.0", "Holds back writes only when asked to.")],
            summary: "Holds back the commands of all clients for a time.",
            args: "timeout:integer [mode<WRITE|ALL>{6.2.0}]",
            handler: client_pause,
            ..Command::BASE
        },
        Command {
            name: "client|reply",
            arity: 3,
            flags: Flags::of([
                Flags::NOSCRIPT,
                Flags::LOADING,
                Flags::STALE,
                Flags::NO_MULTI,
                Flags::ALLOW_BUSY,
            ]),
            categories: Categories::CONNECTION,
            group: "connection",
            since: "3.2.0",
            summary: "Turns replies on or off, or skips the next one.",
            args: "action<ON|OFF|SKIP>",
            handler: client_reply,
            ..Command::BASE
        },
        Command {
            name: "client|setinfo",
            arity: 4,
            flags: Flags::of([
                Flags::NOSCRIPT,
                Flags::LOADING,
                Flags::STALE,
                Flags::ALLOW_BUSY,
            ]),
            categories: Categories::CONNECTION,
            tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
            group: "connection",
            since: "7.2.0",
            summary: "Records the name or version of the client library.",
            args: "attr<LIB-NAME@libname:string|LIB-VER@libver:string>",
            handler: client_setinfo,
            ..Command::BASE
        },
        Command {
            name: "client|setname",
            arity: 3,
            flags: Flags::of([
                Flags::NOSCRIPT,
                Flags::LOADING,
                Flags::STALE,
                Flags::ALLOW_BUSY,
            ]),
            categories: Categories::CONNECTION,
            tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
            group: "connection",
            since: "2.6.9",
            summary: "Names the connection.",
            args: "connection-name:string",
            handler: client_setname,
            ..Command::BASE
        },
        Command {
            name: "client|tracking",
            arity: -3,
            flags: Flags::of([Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
            categories: Categories::CONNECTION,
            group: "connection",
            since: "6.0.0",
            summary: "Turns server-assisted caching on or off for the connection.",
            complexity: "O(1), more with prefixes",
            args: "status<ON|OFF> [REDIRECT@client-id:integer] [PREFIX@prefix:string.!.] \
                    [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
            handler: client_tracking,
            ..Command::BASE
        },
        Command {
            name: "client|trackinginfo",
            arity: 2,
            flags: Flags::of([Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
            categories: Categories::CONNECTION,
            group: "connection",
            since: "6.2.0",
            summary: "Returns how the connection's tracking is set up.",
            handler: client_trackinginfo,
            ..Command::BASE
        },
        Command {
            name: "client|unblock",
            arity: -3,
            flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
            categories: Categories::CONNECTION,
            group: "connection",
            since: "5.0.0",
            summary: "Wakes a client that waits in a blocking command.",
            complexity: "O(log N) where N is the number of clients",
            args: "client-id:integer [unblock-type<TIMEOUT|ERROR>]",
            handler: client_unblock,
            ..Command::BASE
        },
        Command {
            name: "client|unpause",
            arity: 2,
            flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
            categories: Categories::CONNECTION,
            group: "connection",
            since: "6.2.0",
            summary: "Lets paused clients go on.",
            complexity: "O(N) where N is the number of paused clients",
            handler: client_unpause,
            ..Command::BASE
        },
    ],
    ..Command::BASE
}];

fn client_caching(call: &mut Call<'_>) -> Result<(), Stop> {
    let mode = call.engine.tracking.mode(call.session.id);
    let Some(mode) = mode else {
        return Err(Error::text(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with \
            OPTIN or OPTOUT mode enabled",
        )
        .into());
    };
    if is_word(call.arg(2), "YES") {
        if !mode.opt_in {
            let text =
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.";
            return Err(Error::text(text).into());
        }
        call.session.caching = Some(true);
    } else if is_word(call.arg(2), "NO") {
        if !mode.opt_out {
            let text =
                "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.";
            return Err(Error::text(text).into());
        }
        call.session.caching = Some(false);
    } else {
        return Err(Error::SYNTAX.into());
    }
    call.reply.ok();
    Ok(())
}

fn client_capa(call: &mut Call<'_>) -> Result<(), Stop> {
    if call.args[2..].iter().any(|word| is_word(word, "REDIRECT")) {
        call.session.follows_redirects = true;
    }
    call.reply.ok();
    Ok(())
}

fn client_getname(call: &mut Call<'_>) -> Result<(), Stop> {
    if call.session.name.is_empty() {
        call.reply.null();
    } else {
        call.reply.bulk(&call.session.name);
    }
    Ok(())
}

fn client_getredir(call: &mut Call<'_>) -> Result<(), Stop> {
    let number = client_list::redirection(call.session, call.engine);
    call.reply.integer(number);
    Ok(())
}

fn client_id(call: &mut Call<'_>) -> Result<(), Stop> {
    call.reply.integer(call.session.id.number as i64);
    Ok(())
}

fn client_import_source(call: &mut Call<'_>) -> Result<(), Stop> {
    if is_word(call.arg(2), "OFF") {
        call.reply.ok();
        return Ok(());
    }
    Err(Error::text("ERR Server is not in import mode").into())
}

fn client_info(call: &mut Call<'_>) -> Result<(), Stop> {
    let mut line = Vec::new();
    client_list::describe(&mut line, call.session, call.engine, size_of_args(call));
    call.reply.verbatim(b"txt", &line);
    Ok(())
}

fn size_of_args(call: &Call<'_>) -> usize {
    call.args.iter().map(|arg| arg.len()).sum()
}

fn client_kill(call: &mut Call<'_>) -> Result<(), Stop> {
    if call.args.len() == 3 {
        return kill_by_address(call);
    }
    let filter = Filter::parse(call.options(2), true, call.engine)?;
    let me = !filter.skip_me && filter.accepts(call.session, call.engine);
    let killed = kill_others(call.engine, &filter) + i64::from(me);
    call.session.closing |= me;
    call.reply.integer(killed);
    Ok(())
}

fn kill_by_address(call: &mut Call<'_>) -> Result<(), Stop> {
    let addr = call.arg(2);
    if call.session.addr.as_bytes() == addr {
        call.session.closing = true;
    } else {
        let other = call
            .engine
            .sessions
            .iter()
            .find(|session| session.addr.as_bytes() == addr)
            .map(|session| session.id)
            .ok_or(Error::text("ERR No such client"))?;
        call.engine.kill(other);
    }
    call.reply.ok();
    Ok(())
}

fn kill_others(engine: &mut Engine, filter: &Filter) -> i64 {
    let chosen: Vec<ClientId> = engine
        .sessions
        .iter()
        .filter(|session| filter.accepts(session, engine))
        .map(|session| session.id)
        .collect();
    for &id in &chosen {
        engine.kill(id);
    }
    chosen.len() as i64
}

fn client_list(call: &mut Call<'_>) -> Result<(), Stop> {
    let filter = Filter::parse(call.options(2), false, call.engine)?;
    let mut chosen: Vec<&Session> = call
        .engine
        .sessions
        .iter()
        .chain((!filter.skip_me).then_some(&*call.session))
        .filter(|session| filter.accepts(session, call.engine))
        .collect();
    chosen.sort_by_key(|session| session.id);
    let mut lines = Vec::new();
    for session in chosen {
        let mine = session.id == call.session.id;
        let argv = if mine { size_of_args(call) } else { 0 };
        client_list::describe(&mut lines, session, call.engine, argv);
    }
    call.reply.verbatim(b"txt", &lines);
    Ok(())
}

fn client_no_evict(call: &mut Call<'_>) -> Result<(), Stop> {
    call.session.no_evict = on_or_off(call.arg(2))?;
    call.reply.ok();
    Ok(())
}

fn client_no_touch(call: &mut Call<'_>) -> Result<(), Stop> {
    call.session.no_touch = on_or_off(call.arg(2))?;
    call.reply.ok();
    Ok(())
}

fn on_or_off(word: &[u8]) -> Result<bool, Error> {
    if is_word(word, "ON") {
        Ok(true)
    } else if is_word(word, "OFF") {
        Ok(false)
    } else {
        Err(Error::SYNTAX)
    }
}

fn client_pause(call: &mut Call<'_>) -> Result<(), Stop> {
    let writes_only = match call.args.get(3) {
        None => false,
        Some(mode) if is_word(mode, "WRITE") => true,
        Some(mode) if is_word(mode, "ALL") => false,
        Some(_) => return Err(Error::text("ERR CLIENT PAUSE mode must be WRITE or ALL").into()),
    };
    let now = call.engine.keys.now();
    // A pause of no time at all is over at once, not endless.
    let until = blocking::parse_timeout_ms(call.arg(2), now)?.unwrap_or(now);
    call.engine.pause(Pause { until, writes_only });
    call.reply.ok();
    Ok(())
}

fn client_reply(call: &mut Call<'_>) -> Result<(), Stop> {
    let mode = call.arg(2);
    if is_word(mode, "ON") {
        call.session.reply_mode = ReplyMode::On;
        call.reply.ok();
    } else if is_word(mode, "OFF") {
        call.session.reply_mode = ReplyMode::Off;
    } else if !is_word(mode, "SKIP") {
        return Err(Error::SYNTAX.into());
    } else if call.session.reply_mode != ReplyMode::Off {
        call.session.reply_mode = ReplyMode::SkipNext;
    }
    Ok(())
}

fn client_setinfo(call: &mut Call<'_>) -> Result<(), Stop> {
    let (attribute, value) = (call.arg(2), call.arg(3));
    let place = if is_word(attribute, "LIB-NAME") {
        &mut call.session.lib_name
    } else if is_word(attribute, "LIB-VER") {
        &mut call.session.lib_ver
    } else {
        return Err(Error::quoting([b"ERR Unrecognized option '", attribute, b"'"]).into());
    };
    if !is_plain(value) {
        let text = b" cannot contain spaces, newlines or special characters.";
        return Err(Error::quoting([b"ERR ", attribute, text]).into());
    }
    *place = value.to_vec();
    call.reply.ok();
    Ok(())
}

fn client_setname(call: &mut Call<'_>) -> Result<(), Stop> {
    call.session.name = checked_name(call.arg(2))?;
    call.reply.ok();
    Ok(())
}

fn client_tracking(call: &mut Call<'_>) -> Result<(), Stop> {
    let (mode, mut prefixes) = parse_tracking(call)?;
    if is_word(call.arg(2), "OFF") {
        call.engine.tracking.stop(call.session.id);
        call.session.tracking = false;
        call.session.caching = None;
    } else if is_word(call.arg(2), "ON") {
        check_tracking(call, mode, &prefixes)?;
        if mode.broadcast && prefixes.is_empty() {
            prefixes.push(b"");
        }
        call.engine.tracking.start(call.session.id, mode, &prefixes);
        call.session.tracking = true;
    } else {
        return Err(Error::SYNTAX.into());
    }
    call.engine.refresh_observed();
    call.reply.ok();
    Ok(())
}

fn parse_tracking<'a>(call: &Call<'a>) -> Result<(Mode, Vec<&'a [u8]>), Error> {
    const MISSING: Error = Error::text("ERR The client ID you want redirect to does not exist");
    const TWICE: Error = Error::text("ERR A client can only redirect to a single other client");
    let (mut mode, mut prefixes) = (Mode::default(), Vec::new());
    let mut options = call.options(3);
    while let Some(word) = options.next() {
        if is_word(word, "REDIRECT") && !options.is_empty() {
            if mode.redirect.is_some() {
                return Err(TWICE);
            }
            let number = u64::try_from(options.int()?).map_err(|_| MISSING)?;
            call.engine.sessions.by_number(number).ok_or(MISSING)?;
            mode.redirect = Some(number);
        } else if is_word(word, "PREFIX") && !options.is_empty() {
            prefixes.push(options.value()?);
        } else {
            match () {
                () if is_word(word, "BCAST") => mode.broadcast = true,
                () if is_word(word, "OPTIN") => mode.opt_in = true,
                () if is_word(word, "OPTOUT") => mode.opt_out = true,
                () if is_word(word, "NOLOOP") => mode.no_loop = true,
                () => return Err(Error::SYNTAX),
            }
        }
    }
    Ok((mode, prefixes))
}

/// May the client track like this, given how it tracks already?
fn check_tracking(call: &Call<'_>, mode: Mode, prefixes: &[&[u8]]) -> Result<(), Error> {
    let present = call.engine.tracking.mode(call.session.id);
    if !mode.broadcast && !prefixes.is_empty() {
        let text = "ERR PREFIX option requires BCAST mode to be enabled";
        return Err(Error::text(text));
    }
    if present.is_some_and(|present| present.broadcast != mode.broadcast) {
        return Err(Error::text(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, \
            and then re-enabling it with a different mode.",
        ));
    }
    if mode.broadcast && (mode.opt_in || mode.opt_out) {
        return Err(Error::text(
            "ERR OPTIN and OPTOUT are not compatible with BCAST",
        ));
    }
    if mode.opt_in && mode.opt_out {
        let text = "ERR You can't specify both OPTIN mode and OPTOUT mode";
        return Err(Error::text(text));
    }
    if present
        .is_some_and(|present| mode.opt_in && present.opt_out || mode.opt_out && present.opt_in)
    {
        return Err(Error::text(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, \
            and then re-enabling it with a different mode.",
        ));
    }
    let known = call.engine.tracking.prefixes_of(call.session.id);
    match overlap(prefixes, &known) {
        Some((one, other, existing)) if mode.broadcast => {
            let kind: &[u8] = if existing {
                b"an existing"
            } else {
                b"another provided"
            };
            Err(Error::quoting([
                b"ERR Prefix '",
                one,
                b"' overlaps with ",
                kind,
                b" prefix '",
                other,
                b"'. Prefixes for a single client must not overlap.",
            ]))
        }
        _ => Ok(()),
    }
}

fn client_trackinginfo(call: &mut Call<'_>) -> Result<(), Stop> {
    let found = call.engine.tracking.mode(call.session.id);
    let mode = found.unwrap_or_default();
    let caching = call.session.caching;
    let flags = [
        ("off", found.is_none()),
        ("on", found.is_some()),
        ("bcast", mode.broadcast),
        ("optin", mode.opt_in),
        ("caching-yes", caching == Some(true)),
        ("optout", mode.opt_out),
        ("caching-no", caching == Some(false)),
        ("noloop", mode.no_loop),
        ("broken_redirect", mode.broken),
    ];
    let flags: Vec<&str> = flags
        .into_iter()
        .filter_map(|(name, set)| set.then_some(name))
        .collect();
    call.reply.map(3);
    call.reply.bulk(b"flags");
    call.reply.set(flags.len());
    for flag in flags {
        call.reply.bulk(flag.as_bytes());
    }
    call.reply.bulk(b"redirect");
    let number = client_list::redirection(call.session, call.engine);
    call.reply.integer(number);
    call.reply.bulk(b"prefixes");
    let prefixes = call.engine.tracking.prefixes_of(call.session.id);
    call.reply.array(prefixes.len());
    for prefix in &prefixes {
        call.reply.bulk(prefix);
    }
    Ok(())
}

fn client_unblock(call: &mut Call<'_>) -> Result<(), Stop> {
    // More words than one are not looked at.
    let with_error = match call.args.get(3).filter(|_| call.args.len() == 4) {
        None => false,
        Some(reason) if is_word(reason, "TIMEOUT") => false,
        Some(reason) if is_word(reason, "ERROR") => true,
        Some(_) => {
            let text = "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR";
            return Err(Error::text(text).into());
        }
    };
    let found = u64::try_from(call.int(2)?)
        .ok()
        .and_then(|number| call.engine.sessions.by_number(number));
    let unblocked = found.is_some_and(|id| {
        call.engine.end_wait(id, |waiting, reply| {
            if with_error {
                reply.error(&Error::text(
                    "UNBLOCKED client unblocked via CLIENT UNBLOCK",
                ));
            } else {
                waiting.wait.on_timeout.write(reply);
            }
        })
    });
    call.reply.integer(i64::from(unblocked));
    Ok(())
}

fn client_unpause(call: &mut Call<'_>) -> Result<(), Stop> {
    call.engine.unpause();
    call.reply.ok();
    Ok(())
}
