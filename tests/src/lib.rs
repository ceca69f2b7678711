//! Scenarios and tools that exercise khoa-server and khoa together.

pub mod commands;
pub mod transcript;
