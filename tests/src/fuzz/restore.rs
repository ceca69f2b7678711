//! Payloads for RESTORE and FUNCTION RESTORE: what is accepted is whole, and dumps as it came.

use khoa_server::fuzzing::seal;
use khoa_server::{Answer, Server};

use super::{scripts, seeds};

/// The version and the checksum at the end of a payload, which each input is given anew.
const FOOTER_LEN: usize = 10;

/// What looks at a value, or changes it, whatever its type is.
const USES: &[&str] = &[
    "OBJECT ENCODING v",
    "MEMORY USAGE v SAMPLES 0",
    "SORT v ALPHA",
    "APPEND v x",
    "BITCOUNT v",
    "PFCOUNT v",
    "LPOS v a RANK -1",
    "LINSERT v BEFORE a b",
    "LSET v -1 z",
    "LTRIM v 1 -2",
    "SADD v 7 a",
    "SISMEMBER v 7",
    "SPOP v 2",
    "SINTERSTORE w v v",
    "ZADD v CH 1.5 a -inf b",
    "ZRANK v b WITHSCORE",
    "ZRANGEBYLEX v - +",
    "ZUNIONSTORE w 1 v WEIGHTS 2",
    "ZPOPMIN v 2",
    "HSET v a 1 b 2",
    "HEXPIRE v 100 FIELDS 1 a",
    "HRANDFIELD v -5 WITHVALUES",
    "HDEL v a",
    "XADD v * a b",
    "XINFO STREAM v FULL",
    "XREADGROUP GROUP g c COUNT 2 STREAMS v >",
    "XPENDING v g - + 9",
    "XAUTOCLAIM v g d 0 0",
    "XTRIM v MAXLEN 1",
    "XSETID v 99999999999999-1",
    "COPY v w REPLACE",
    "DUMP v",
    "DUMP w",
];

/// The content of a payload; one that begins as those of FUNCTION DUMP do goes there.
pub fn run(input: &[u8]) {
    scripts::with_server(|server| {
        let payload = seal(input.to_vec());
        if input.first() == Some(&0xF5) {
            restore_functions(server, &payload);
        } else {
            restore(server, &payload);
        }
        server.run(["FLUSHALL", "SYNC"]);
    });
}

fn restore(server: &Server, payload: &[u8]) {
    let restored = |key: &str, payload: &[u8]| {
        server.run([key_command(key).as_slice(), &[payload.to_vec()]].concat())
    };
    if restored("v", payload).is_error() {
        assert!(server.run(["DUMP", "v"]).is_nil(), "half a value");
        return;
    }
    let Some(dump) = server.run(["DUMP", "v"]).into_bytes() else {
        // All of its fields had expired.
        return;
    };
    assert_eq!(restored("w", &dump), Answer::Simple("OK".to_owned()));
    let digests = server.run(["DEBUG", "DIGEST-VALUE", "v", "w"]).into_list();
    assert_eq!(digests.len(), 2);
    assert_eq!(digests[0], digests[1], "another value");
    assert_eq!(
        server.run(["OBJECT", "ENCODING", "v"]),
        server.run(["OBJECT", "ENCODING", "w"])
    );
    for words in USES {
        server.run(words.split(' '));
    }
}

/// The arguments of RESTORE before the payload.
fn key_command(key: &str) -> [Vec<u8>; 3] {
    ["RESTORE", key, "0"].map(|word| word.as_bytes().to_vec())
}

fn restore_functions(server: &Server, payload: &[u8]) {
    let restored = |payload: &[u8]| {
        let words: [&[u8]; 4] = [b"FUNCTION", b"RESTORE", payload, b"FLUSH"];
        server.run(words)
    };
    if !restored(payload).is_error() {
        let dump = server.run(["FUNCTION", "DUMP"]);
        let dump = dump.into_bytes().expect("a payload");
        assert_eq!(restored(&dump), Answer::Simple("OK".to_owned()));
        assert_eq!(server.run(["FUNCTION", "DUMP"]), Answer::Bytes(dump));
    }
    server.run(["FUNCTION", "FLUSH"]);
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = seeds::all_requests()
        .filter(|args| args[0].eq_ignore_ascii_case(b"restore") && args.len() > 3)
        .map(|args| args[3].clone())
        .collect();
    scripts::with_server(|server| {
        for words in MAKERS {
            server.run(words.split(' '));
        }
        let long = "x".repeat(200);
        server.run(["RPUSH", "long", &long, &long, "1"]);
        server.run(["HSET", "wide", &long, "1"]);
        server.run(["SADD", "broad", &long, "1"]);
        server.run(["ZADD", "deep", "1", &long, "2.5", "b"]);
        let keys = server.run(["KEYS", "*"]).into_list();
        let dumps = keys.iter().map(|key| server.run([&b"DUMP"[..], key]));
        all.extend(dumps.filter_map(Answer::into_bytes));
        all.extend(server.run(["FUNCTION", "DUMP"]).into_bytes());
        server.run(["FLUSHALL"]);
        server.run(["FUNCTION", "FLUSH"]);
    });
    all.retain(|payload| payload.len() > FOOTER_LEN);
    for payload in &mut all {
        payload.truncate(payload.len() - FOOTER_LEN);
    }
    all
}

/// A value of each type and layout.
const MAKERS: &[&str] = &[
    "SET text aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
    "SET number 12345",
    "RPUSH list a 1 -300 70000 b",
    "SADD integers 1 2 3000000000",
    "SADD set a b 3",
    "ZADD sorted 1 a 2.5 b -inf c",
    "HSET hash a 1 b two",
    "HSET expiring a 1 b two",
    "HEXPIRE expiring 100 FIELDS 1 a",
    "XADD stream 1-1 a 1 b 2",
    "XADD stream 2-1 a 1 b 2",
    "XADD stream 2-2 c 1",
    "XGROUP CREATE stream g 0",
    "XREADGROUP GROUP g c COUNT 2 STREAMS stream >",
    "XDEL stream 2-1",
    "PFADD hyperloglog a b c",
];

pub fn words() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = (0..=25_u8).map(|kind| vec![kind]).collect();
    all.extend([
        vec![0x80, 0, 0, 0, 9],
        vec![0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        vec![0xc0, 7],
        vec![0xc1, 7, 1],
        vec![0xc2, 7, 1, 0, 0],
        vec![0xc3, 5, 0x40, 0x10],
        vec![0xff],
        vec![0xf1, 1, 1],
        vec![0xf4, 1, 0, 0, 0, 0, 0, 0, 0],
        vec![0xf5],
    ]);
    all
}
