//! A difference as a transcript, recorded from the reference.

use std::fmt::Write;

use crate::transcript::document;
use crate::transcript::run::play;
use crate::transcript::target::Real;
use crate::transcript::text::quote_if_needed;

use super::Words;
use super::sequence::{Sequence, Step};
use super::vocabulary::client_of;

/// A request as a line of a transcript.
pub fn line(words: &Words) -> String {
    let word = |word: &Vec<u8>| match client_of(word) {
        Some(client) => format!("${{id{client}}}"),
        None => quote_if_needed(word),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// The requests of a sequence in the notation of transcripts, without replies.
pub fn requests(sequence: &Sequence) -> String {
    let mut names: Vec<usize> = vec![0; sequence.clients];
    let name = |client: usize, life: usize| {
        let letter = char::from(b'a' + client as u8);
        if life == 0 {
            letter.to_string()
        } else {
            format!("{letter}{}", life + 1)
        }
    };
    let mut text = String::new();
    for (setting, value) in &sequence.settings {
        let _ = writeln!(text, "@config {setting} {value}");
    }
    let mut current = None;
    let mut greeted = Vec::new();
    for step in &sequence.steps {
        match step {
            Step::Request { client, words } => {
                for named in words.iter().filter_map(|word| client_of(word)) {
                    let _ = write!(
                        text,
                        "@client {}\n> CLIENT ID\n< <int 1.. as id{named}>\n",
                        name(named, names[named])
                    );
                    current = Some(named);
                }
                if current != Some(*client) {
                    let _ = writeln!(text, "@client {}", name(*client, names[*client]));
                    current = Some(*client);
                }
                let own = name(*client, names[*client]);
                if sequence.protocol == 3 && !greeted.contains(&own) {
                    text.push_str("@resp3\n");
                    greeted.push(own);
                }
                let _ = writeln!(text, "> {}", line(words));
            }
            Step::Reconnect(client) => {
                let _ = writeln!(text, "@close {}", name(*client, names[*client]));
                names[*client] += 1;
                current = None;
            }
            Step::Pause(time) => {
                let _ = writeln!(text, "@advance {}ms", time.as_millis());
            }
        }
    }
    text
}

/// The sequence as a transcript, with the replies of the server at `addr`.
pub fn record(sequence: &Sequence, addr: std::net::SocketAddr) -> Result<String, String> {
    let items = document::parse(&requests(sequence))?;
    let settings = document::settings(&items)?;
    let outcome = play(&items, &Real::prepare(addr, &settings)?, true);
    match outcome.stopped {
        Some(why) => Ok(format!("{}# stopped: {why}\n", outcome.rewritten)),
        None => Ok(outcome.rewritten),
    }
}
