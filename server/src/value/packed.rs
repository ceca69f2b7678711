//! A run of short byte strings in one allocation, the compact form of every collection.
