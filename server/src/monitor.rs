//! MONITOR: every request, as a line, to whoever asked for it.

use std::fmt::Write;

use crate::{
    command::{Command, Flags, is_word},
    engine::Engine,
    reply::Reply,
    session::Session,
};

/// Sends a request to all monitors; one that a script made is shown as the script's.
pub fn feed(
    engine: &mut Engine,
    session: &Session,
    command: &Command,
    args: &[&[u8]],
    from_script: bool,
) {
    // Nothing of a client that quits reaches it any more, its own QUIT included.
    let quits = session.monitor && command.name == "quit";
    if command.flags.has(Flags::ADMIN) || quits {
        return;
    }
    let from = if from_script { "lua" } else { &session.addr };
    let line = line(engine, session, from, command, args);
    for id in engine.monitors.clone() {
        // Who leaves hears nothing behind its last reply.
        if id != session.id || !session.closing {
            engine.send(id, |encoder| encoder.simple(&line));
        }
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
        let secret = is_secret(command, args, at);
        quote(&mut line, if secret { b"(redacted)" } else { arg });
    }
    line
}

/// Is an argument a name or a password that a request logs in with?
fn is_secret(command: &Command, args: &[&[u8]], at: usize) -> bool {
    let follows = |distance: usize| {
        at.checked_sub(distance)
            .is_some_and(|before| before > 1 && is_word(args[before], "AUTH"))
    };
    match command.name {
        "auth" => at > 0,
        "hello" => follows(1) || follows(2),
        _ => false,
    }
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
