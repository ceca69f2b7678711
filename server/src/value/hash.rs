//! A hash: field-value pairs packed while small, a table when large, with field deadlines.
