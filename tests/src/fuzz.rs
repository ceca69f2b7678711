//! Fuzzing: each target takes any bytes and panics when something does not hold for them.
//!
//! The same targets run in two ways: a fuzzer drives them for hours (`tests/fuzz/`), and
//! `cargo test` gives them their seeds, what the fuzzer once found, and some thousand mutations
//! (`tests/tests/fuzz.rs`). Seeds come from the transcripts, so new commands bring theirs along.

pub mod mutate;

mod connection;
mod decoder;
mod glob;
mod numbers;
mod requests;
mod restore;
mod scripts;
mod seeds;
mod watch;

use std::cell::Cell;
use std::sync::Once;

/// Something that takes any bytes.
pub struct Target {
    /// The name that the fuzzer's program and the folder of its inputs have.
    pub name: &'static str,
    /// Panics when something does not hold for the input.
    pub run: fn(&[u8]),
    /// Inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// What inputs are likely made of.
    pub words: fn() -> Vec<Vec<u8>>,
    /// The longest input worth trying, in bytes.
    pub len_max: usize,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "decoder",
        run: decoder::run,
        seeds: decoder::seeds,
        words: seeds::protocol_words,
        len_max: 2048,
    },
    Target {
        name: "connection",
        run: connection::run,
        seeds: connection::seeds,
        words: seeds::protocol_words,
        len_max: 4096,
    },
    Target {
        name: "requests",
        run: requests::run,
        seeds: requests::seeds,
        words: seeds::command_words,
        len_max: 2048,
    },
    Target {
        name: "glob",
        run: glob::run,
        seeds: glob::seeds,
        words: glob::words,
        len_max: 512,
    },
    Target {
        name: "numbers",
        run: numbers::run,
        seeds: numbers::seeds,
        words: numbers::words,
        len_max: 600,
    },
    Target {
        name: "restore",
        run: restore::run,
        seeds: restore::seeds,
        words: restore::words,
        len_max: 4096,
    },
    Target {
        name: "cjson",
        run: scripts::cjson,
        seeds: scripts::cjson_seeds,
        words: scripts::cjson_words,
        len_max: 4096,
    },
    Target {
        name: "cmsgpack",
        run: scripts::cmsgpack,
        seeds: scripts::cmsgpack_seeds,
        words: scripts::cmsgpack_words,
        len_max: 4096,
    },
    Target {
        name: "struct",
        run: scripts::structs,
        seeds: scripts::struct_seeds,
        words: scripts::struct_words,
        len_max: 1024,
    },
    Target {
        name: "lua",
        run: scripts::lua,
        seeds: scripts::lua_seeds,
        words: scripts::lua_words,
        len_max: 2048,
    },
];

/// The target of a name.
///
/// # Panics
/// When there is none.
pub fn target(name: &str) -> &'static Target {
    TARGETS
        .iter()
        .find(|target| target.name == name)
        .unwrap_or_else(|| panic!("there is no target {name}"))
}

/// Gives a target an input, as the fuzzer's programs do, in which any panic ends the process.
pub fn run(name: &str, input: &[u8]) {
    (target(name).run)(input);
}

thread_local! {
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// Gives a target an input. A panic counts even if the server caught it.
///
/// # Panics
/// When something does not hold, having shown the input.
pub fn check(target: &Target, input: &[u8]) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            before(info);
        }));
    });
    let watched = watch::input(target.name, input);
    let before = PANICS.get();
    let ended = std::panic::catch_unwind(|| (target.run)(input));
    drop(watched);
    let panics = PANICS.get() - before;
    assert!(
        ended.is_ok() && panics == 0,
        "{}: {panics} panics with b\"{}\"",
        target.name,
        input.escape_ascii()
    );
}
