//! Requests of several clients as text: every request gets one reply, and the server goes on.
//!
//! A line is a request, its words quoted as in an inline request, or one of `@client NAME`,
//! `@close NAME` and `@advance MILLISECONDS`.

use std::time::Duration;

use khoa_server::command::{Flags, lookup};
use khoa_server::fuzzing::split_words;

use super::connection::{CLIENTS, Step, talk};
use super::seeds;
use crate::transcript::wire::encode;

/// The longest step of the clock.
const ADVANCE_MAX: u64 = 1 << 40;

pub fn run(input: &[u8]) {
    let (mut steps, mut current) = (Vec::new(), 0);
    // How many replies are due, for those of whom that can be told.
    let mut due = [Some(0); CLIENTS];
    for line in input.split(|&byte| byte == b'\n') {
        let words = split_words(line).unwrap_or_default();
        let argument = words.get(1).and_then(|word| word.first()).copied();
        let number = usize::from(argument.unwrap_or_default()) % CLIENTS;
        match words.first().map(Vec::as_slice) {
            None => {}
            Some(b"@client") => current = number,
            Some(b"@close") => {
                due[number] = None;
                steps.push(Step::Close(number));
            }
            Some(b"@advance") => {
                let millis = words
                    .get(1)
                    .and_then(|word| khoa_server::fuzzing::parse_u64(word));
                let millis = millis.unwrap_or(1).min(ADVANCE_MAX);
                steps.push(Step::Advance(Duration::from_millis(millis)));
            }
            Some(_) => {
                steps.push(Step::Send(current, encode(&words)));
                due[current] = due[current].map(|due| due + 1);
                if changes_replies(&words) {
                    due = [None; CLIENTS];
                }
            }
        }
    }
    let replies = talk(steps);
    for (due, replies) in due.into_iter().zip(replies) {
        if let Some(due) = due.filter(|_| replies > 0) {
            assert_eq!(replies, due, "replies");
        }
    }
}

/// May a request get no reply or several, or change that for others?
fn changes_replies(words: &[Vec<u8>]) -> bool {
    let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let Ok(command) = lookup(&args) else {
        // A browser's request ends the connection.
        return words[0].eq_ignore_ascii_case(b"post") || words[0].eq_ignore_ascii_case(b"host:");
    };
    let name = command.name.split('|').next().unwrap_or_default();
    command.flags.has(Flags::BLOCKING)
        || command.group == "pubsub"
        || matches!(
            name,
            "acl"
                | "client"
                | "config"
                | "monitor"
                | "psync"
                | "quit"
                | "reset"
                | "shutdown"
                | "sync"
        )
}

pub fn seeds() -> Vec<Vec<u8>> {
    seeds::texts()
}
