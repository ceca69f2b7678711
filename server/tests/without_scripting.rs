//! A server that was built without Lua: it says of the commands of scripts what the references
//! say of any name that they do not know, and never speaks of them elsewhere.
#![cfg(not(feature = "scripting"))]

use khoa_server::Server;

const NAMES: [&str; 8] = [
    "EVAL",
    "EVALSHA",
    "EVAL_RO",
    "EVALSHA_RO",
    "SCRIPT",
    "FUNCTION",
    "FCALL",
    "FCALL_RO",
];

fn server() -> Server {
    Server::builder().frozen().start().unwrap()
}

/// How an answer is shown.
fn run(server: &Server, request: &str) -> String {
    server.run(request.split(' ')).to_string()
}

#[test]
fn the_commands_of_scripts_are_unknown() {
    let server = server();
    for name in NAMES {
        assert_eq!(
            run(&server, &format!("{name} text 0")),
            format!("(error) ERR unknown command '{name}', with args beginning with: 'text' '0' ")
        );
    }
    assert_eq!(
        run(&server, "script"),
        "(error) ERR unknown command 'script', with args beginning with: "
    );
}

#[test]
fn the_table_of_commands_lists_none_of_them() {
    let server = server();
    let listed = server.run(["COMMAND", "LIST"]).into_list();
    let commands = listed.iter().filter(|name| !name.contains(&b'|'));
    assert_eq!(server.run(["COMMAND", "COUNT"]), commands.count() as i64);
    for name in NAMES.map(str::to_ascii_lowercase) {
        assert!(!listed.contains(&name.clone().into_bytes()), "{name}");
        assert_eq!(run(&server, &format!("COMMAND INFO {name}")), "[(nil)]");
        assert_eq!(run(&server, &format!("COMMAND DOCS {name}")), "{}");
        assert_eq!(
            run(&server, &format!("COMMAND GETKEYS {name} text 1 k")),
            "(error) ERR Invalid command specified"
        );
    }
    let of_scripts = "COMMAND LIST FILTERBY ACLCAT scripting";
    assert_eq!(run(&server, of_scripts), "[]");
}

#[test]
fn users_keep_the_category_which_is_empty() {
    let server = server();
    let categories = server.run(["ACL", "CAT"]).into_list();
    assert!(categories.contains(&b"scripting".to_vec()));
    assert_eq!(run(&server, "ACL CAT scripting"), "[]");
    assert_eq!(run(&server, "ACL SETUSER u +@scripting"), "OK");
    assert_eq!(
        run(&server, "ACL SETUSER u +eval"),
        "(error) ERR Error in ACL SETUSER modifier '+eval': Unknown command or category name in ACL"
    );
    assert_eq!(
        run(&server, "ACL DRYRUN u eval text 0"),
        "(error) ERR Command 'eval' not found"
    );
}

/// A file of settings serves both builds.
#[test]
fn settings_of_scripts_are_accepted_and_figures_are_zero() {
    let server = server();
    for setting in [
        "busy-reply-threshold 9",
        "lua-time-limit 9",
        "script-memory-limit 2mb",
    ] {
        assert_eq!(run(&server, &format!("CONFIG SET {setting}")), "OK");
    }
    let info = run(&server, "INFO everything");
    for figure in [
        "used_memory_lua",
        "used_memory_vm_total",
        "number_of_cached_scripts",
        "number_of_functions",
        "number_of_libraries",
        "evicted_scripts",
    ] {
        assert!(info.contains(&format!("{figure}:0")), "{figure}");
    }
}

#[test]
fn a_transaction_that_names_one_is_given_up() {
    use std::io::{Read, Write};
    let server = server();
    let mut client = std::net::TcpStream::connect(server.addr()).unwrap();
    client
        .write_all(b"MULTI\r\nEVAL x 0\r\nEXEC\r\nQUIT\r\n")
        .unwrap();
    let mut answers = String::new();
    client.read_to_string(&mut answers).unwrap();
    assert_eq!(
        answers,
        "+OK\r\n\
         -ERR unknown command 'EVAL', with args beginning with: 'x' '0' \r\n\
         -EXECABORT Transaction discarded because of previous errors.\r\n\
         +OK\r\n"
    );
}
