#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| khoa_tests::fuzz::run("restore", input));
