//! The differential test tests itself: servers that are alike show no difference, one that is not is found.

use khoa_server::{Fault, Server};
use khoa_tests::differential::differences::Reference;
use khoa_tests::differential::grammar::Grammar;
use khoa_tests::differential::lockstep::Pair;
use khoa_tests::differential::peer::Peer;
use khoa_tests::differential::sequence::{Sequence, Step, generate};
use khoa_tests::differential::vocabulary::Vocabulary;
use khoa_tests::differential::{documented, payloads, report, smallest};

/// Two servers, the second of which is taken for the reference.
struct Twins {
    ours: Server,
    reference: Server,
    pair: Pair,
    grammar: Grammar,
    payloads: Vec<Vec<u8>>,
}

impl Twins {
    fn start(groups: &[&str]) -> Twins {
        let [ours, reference] = [(); 2].map(|()| Server::start().unwrap());
        let mut theirs = Peer::connect(reference.addr()).unwrap();
        let documented = documented(&mut theirs).unwrap();
        let groups: Vec<String> = groups.iter().map(|&group| group.to_owned()).collect();
        Twins {
            grammar: Grammar::new(&groups, Reference::Khoa, Some(&documented)),
            payloads: payloads(&mut theirs).unwrap(),
            pair: Pair::connect(Peer::connect(ours.addr()).unwrap(), theirs).unwrap(),
            ours,
            reference,
        }
    }

    fn sequence(&self, seed: u64, protocol: u8) -> Sequence {
        let words = Vocabulary::new(seed, self.payloads.clone());
        generate(&self.grammar, words, protocol, 600)
    }
}

#[test]
fn servers_that_are_alike_do_not_differ() {
    let mut twins = Twins::start(&[]);
    for (seed, protocol) in [(1, 2), (2, 3), (3, 2), (4, 3)] {
        let sequence = twins.sequence(seed, protocol);
        let found = twins.pair.run(&sequence).unwrap();
        assert!(found.is_none(), "seed {seed}: {}", found.unwrap().story);
    }
    assert!(
        twins.pair.requests > 1000,
        "{} requests",
        twins.pair.requests
    );
}

#[test]
fn a_wrong_reply_is_found_and_shrunk_to_the_request_that_gets_it() {
    let mut twins = Twins::start(&["hash", "list", "transactions"]);
    twins
        .ours
        .inject_on("hget", Fault::Error("ERR broken".to_owned()), u64::MAX);
    let sequence = twins.sequence(5, 2);
    let found = twins.pair.run(&sequence).unwrap().expect("a difference");
    let (smallest, found) = smallest(&mut twins.pair, &sequence, &found).expect("it shows again");
    assert_eq!(smallest.steps.len(), 1, "{}", report::requests(&smallest));
    assert!(found.kind.starts_with("hget"), "{}", found.kind);
    let transcript = report::record(&smallest, twins.reference.addr()).unwrap();
    let lines: Vec<&str> = transcript.lines().collect();
    assert!(
        matches!(lines.as_slice(), ["@client a", request, "< $-1" | "< -ERR wrong number of arguments for 'hget' command"] if request.to_lowercase().starts_with("> hget")),
        "{transcript}"
    );
}

#[test]
fn contents_that_differ_in_the_end_are_found() {
    let mut twins = Twins::start(&["sorted-set"]);
    let add = Step::Request {
        client: 0,
        words: [&b"ZADD"[..], b"z1", b"1", b"a long member"]
            .map(<[u8]>::to_vec)
            .into(),
    };
    let sequence = Sequence {
        protocol: 2,
        clients: 1,
        settings: Vec::new(),
        steps: vec![add],
    };
    assert!(twins.pair.run(&sequence).unwrap().is_none());
    // Now the same replies leave another encoding behind.
    twins
        .ours
        .run(["CONFIG", "SET", "zset-max-listpack-value", "4"]);
    let found = twins.pair.run(&sequence).unwrap().expect("a difference");
    assert_eq!(found.kind, "contents: zset OBJECT ENCODING");
}
