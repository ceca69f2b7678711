//! Differential testing: random requests run on khoa-server and on a reference, and every reply is compared.
//!
//! [`grammar`] makes requests from the rows of the command table with the words of [`vocabulary`];
//! [`sequence`] arranges them over several connections; [`lockstep`] sends them to both servers
//! and compares what comes back, then the [`contents`]. What may differ is in [`differences`],
//! one row each with its reason. [`shrink`] makes a sequence that ends in a difference as small
//! as it gets, and [`report`] writes it as a transcript.

use std::collections::BTreeSet;

use crate::transcript::wire::{Body, Reply};
use grammar::Documented;
use lockstep::{Found, Pair};
use peer::{Peer, text};
use sequence::Sequence;

pub mod contents;
pub mod differences;
pub mod grammar;
pub mod lockstep;
pub mod peer;
pub mod report;
pub mod sequence;
pub mod shrink;
pub mod vocabulary;

/// The words of a request.
pub type Words = Vec<Vec<u8>>;

/// What a server documents of its commands, by COMMAND DOCS.
pub fn documented(peer: &mut Peer) -> Result<Documented, String> {
    let Body::Many(docs) = peer.demand(&["COMMAND", "DOCS"])?.body else {
        return Err("COMMAND DOCS gave no list".to_owned());
    };
    let mut documented = Documented::new();
    for pair in docs.chunks_exact(2) {
        let mut tokens = BTreeSet::new();
        collect(&pair[1], &mut tokens, &mut documented);
        documented.insert(text(&pair[0]), tokens);
    }
    Ok(documented)
}

/// Takes the words behind `token`, and the subcommands by their names.
fn collect(reply: &Reply, tokens: &mut BTreeSet<String>, documented: &mut Documented) {
    let Body::Many(many) = &reply.body else {
        return;
    };
    for pair in many.windows(2) {
        let name = text(&pair[0]);
        if name == "token" {
            tokens.insert(text(&pair[1]));
        } else if name.contains('|') && matches!(pair[1].body, Body::Many(_)) {
            let mut own = BTreeSet::new();
            collect(&pair[1], &mut own, documented);
            documented.insert(name, own);
        }
    }
    for one in many {
        collect(one, tokens, documented);
    }
}

/// DUMPs of some values, for RESTORE.
pub fn payloads(peer: &mut Peer) -> Result<Words, String> {
    let mut payloads = Words::new();
    for request in vocabulary::SAMPLES {
        peer.demand(&["DEL", "sample"])?;
        peer.call(request)?;
        if let Body::Text(payload) = peer.demand(&["DUMP", "sample"])?.body {
            payloads.push(payload);
        }
    }
    peer.demand(&["DEL", "sample"])?;
    Ok(payloads)
}

/// The smallest sequence that still shows this kind of difference; none if it does not show again.
pub fn smallest(pair: &mut Pair, sequence: &Sequence, found: &Found) -> Option<(Sequence, Found)> {
    let mut whole = sequence.clone();
    whole.steps.truncate(found.steps);
    let mut last = None;
    let mut fails = |candidate: &Sequence| match pair.run(candidate) {
        Ok(Some(again)) if again.kind == found.kind => {
            last = Some(again);
            true
        }
        _ => false,
    };
    if !fails(&whole) && !fails(&whole) {
        return None;
    }
    let smallest = shrink::shrink(&whole, &mut fails);
    last.map(|found| (smallest, found))
}
