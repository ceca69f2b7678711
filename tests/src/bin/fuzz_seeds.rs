//! Writes what the fuzzer begins with: for each target a folder of seeds, a dictionary, and the
//! length of the longest input.
//!
//! `cargo run -p khoa-tests --bin fuzz_seeds -- FOLDER`

use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

use khoa_tests::fuzz::{TARGETS, Target};

fn main() -> io::Result<()> {
    let Some(folder) = std::env::args().nth(1) else {
        return Err(io::Error::other("a folder to write to is missing"));
    };
    for target in TARGETS {
        write_target(&Path::new(&folder).join(target.name), target)?;
    }
    Ok(())
}

fn write_target(folder: &Path, target: &Target) -> io::Result<()> {
    let seeds = folder.join("seeds");
    fs::create_dir_all(&seeds)?;
    for (number, seed) in (target.seeds)().iter().enumerate() {
        fs::write(seeds.join(number.to_string()), seed)?;
    }
    let mut dictionary = String::new();
    for word in (target.words)() {
        let mut hex = String::new();
        for byte in word {
            let _ = write!(hex, "\\x{byte:02x}");
        }
        let _ = writeln!(dictionary, "\"{hex}\"");
    }
    fs::write(folder.join("words"), dictionary)?;
    fs::write(folder.join("len_max"), target.len_max.to_string())
}
