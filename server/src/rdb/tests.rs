//! Payloads recorded from the three references, and what a hostile sender makes of them.

use super::*;
use crate::value::{
    limits::Limits,
    list::{End, List},
    stream::{Stream, StreamId},
};

/// A line is a case, the reference that wrote it (Valkey 9.1.2, Redis 8.2.3 or Redis 7.0.15) and
/// its payload in hexadecimal digits.
const RECORDED: &str = include_str!("recorded.txt");

struct Recording {
    case: &'static str,
    reference: &'static str,
    payload: Vec<u8>,
}

fn recordings() -> impl Iterator<Item = Recording> {
    RECORDED.lines().map(|line| {
        let mut words = line.split(' ');
        let mut next = || words.next().expect("three words");
        Recording {
            case: next(),
            reference: next(),
            payload: unhex(next()),
        }
    })
}

fn unhex(digits: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// Every reference's payload means the value, and what we write is the primary one's.
#[track_caller]
fn check(case: &str, value: &Dumped, ours: Option<Vec<u8>>) {
    let mut found = 0;
    for recording in recordings().filter(|recording| recording.case == case) {
        let decoded = decode(&recording.payload, VersionCheck::Relaxed);
        assert_eq!(
            decoded.as_ref(),
            Ok(value),
            "{case} of {}",
            recording.reference
        );
        if let Some(ours) = &ours
            && recording.reference == "valkey"
        {
            assert_eq!(ours, &recording.payload, "{case}");
        }
        found += 1;
    }
    assert!(found > 0, "{case} was not recorded");
}

fn check_string(case: &str, content: &[u8]) {
    check(
        case,
        &Dumped::String(content.to_vec()),
        Some(encode_string(content)),
    );
}

fn check_list(case: &str, elements: &[&[u8]]) {
    let limits = Limits::default();
    let mut list = List::new();
    for element in elements {
        list.push(End::Back, element, limits);
    }
    check(
        case,
        &list_of(elements),
        Some(encode_list(list.chunks(), limits)),
    );
}

/// Redis 7.0 has no packed sets, and hash tables keep no order: there only the value counts.
fn check_set(case: &str, members: &[&[u8]], layout: Layout) {
    let set = |members: &[Vec<u8>]| {
        let mut members = members.to_vec();
        members.sort();
        members
    };
    let value: Vec<Vec<u8>> = members.iter().map(|member| member.to_vec()).collect();
    for recording in recordings().filter(|recording| recording.case == case) {
        let decoded = decode(&recording.payload, VersionCheck::Relaxed);
        let Ok(Dumped::Set(found)) = decoded else {
            panic!("{case}: {decoded:?}")
        };
        assert_eq!(
            set(&found),
            set(&value),
            "{case} of {}",
            recording.reference
        );
        if recording.reference == "valkey" {
            let ours = encode_set(members.iter(), layout);
            assert_eq!(ours, recording.payload, "{case}");
        }
    }
}

fn check_sorted_set(case: &str, pairs: &[(&str, f64)], layout: Layout) {
    let ours = encode_sorted_set(pairs.iter().copied(), layout);
    let mut pairs: Vec<_> = pairs
        .iter()
        .map(|&(member, score)| (member.as_bytes().to_vec(), score))
        .collect();
    if layout == Layout::Table {
        pairs.reverse();
    }
    check(case, &Dumped::SortedSet(pairs), Some(ours));
}

/// The order of the fields is that of the primary reference.
fn check_hash(case: &str, fields: &[(&str, &str, Option<u64>)], layout: Layout) {
    let ours = encode_hash(fields.iter().copied(), layout);
    let mut value: Vec<HashField> = fields
        .iter()
        .map(|&(field, value, deadline)| (field.into(), value.into(), deadline))
        .collect();
    value.sort();
    for recording in recordings().filter(|recording| recording.case == case) {
        let decoded = decode(&recording.payload, VersionCheck::Relaxed);
        let Ok(Dumped::Hash(mut found)) = decoded else {
            panic!("{case}: {decoded:?}")
        };
        found.sort();
        assert_eq!(found, value, "{case} of {}", recording.reference);
        if recording.reference == "valkey" {
            assert_eq!(ours, recording.payload, "{case}");
        }
    }
}

fn list_of<T: AsRef<[u8]>>(elements: &[T]) -> Dumped {
    Dumped::List(
        elements
            .iter()
            .map(|element| element.as_ref().to_vec())
            .collect(),
    )
}

fn resealed(body: &[u8], version: u16) -> Vec<u8> {
    let mut payload = body.to_vec();
    payload.extend(version.to_le_bytes());
    let checksum = crc64::checksum(&payload);
    payload.extend(checksum.to_le_bytes());
    payload
}

fn body(payload: &[u8]) -> &[u8] {
    &payload[..payload.len() - FOOTER_LEN]
}

#[test]
fn strings_are_written_as_the_reference_writes_them() {
    check_string("string-text", b"hello");
    check_string("string-runs", &b"a".repeat(21));
    check_string("string-i8", b"12");
    check_string("string-i16", b"-300");
    check_string("string-i32", b"70000");
    check_string("string-i64", b"2147483648");
    check_string("string-zeros", b"0012");
    check_string("string-alphabets", &b"abcdefghijklmnopqrstuvwxyz".repeat(3));
    let bytes: Vec<u8> = (0..=255).collect();
    check_string(
        "string-long-literal",
        &[&bytes[..], b"tail", &bytes].concat(),
    );
}

#[test]
fn lists_are_written_as_the_reference_writes_them() {
    check_list("list-mixed", &[b"alpha", b"7", b"", b"-300"]);
    let wide = b"x".repeat(70);
    let widths: [&[u8]; 8] = [
        b"1",
        b"-5",
        b"1000",
        b"70000",
        b"-9000000",
        b"5000000000",
        b"-9223372036854775808",
        &wide,
    ];
    check_list("list-widths", &widths);
    check_list("list-plain-node", &[b"a", &b"b".repeat(9000), b"c"]);
    check_list("list-two-nodes", &[&b"p".repeat(5000), &b"q".repeat(5000)]);
}

#[test]
fn sets_are_written_as_the_reference_writes_them() {
    check_set(
        "set-integers",
        &[b"3", b"1", b"2", b"-300"],
        Layout::Integers,
    );
    check_set("set-integers-32", &[b"1", b"70000"], Layout::Integers);
    check_set("set-integers-64", &[b"1", b"-5000000000"], Layout::Integers);
    check_set("set-packed", &[b"1", b"b", b"c"], Layout::Packed);
    check_set("set-table", &[b"b", &b"c".repeat(65)], Layout::Table);
}

#[test]
fn sorted_sets_are_written_as_the_reference_writes_them() {
    let packed = [
        ("l", f64::NEG_INFINITY),
        ("f", -3.0),
        ("i", -0.0),
        ("h", 1.1e-7),
        ("d", 0.1),
        ("b", 1.0),
        ("c", 1.5),
        ("j", 4_503_599_627_370_496.0),
        ("k", 1e17),
        ("g", 1e20),
        ("e", f64::INFINITY),
    ];
    check_sorted_set("sorted-set-packed", &packed, Layout::Packed);
    let long = "b".repeat(65);
    let table = [("d", f64::NEG_INFINITY), (long.as_str(), 1.0), ("c", 1.1)];
    check_sorted_set("sorted-set-table", &table, Layout::Table);
}

#[test]
fn hashes_are_written_as_the_reference_writes_them() {
    let (first, second) = (Some(2_000_000_000_000), Some(2_000_000_001_000));
    let long = "v".repeat(65);
    let plain = [("f", "v", None), ("g", "1", None)];
    check_hash("hash-packed", &plain, Layout::Packed);
    check_hash("hash-table", &[("f", &long, None)], Layout::Table);
    let packed = [("f", "v", first), ("g", "1", None)];
    check_hash("hash-expiring-packed", &packed, Layout::Packed);
    let table = [("f", "v", first), ("g", "1", None), ("h", &long, second)];
    check_hash("hash-expiring-table", &table, Layout::Table);
}

fn streams(case: &str) -> impl Iterator<Item = (Recording, Box<Stream>)> {
    recordings()
        .filter(move |recording| recording.case == case)
        .map(
            |recording| match decode(&recording.payload, VersionCheck::Relaxed) {
                Ok(Dumped::Stream(stream)) => (recording, stream),
                other => panic!("{} of {}: {other:?}", recording.case, recording.reference),
            },
        )
}

#[test]
fn streams_are_written_as_the_reference_writes_them() {
    for case in ["stream-plain", "stream-groups"] {
        let mut found = 0;
        for (recording, stream) in streams(case) {
            if recording.reference == "valkey" {
                assert_eq!(encode_stream(&stream), recording.payload, "{case}");
            }
            let again = decode(&encode_stream(&stream), VersionCheck::Strict);
            assert_eq!(again, Ok(Dumped::Stream(stream)));
            found += 1;
        }
        assert_eq!(found, 3, "{case}");
    }
}

#[test]
fn streams_of_every_reference_hold_the_same_entries_and_groups() {
    let id = |ms, seq| StreamId { ms, seq };
    let far = id(u64::MAX - 1, 7);
    for (recording, stream) in streams("stream-groups") {
        let reference = recording.reference;
        let ids: Vec<StreamId> = stream.iter().map(|entry| entry.id()).collect();
        assert_eq!(ids, [id(1, 1), id(2, 2), far], "{reference}");
        let pairs = stream
            .range(id(2, 2), id(2, 2))
            .flat_map(|entry| entry.pairs());
        let pairs: Vec<_> = pairs
            .map(|(field, value)| [field.to_vec(), value.to_vec()])
            .collect();
        assert_eq!(
            pairs,
            [
                [b"b".to_vec(), b"2".to_vec()],
                [b"c".to_vec(), b"hello".to_vec()]
            ]
        );
        let history = stream.history();
        assert_eq!(
            (history.last_id, history.max_deleted_id),
            (far, id(2, 1)),
            "{reference}"
        );
        assert_eq!((history.entries_added, stream.len()), (4, 3), "{reference}");
        let group = stream.group(b"g").expect("a group");
        assert_eq!(
            (group.last_id, group.entries_read),
            (id(2, 2), None),
            "{reference}"
        );
        let claimed = &group.pending()[&id(1, 1)];
        assert_eq!(
            (claimed.delivered_ms, claimed.deliveries),
            (1_700_000_000_000, 5)
        );
        assert_eq!(
            group.consumers()[b"c".as_slice()].pending().len(),
            2,
            "{reference}"
        );
        assert!(
            group.consumers()[b"d".as_slice()].pending().is_empty(),
            "{reference}"
        );
        assert_eq!(
            stream.group(b"h").expect("a group").entries_read,
            Some(3),
            "{reference}"
        );
    }
}

#[test]
fn what_older_versions_wrote_is_still_read() {
    check("old-list-plain", &list_of(&["a", "5"]), None);
    let (x, y, z) = ("x".repeat(70), "y".repeat(300), "z".repeat(20_000));
    let numbers = [
        "a",
        "0",
        "12",
        "-100",
        "300",
        "-70000",
        "9000000",
        "5000000000",
    ];
    let mut elements = numbers.to_vec();
    elements.extend([&x, &y, "tail", &z, "end"]);
    check("old-list-ziplist", &list_of(&elements), None);
    check("old-list-quicklist", &list_of(&["a", "1", "b"]), None);
    let pairs = |pairs: &[(&str, f64)]| {
        Dumped::SortedSet(
            pairs
                .iter()
                .map(|&(member, score)| (member.into(), score))
                .collect(),
        )
    };
    let digits = [("a", 1.5), ("b", f64::INFINITY), ("c", f64::NEG_INFINITY)];
    check("old-sorted-set-digits", &pairs(&digits), None);
    check(
        "old-sorted-set-ziplist",
        &pairs(&[("a", 1.0), ("b", 1.5)]),
        None,
    );
    let hash = |fields: &[(&str, &str)]| {
        let field = |&(field, value): &(&str, &str)| (field.into(), value.into(), None);
        Dumped::Hash(fields.iter().map(field).collect())
    };
    check("old-hash-ziplist", &hash(&[("f", "v"), ("g", "7")]), None);
    check("old-hash-zipmap", &hash(&[("f", "v"), ("g", "vw")]), None);
}

#[test]
fn a_collection_that_holds_something_twice_is_refused() {
    let twice: [&[u8]; 5] = [
        b"\x02\x02\x01a\x01a",
        b"\x04\x02\x01a\x01b\x01a\x01c",
        b"\x05\x02\x01a\0\0\0\0\0\0\0\0\x01a\0\0\0\0\0\0\0\0",
        b"\x0b\x0c\x02\0\0\0\x02\0\0\0\x01\0\x01\0",
        b"\x14\x0d\x0d\0\0\0\x02\0\x81a\x02\x81a\x02\xff",
    ];
    for body in twice {
        let decoded = decode(&resealed(body, VERSION), VersionCheck::Strict);
        assert_eq!(decoded, Err(BadFormat::Data), "{}", body.escape_ascii());
    }
}

#[test]
fn a_score_that_is_no_number_is_refused() {
    for body in [
        b"\x03\x01\x01a\xfd".as_slice(),
        b"\x05\x01\x01a\0\0\0\0\0\0\xf8\x7f",
    ] {
        let decoded = decode(&resealed(body, VERSION), VersionCheck::Strict);
        assert_eq!(decoded, Err(BadFormat::Data), "{}", body.escape_ascii());
    }
}

#[test]
fn versions_are_admitted_as_the_reference_admits_them() {
    let with = |version, check| decode(&resealed(b"\0\x05hello", version), check);
    let hello = Ok(Dumped::String(b"hello".to_vec()));
    for version in [1, 5, 9, 10, 11, 80] {
        assert_eq!(with(version, VersionCheck::Strict), hello, "{version}");
    }
    for version in [0, 12, 13, 79, 81, 90, u16::MAX] {
        let refused = Err(BadFormat::VersionOrChecksum);
        assert_eq!(with(version, VersionCheck::Strict), refused, "{version}");
    }
    assert_eq!(with(12, VersionCheck::Relaxed), hello);
}

#[test]
fn a_checksum_of_zero_does_not_switch_the_check_off() {
    let payload = [b"\0\x05hello\x0a\0".as_slice(), &[0; 8]].concat();
    assert_eq!(
        decode(&payload, VersionCheck::Strict),
        Err(BadFormat::VersionOrChecksum)
    );
}

#[test]
fn every_prefix_and_every_changed_byte_fails_the_checksum() {
    for Recording { payload, .. } in recordings() {
        for len in 0..payload.len() {
            let decoded = decode(&payload[..len], VersionCheck::Relaxed);
            assert_eq!(decoded, Err(BadFormat::VersionOrChecksum));
        }
        let mut changed = payload.clone();
        for at in 0..payload.len() {
            changed[at] ^= 0x41;
            let decoded = decode(&changed, VersionCheck::Relaxed);
            assert_eq!(decoded, Err(BadFormat::VersionOrChecksum));
            changed[at] = payload[at];
        }
    }
}

#[test]
fn no_prefix_or_changed_byte_under_a_right_checksum_ends_the_process() {
    for Recording { payload, .. } in recordings() {
        let body = body(&payload);
        for len in 0..body.len() {
            drop(decode(
                &resealed(&body[..len], VERSION),
                VersionCheck::Strict,
            ));
        }
        let mut changed = body.to_vec();
        for at in 0..body.len() {
            for byte in [0, 1, 0x40, 0x7f, 0x80, 0x81, 0xc3, 0xfe, 0xff, body[at] ^ 1] {
                changed[at] = byte;
                drop(decode(&resealed(&changed, VERSION), VersionCheck::Strict));
            }
            changed[at] = body[at];
        }
    }
}

#[test]
fn absurd_lengths_and_counts_are_refused_before_anything_is_reserved() {
    let absurd: [&[u8]; 8] = [
        b"\x00\x81\x7f\xff\0\0\0\0\0\x01a",
        b"\x00\x80\xff\xff\xff\xffa",
        b"\x00\xc3\x02\x81\x7f\xff\0\0\0\0\0\x01\0a",
        b"\x00\xc3\x81\xff\xff\xff\xff\xff\xff\xff\xff\x04\0a",
        b"\x01\x81\x7f\xff\0\0\0\0\0\x01\x01a",
        b"\x0e\x81\x7f\xff\0\0\0\0\0\x01\x01a",
        b"\x12\x81\x7f\xff\0\0\0\0\0\x01\x02\x01a",
        b"\x12\x01\x02\x0b\x0b\0\0\0\x01\0\xf0\xff\xff\xff\x7f",
    ];
    for body in absurd {
        let decoded = decode(&resealed(body, VERSION), VersionCheck::Strict);
        assert_eq!(decoded, Err(BadFormat::Data), "{}", body.escape_ascii());
    }
}

#[test]
fn empty_and_unknown_values_are_refused() {
    for body in [
        b"".as_slice(),
        b"\x01\0",
        b"\x12\0",
        b"\x0e\0",
        b"\x55",
        b"\x07\x01\x01a",
    ] {
        let decoded = decode(&resealed(body, VERSION), VersionCheck::Strict);
        assert_eq!(decoded, Err(BadFormat::Data), "{}", body.escape_ascii());
    }
}

#[test]
fn deadlines_of_redis_may_wrap_but_not_leave_its_range() {
    // The earliest deadline, what is added to it and one, and what Redis 8.2 makes of both.
    let cases: [(u64, u64, Option<u64>); 6] = [
        (0xFFFF_FFFF_FFFF, 1, Some(0xFFFF_FFFF_FFFF)),
        (0xFFFF_FFFF_FFFF, 2, None),
        (0xFFFF_FFFF_FFFF, u64::MAX, Some(0xFFFF_FFFF_FFFD)),
        (1 << 48, u64::MAX, Some(0xFFFF_FFFF_FFFE)),
        (0, u64::MAX, None),
        (i64::MAX as u64, 1, None),
    ];
    for (earliest, later, deadline) in cases {
        let mut content = vec![kind::REDIS_HASH_EXPIRING];
        content.extend(earliest.to_le_bytes());
        content.extend([1, 0x81]);
        content.extend(later.to_be_bytes());
        content.extend(*b"\x01a\x01b");
        let decoded = decode(&seal_bytes(content), VersionCheck::Relaxed);
        let field = |deadline| (b"a".to_vec(), b"b".to_vec(), Some(deadline));
        assert_eq!(
            decoded.ok(),
            deadline.map(|deadline| Dumped::Hash(vec![field(deadline)])),
            "{earliest} {later}"
        );
    }
}
