//! Benches for regressions: `cargo bench`, or `cargo bench -- NAME` for some of them.

mod decoder;
mod keyspace;
mod scripting;
mod sorted_set;

criterion::criterion_main!(
    decoder::benches,
    keyspace::benches,
    sorted_set::benches,
    scripting::benches
);
