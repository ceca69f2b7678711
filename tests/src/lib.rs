//! Scenarios and tools that exercise khoa-server and khoa together.

pub mod commands;
pub mod differential;
pub mod fuzz;
pub mod linearizability;
pub mod load;
pub mod machine;
pub mod transcript;

/// The README's examples, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
