//! The values that a key can hold, one module per data type.

pub mod hash;
pub mod limits;
pub mod list;
pub mod packed;
pub mod random;
pub mod rank_tree;
pub mod set;
pub mod sorted_set;
