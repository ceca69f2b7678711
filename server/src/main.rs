//! Turns arguments into a configuration, starts a server, waits for a signal.
fn main() {}
