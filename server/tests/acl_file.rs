//! Users from an ACL file or from the settings: read at the start, loaded again, saved.

use std::{
    fs,
    path::{Path, PathBuf},
};

use khoa_server::{Answer, Builder, Server};

/// A file of a test's own, gone with it.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> File {
        let name = format!("khoa-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).unwrap();
        File(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn builder(&self) -> Builder {
        Server::builder().no_port().setting("aclfile", self.path())
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.0).unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn run(server: &Server, request: &str) -> Answer {
    server.run(request.split(' '))
}

fn users(server: &Server) -> Vec<String> {
    let Answer::List(lines) = run(server, "ACL LIST") else {
        panic!("ACL LIST gives a list")
    };
    lines
        .into_iter()
        .filter_map(Answer::into_bytes)
        .map(|line| String::from_utf8(line).unwrap())
        .collect()
}

fn error(server: &Server, request: &str) -> String {
    match run(server, request) {
        Answer::Error(text) => text,
        other => panic!("{request} gave {other:?}"),
    }
}

const PW: &str = "#30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4";
const DEFAULT: &str = "user default on nopass ~* &* +@all";

#[test]
fn the_file_is_read_at_the_start_and_loaded_again() {
    let file = File::new(
        "start.acl",
        "user alice on >pw ~* +@all\n\n  user bob off &* (+get ~k) db=1 \r\n",
    );
    let server = file.builder().start().unwrap();
    let alice = format!("user alice on {PW} ~* resetchannels +@all");
    let bob = "user bob off &* db=1 -@all (~k resetchannels -@all +get)";
    assert_eq!(users(&server), [&alice, bob, DEFAULT]);
    fs::write(&file.0, "user carl on\n").unwrap();
    assert_eq!(run(&server, "ACL LOAD"), Answer::Simple("OK".into()));
    assert_eq!(
        users(&server),
        ["user carl on resetchannels -@all", DEFAULT]
    );
}

#[test]
fn what_is_saved_can_be_loaded() {
    let file = File::new("save.acl", "");
    let server = file.builder().start().unwrap();
    run(
        &server,
        "ACL SETUSER alice on >pw ~a* %R~b* &c (+set %W~d) -@all +@read -get",
    );
    let before = users(&server);
    assert_eq!(run(&server, "ACL SAVE"), Answer::Simple("OK".into()));
    assert_eq!(file.text(), before.join("\n") + "\n");
    run(&server, "ACL DELUSER alice");
    assert_ne!(users(&server), before);
    run(&server, "ACL LOAD");
    assert_eq!(users(&server), before);
    let beside = fs::read_dir(Path::new(&file.0).parent().unwrap()).unwrap();
    let name = file.0.file_name().unwrap().to_string_lossy().into_owned();
    let left = beside
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&name))
        .count();
    assert_eq!(left, 1, "nothing else is left beside the file");
}

#[test]
fn every_error_of_a_file_is_told_and_nothing_is_changed() {
    let file = File::new("errors.acl", "user zed on\n");
    let server = file.builder().start().unwrap();
    let before = users(&server);
    let path = file.path();
    let cases = [
        (
            "foo\n",
            format!("{path}:1 should start with user keyword followed by the username. "),
        ),
        (
            "user\n",
            format!("{path}:1 should start with user keyword followed by the username. "),
        ),
        (
            "user a on\nuser a off\n",
            "WARNING: Duplicate user 'a' found on line 2. ".to_owned(),
        ),
        (
            "user a on +nosuch +@nosuch\nuser b %X bogus\nUSER c\n",
            format!(
                "{path}:1: Error in applying operation '+nosuch': Unknown command or category \
                 name in ACL. {path}:1: Error in applying operation '+@nosuch': Unknown command \
                 or category name in ACL. {path}:2: Syntax error. {path}:3 should start with \
                 user keyword followed by the username. "
            ),
        ),
        (
            "user a (+get\n",
            format!("{path}:1: Unmatched parenthesis in selector definition."),
        ),
        (
            "user a\ton\n",
            format!("'{path}:1: username 'a\ton' contains invalid characters. "),
        ),
        (
            "user a db=-1\n",
            format!("{path}:1: The provided database ID is out of range. "),
        ),
    ];
    for (text, expected) in cases {
        fs::write(&file.0, text).unwrap();
        let expected = format!(
            "ERR {expected}WARNING: ACL errors detected, no change to the previously active ACL \
             rules was performed"
        );
        assert_eq!(error(&server, "ACL LOAD"), expected);
        assert_eq!(users(&server), before);
        let refused = file.builder().start().err().unwrap().to_string();
        assert_eq!(format!("ERR {refused}"), expected);
    }
    fs::remove_file(&file.0).unwrap();
    assert_eq!(
        error(&server, "ACL LOAD"),
        format!("ERR Error loading ACLs, opening file '{path}': No such file or directory")
    );
}

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    let file = File::new("lost.acl", "");
    let server = file.builder().start().unwrap();
    fs::remove_file(&file.0).unwrap();
    fs::create_dir(&file.0).unwrap();
    fs::write(file.0.join("in-the-way"), "").unwrap();
    assert_eq!(
        error(&server, "ACL SAVE"),
        "ERR There was an error trying to save the ACLs. Please check the server logs for more \
         information"
    );
    fs::remove_dir_all(&file.0).unwrap();
}

#[test]
fn the_file_decides_about_the_default_user_and_requirepass_does_not() {
    let file = File::new("default.acl", "user default on >pw ~* &* +@all\n");
    let server = file.builder().require_auth("other").start().unwrap();
    assert_eq!(
        users(&server),
        [format!("user default on {PW} ~* &* +@all")]
    );
    fs::write(&file.0, "").unwrap();
    run(&server, "ACL LOAD");
    assert_eq!(users(&server), [DEFAULT]);
}

#[test]
fn a_restart_with_everything_lost_reads_the_file_again() {
    let file = File::new("restart.acl", "user alice on\n");
    let mut server = file.builder().start().unwrap();
    run(&server, "ACL DELUSER alice");
    server.restart_empty().unwrap();
    assert_eq!(
        users(&server),
        ["user alice on resetchannels -@all", DEFAULT]
    );
}

#[test]
fn users_are_declared_in_the_settings_or_in_a_file_but_not_in_both() {
    let declared = |words: &[&str]| {
        Server::builder()
            .no_port()
            .try_user("alice", words)
            .unwrap()
    };
    let server = declared(&["on", "(+get", "~k)"]).start().unwrap();
    assert_eq!(
        users(&server),
        [
            "user alice on resetchannels -@all (~k resetchannels -@all +get)",
            DEFAULT
        ]
    );
    assert_eq!(
        error(&server, "ACL SAVE"),
        error(&server, "ACL LOAD"),
        "there is no file to save to"
    );
    let twice = declared(&["on"]).try_user("alice", &["off"]);
    assert_eq!(twice.unwrap_err(), "the user alice is declared twice");
    let bad = declared(&["+nosuch"]).start().err().unwrap();
    assert_eq!(
        bad.to_string(),
        "user alice: '+nosuch': Unknown command or category name in ACL"
    );
    let file = File::new("both.acl", "");
    let both = declared(&[]).setting("aclfile", file.path()).start();
    assert!(both.err().unwrap().to_string().contains("aclfile"));
}
