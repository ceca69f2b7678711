//! MIGRATE: what a request says of keys that are to move to another server.
//!
//! The moving itself needs a socket, which the engine has none of. So the request waits, as one
//! that waits for a key does, and leaves an errand for the shell (`errand`), which ends the wait.

use std::time::Duration;

use super::*;
use crate::{
    blocking::OnTimeout,
    bytestr::ByteStr,
    clock::Time,
    command::{
        serialization,
        spec::{Begin, Categories, Find, Flags, KeySpec},
    },
    errand::{Errand, Login, Parcel},
};

pub const COMMANDS: &[Command] = &[Command {
    name: "migrate",
    arity: -6,
    flags: Flags::of([Flags::WRITE, Flags::MOVABLEKEYS]),
    categories: Categories::of([Categories::KEYSPACE, Categories::DANGEROUS]),
    keys: &[
        KeySpec::one("RW access delete", 3),
        KeySpec {
            flags: "RW access delete incomplete",
            notes: "",
            begin: Begin::Keyword {
                word: "KEYS",
                from: -2,
            },
            find: Find::Range {
                last: -1,
                step: 1,
                limit: 0,
            },
        },
    ],
    tips: &["nondeterministic_output"],
    since: "2.6.0",
    history: &[
        ("3.0.0", "Knows `COPY` and `REPLACE`."),
        ("3.0.6", "Knows `KEYS`."),
        ("4.0.7", "Knows `AUTH`."),
        ("6.0.0", "Knows `AUTH2`."),
    ],
    summary: "Moves keys to another server.",
    complexity: "O(N) where N is the size of the values, dumped, sent and restored",
    args: "host:string port:integer key-selector<key:key|empty-string=> destination-db:integer \
           timeout:integer [COPY{3.0.0}] [REPLACE{3.0.0}] \
           [authentication<AUTH@auth:string{=password 4.0.7}|AUTH2@auth2(username:string \
           password:string){6.0.0}>] [KEYS@keys:key{=key 3.0.6}...]",
    handler: migrate,
    ..Command::BASE
}];

/// How long a migration may take when it says 0, in milliseconds.
const TIMEOUT_DEFAULT_MS: i64 = 1000;
/// What is left to the errand for telling its own failure before the wait ends by itself.
const GRACE: u64 = 1_000_000;

fn migrate(call: &mut Call<'_>) -> Result<(), Stop> {
    let options = Plan::parse(call)?;
    let timeout = call.int(5)?;
    let db = call.int(4)?;
    let timeout = Duration::from_millis(if timeout <= 0 {
        TIMEOUT_DEFAULT_MS
    } else {
        timeout
    } as u64);
    let parcels: Vec<Parcel> = options
        .keys
        .iter()
        .filter_map(|key| pack(call, key))
        .collect();
    if parcels.is_empty() {
        call.reply.simple("NOKEY");
        return Ok(());
    }
    if !call.session.may_block() {
        const NOT_HERE: Error = Error::text(
            "ERR MIGRATE cannot wait for another server inside a transaction or a script",
        );
        return Err(NOT_HERE.into());
    }
    call.engine.errands.push(Errand {
        client: call.session.id,
        host: String::from_utf8_lossy(call.arg(1)).into_owned(),
        port: number::parse_i64(call.arg(2))
            .and_then(|port| u16::try_from(port).ok())
            .unwrap_or(0),
        from: call.session.db,
        to: db,
        timeout,
        login: options.login,
        replace: options.replace,
        copy: options.copy,
        parcels,
    });
    let until = Time(
        call.engine
            .keys
            .now()
            .0
            .saturating_add(timeout.as_micros() as u64 * 2 + GRACE),
    );
    Err(Stop::Wait(Wait {
        keys: Vec::new(),
        until: Some(until),
        on_timeout: OnTimeout::Null,
        on_loss: false,
        args: None,
    }))
}

/// A key as it is now, ready to be restored elsewhere.
fn pack(call: &mut Call<'_>, key: &[u8]) -> Option<Parcel> {
    let (limits, now) = (call.engine.config.hot.limits, call.now_ms());
    let entry = call.engine.keys.peek(key)?;
    let ttl_ms = entry
        .deadline()
        .map_or(0, |at| at.saturating_sub(now).max(1));
    let payload = serialization::encode(&entry.value, limits);
    Some(Parcel {
        key: ByteStr::new(key),
        ttl_ms,
        payload,
    })
}

/// The options of MIGRATE.
struct Plan<'a> {
    copy: bool,
    replace: bool,
    login: Option<Login>,
    keys: Vec<&'a [u8]>,
}

impl<'a> Plan<'a> {
    fn parse(call: &Call<'a>) -> Result<Plan<'a>, Error> {
        const NOT_EMPTY: Error = Error::text(
            "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
        );
        let mut parsed = Plan {
            copy: false,
            replace: false,
            login: None,
            keys: vec![call.arg(3)],
        };
        let mut options = call.options(6);
        while !options.is_empty() {
            if options.take("COPY") {
                parsed.copy = true;
            } else if options.take("REPLACE") {
                parsed.replace = true;
            } else if options.len() > 1 && options.take("AUTH") {
                let password = options.value()?.to_vec();
                parsed.login = Some(Login {
                    user: None,
                    password,
                });
            } else if options.len() > 2 && options.take("AUTH2") {
                let user = Some(options.value()?.to_vec());
                parsed.login = Some(Login {
                    user,
                    password: options.value()?.to_vec(),
                });
            } else if options.take("KEYS") {
                if !call.arg(3).is_empty() {
                    return Err(NOT_EMPTY);
                }
                parsed.keys = options.rest().to_vec();
                break;
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok(parsed)
    }
}
