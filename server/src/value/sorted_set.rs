//! A sorted set: packed pairs while small, a counted tree beside a table when large.
