//! The lock library against a server whose clock and faults the tests hold in their hands.

mod cancel;
mod connections;
mod election;
mod everything;
mod extension;
mod features;
mod fencing;
mod inspect;
mod latch;
mod lock;
mod multi;
mod periodic;
mod pubsub;
mod queue;
mod rate;
mod read_write;
mod redlock;
mod reentrant;
mod renewal;
mod replicas;
mod semaphore;
mod support;
mod transaction;
mod values;
mod waiting;

/// A table that names tests which are gone would promise what nobody checks.
#[test]
fn names_in_the_table_of_faults_are_tests() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let table = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let names: Vec<_> = table
        .split('`')
        .filter_map(|word| word.split_once("::"))
        .collect();
    assert!(names.len() > 50, "{}", names.len());
    for (module, test) in names {
        let text = std::fs::read_to_string(folder.join(format!("it/{module}.rs"))).unwrap();
        assert!(text.contains(&format!("fn {test}(")), "{module}::{test}");
    }
}
