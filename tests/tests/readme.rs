//! The README tells the truth about the command table.

use khoa_tests::commands;

#[test]
fn the_readme_lists_the_commands_that_the_server_has() {
    let readme = include_str!("../../README.md");
    let renewed = commands::renew(readme).expect("README.md has the marks of its command list");
    assert!(
        readme == renewed,
        "run `cargo run -p khoa-tests --bin commands`"
    );
}
