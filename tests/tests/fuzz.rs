//! The fuzz targets on their seeds, on what the fuzzer once found, and on some mutations.
//!
//! `tests/fuzz/run` lets a fuzzer work on the same targets for as long as one likes.

use std::path::Path;

use khoa_tests::fuzz::mutate::{Random, mutate};
use khoa_tests::fuzz::{check, target};

fn holds(name: &str, mutations: u32) {
    let target = target(name);
    let (seeds, words) = ((target.seeds)(), (target.words)());
    assert!(!seeds.is_empty() && !words.is_empty());
    for input in seeds.iter().chain(&found(name)) {
        check(target, input);
    }
    let mut random = Random::new(0);
    for _ in 0..mutations {
        check(target, &mutate(&mut random, &seeds, &words, target.len_max));
    }
}

/// The inputs that a fuzzer found something with.
fn found(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/found")
        .join(name);
    let Ok(files) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    files
        .map(|file| std::fs::read(file.unwrap().path()).unwrap())
        .collect()
}

#[test]
fn requests_are_read_however_they_are_split() {
    holds("decoder", 5000);
}

#[test]
fn any_bytes_get_whole_replies_and_spare_the_server() {
    holds("connection", 1500);
}

#[test]
fn any_requests_get_one_reply_each_and_spare_the_server() {
    holds("requests", 1500);
}

#[test]
fn patterns_match_as_a_slow_matcher_does() {
    holds("glob", 10_000);
}

#[test]
fn numbers_are_what_their_text_says() {
    holds("numbers", 10_000);
}

#[test]
fn restored_values_are_whole() {
    holds("restore", 3000);
}

#[test]
fn json_decodes_to_what_it_encodes() {
    holds("cjson", 3000);
}

#[test]
fn message_pack_unpacks_to_what_it_packs() {
    holds("cmsgpack", 3000);
}

#[test]
fn structs_unpack_to_what_they_pack() {
    holds("struct", 3000);
}

#[test]
fn no_script_ends_the_server_or_changes_what_the_next_one_finds() {
    holds("lua", 1500);
}
