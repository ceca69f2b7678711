//! MONITOR: every request, as a line, to whoever asked for it.

use std::fmt::Write;

use crate::{
    command::{Command, Flags},
    engine::Engine,
    reply::Reply,
    session::Session,
};

/// Sends a request that is about to run to all monitors.
pub fn feed(engine: &mut Engine, session: &Session, command: &Command, args: &[&[u8]]) {
    if command.flags.has(Flags::SKIP_MONITOR) || command.flags.has(Flags::ADMIN) {
        return;
    }
    let line = line(engine, session, &session.addr, command, args);
    broadcast(engine, &line);
}

/// Sends a command that a script runs to all monitors.
pub fn feed_script(engine: &mut Engine, session: &Session, command: &Command, args: &[&[u8]]) {
    if !engine.monitors.is_empty() && !command.flags.has(Flags::SKIP_MONITOR) {
        let line = line(engine, session, "lua", command, args);
        broadcast(engine, &line);
    }
}

fn broadcast(engine: &mut Engine, line: &str) {
    for id in engine.monitors.clone() {
        engine.send(id, |encoder| encoder.simple(line));
    }
}

fn line(
    engine: &Engine,
    session: &Session,
    from: &str,
    command: &Command,
    args: &[&[u8]],
) -> String {
    let now = engine.keys.now();
    let (seconds, micros) = (now.seconds(), now.micros() % 1_000_000);
    let mut line = format!("{seconds}.{micros:06} [{} {from}]", session.db);
    for (at, arg) in args.iter().enumerate() {
        line.push(' ');
        let secret = at > 0 && matches!(command.name, "auth");
        quote(&mut line, if secret { b"(redacted)" } else { arg });
    }
    line
}

/// Appends bytes in double quotes, escaped so that the line stays one line of printable text.
pub fn quote(line: &mut String, bytes: &[u8]) {
    line.push('"');
    for &byte in bytes {
        match byte {
            b'\\' => line.push_str("\\\\"),
            b'"' => line.push_str("\\\""),
            b'\n' => line.push_str("\\n"),
            b'\r' => line.push_str("\\r"),
            b'\t' => line.push_str("\\t"),
            7 => line.push_str("\\a"),
            8 => line.push_str("\\b"),
            b' '..=b'~' => line.push(char::from(byte)),
            _ => {
                let _ = write!(line, "\\x{byte:02x}");
            }
        }
    }
    line.push('"');
}
