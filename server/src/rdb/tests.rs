//! Payloads recorded from the three references, and what a hostile sender makes of them.

use super::*;

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
    let list = elements.iter().map(|element| element.to_vec()).collect();
    check(case, &Dumped::List(list), Some(encode_list(elements)));
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
