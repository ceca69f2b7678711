//! Writes the list of commands in the README anew.

use std::path::Path;
use std::{fs, io};

use khoa_tests::commands;

fn main() -> io::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = fs::read_to_string(&path)?;
    let renewed = commands::renew(&readme)
        .ok_or_else(|| io::Error::other("README.md has no place for the commands"))?;
    fs::write(path, renewed)
}
