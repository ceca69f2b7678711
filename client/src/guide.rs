//! The manual: what is promised, what there is, the command, and how to come from another library.

#[doc = include_str!("../docs/promises.md")]
pub mod promises {}

#[doc = include_str!("../docs/primitives.md")]
pub mod primitives {}

#[doc = include_str!("../docs/command.md")]
pub mod command {}

#[doc = include_str!("../docs/migration.md")]
pub mod migration {}
