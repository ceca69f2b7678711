//! Golden talk with a server: what was sent, and the exact reply, one text file per command.
//!
//! A transcript is read line by line:
//!
//! | line | meaning |
//! | --- | --- |
//! | `# text` | a comment that says why |
//! | `> SET k "v\x00"` | sends a request; words are quoted as in a shell, double quotes know `\n \r \t \" \\ \xNN`, `"a"*1000` repeats, `${name}` inserts a captured value |
//! | `>raw "PING\r\n"` | sends exactly these bytes |
//! | `< +OK` | the next reply of the current client, in the notation of [`pattern`]; nested elements are indented by two spaces |
//! | `@client b` | goes on as client `b`, which is connected when first named; the file starts as `a` |
//! | `@advance 100ms` | moves the clock: an embedded server's at once, a real one by waiting |
//! | `@wait 100ms` | really waits, for what no clock moves, such as a script that runs |
//! | `@resp3`, `@resp2` | switches the current client's protocol by HELLO |
//! | `@repeat 1..200` | sends the next request once for each number, as `${i}`; only the last reply is compared |
//! | `@unordered` | the elements of the next reply may come in any order (`pairs`: as flat pairs, `deep`: at every level) |
//! | `@close b`, `@halfclose b` | closes the client's connection, or only its sending half |
//! | `@config name value` | a setting the file needs, made before it starts and undone after it |
//! | `@server valkey redis82` | who the file was recorded from: `valkey`, `valkey-cluster`, `redis82`, `redis7`, or `docs` for what none of them has |
//!
//! Besides replies a `<` line can say `<blocked>` (the server has the request and holds its
//! answer back), `<nothing>` (no reply is due, which the next one's order proves), `<closed>`
//! and, for the recorder to fill in, `?`.

pub mod document;
pub mod pattern;
pub mod run;
pub mod target;
pub mod text;
pub mod wire;

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Every transcript under `root`, sorted by path.
pub fn files(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    collect(root, &mut found)?;
    found.sort();
    Ok(found)
}

fn collect(path: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            collect(&entry?.path(), found)?;
        }
    } else if path.extension().is_some_and(|extension| extension == "txt") {
        found.push(path.to_owned());
    }
    Ok(())
}
