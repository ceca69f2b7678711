//! A set: sorted integers, packed members, or a table.
