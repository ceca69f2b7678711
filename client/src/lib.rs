//! The distributed-lock library.
