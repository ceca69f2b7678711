//! The fuzz target `restore`, whose body is in `khoa_tests::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| khoa_tests::fuzz::run("restore", input));
