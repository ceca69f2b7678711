//! Inputs to begin with, from the transcripts, and the words of commands.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use crate::transcript::document::{self, Item, Kind};
use crate::transcript::files;
use crate::transcript::text::{Captures, unquote, words};
use crate::transcript::wire::encode;

/// A transcript is cut into pieces of so many requests, since short inputs mutate better.
const REQUESTS_MAX: usize = 8;
/// Longer requests are left out, and pieces end at so many bytes.
const BYTES_MAX: usize = 1500;

static TRANSCRIPTS: LazyLock<Vec<Vec<Item>>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts");
    let files = files(&root).expect("the folder of transcripts");
    let read = |file| document::parse(&std::fs::read_to_string(file).ok()?).ok();
    files.iter().filter_map(read).collect()
});

/// The arguments of every request in the transcripts that is sent as it stands.
pub fn all_requests() -> impl Iterator<Item = Vec<Vec<u8>>> {
    TRANSCRIPTS.iter().flatten().filter_map(request)
}

fn request(item: &Item) -> Option<Vec<Vec<u8>>> {
    match &item.kind {
        Kind::Request(text) => words(text, &Captures::new()).ok(),
        _ => None,
    }
}

/// What one client after the other sends.
pub fn streams() -> Vec<Vec<u8>> {
    let bytes = |item: &Item| match &item.kind {
        Kind::Raw(text) => unquote(text).ok(),
        _ => request(item).map(|args| encode(&args)),
    };
    pieces(bytes)
}

/// The same as text, a request a line, with the directives for clients and the clock.
pub fn texts() -> Vec<Vec<u8>> {
    let line = |item: &Item| match &item.kind {
        Kind::Client(name) => Some(format!("@client {name}\n").into_bytes()),
        Kind::Close(name) => Some(format!("@close {name}\n").into_bytes()),
        Kind::Advance(time) => Some(format!("@advance {}\n", time.as_millis()).into_bytes()),
        _ => request(item).map(|args| line(&args)),
    };
    pieces(line)
}

/// A request as a line that is read back as it was.
pub fn line(args: &[Vec<u8>]) -> Vec<u8> {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'\\".contains(byte);
    let word = |arg: &Vec<u8>| {
        if !arg.is_empty() && arg.iter().all(is_plain) {
            return arg.clone();
        }
        let escaped = crate::transcript::text::escape(arg, b"\"");
        format!("\"{escaped}\"").into_bytes()
    };
    let mut line = args.iter().map(word).collect::<Vec<_>>().join(&b' ');
    line.push(b'\n');
    line
}

fn pieces(bytes: impl Fn(&Item) -> Option<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    for items in TRANSCRIPTS.iter() {
        let (mut piece, mut count) = (Vec::new(), 0);
        for bytes in items.iter().filter_map(&bytes) {
            if bytes.len() > BYTES_MAX {
                continue;
            }
            if count == REQUESTS_MAX || piece.len() + bytes.len() > BYTES_MAX {
                pieces.push(std::mem::take(&mut piece));
                count = 0;
            }
            piece.extend(bytes);
            count += 1;
        }
        if !piece.is_empty() {
            pieces.push(piece);
        }
    }
    pieces
}

/// The names of commands and of their options.
pub fn command_words() -> Vec<Vec<u8>> {
    let mut all = BTreeSet::new();
    for command in khoa_server::command::all() {
        for row in std::iter::once(command).chain(command.subcommands) {
            all.insert(row.own_name().to_ascii_uppercase());
            let options = row.args.split(|other: char| !other.is_ascii_alphanumeric());
            let is_option = |word: &&str| word.len() > 1 && word.starts_with(char::is_uppercase);
            all.extend(options.filter(is_option).map(str::to_owned));
        }
    }
    let more = [
        "@client a\n",
        "@client b\n",
        "@advance 1000\n",
        "@close b\n",
        "\\x00",
        "k",
        "-inf",
    ];
    all.extend(more.map(str::to_owned));
    all.into_iter().map(String::into_bytes).collect()
}

/// The same, and what frames them.
pub fn protocol_words() -> Vec<Vec<u8>> {
    let frames = [
        "*1\r\n",
        "*3\r\n",
        "$0\r\n",
        "$3\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "\r\n",
        "PING\r\n",
        "\"",
        "'",
        "*1000000\r\n",
        "$1000000\r\n",
        "\\x",
    ];
    let mut all = command_words();
    all.extend(frames.map(|text| text.as_bytes().to_vec()));
    all
}
