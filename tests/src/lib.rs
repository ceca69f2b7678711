//! Scenarios and tools that exercise khoa-server and khoa together.

pub mod transcript;
