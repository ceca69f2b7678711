//! What is stored in the end: every key of every database, its value, its encoding and its deadline.

use crate::transcript::pattern;
use crate::transcript::text::quote;
use crate::transcript::wire::{Body, Reply};

use super::Words;
use super::differences::{DIFFERENCES, Reference, same};
use super::peer::{Peer, text};

/// The databases that sequences use.
const DATABASES: usize = 4;

/// What is asked about each key, whatever it is.
const ASPECTS: [&str; 4] = ["TYPE", "OBJECT ENCODING", "PEXPIRETIME", "DUMP"];

/// A difference: its kind and its story.
type Differs = Option<(String, String)>;

/// Both servers after a sequence.
pub struct Contents<'a> {
    /// khoa-server.
    pub ours: &'a mut Peer,
    /// The other one.
    pub theirs: &'a mut Peer,
    /// Which one that is.
    pub reference: Reference,
}

impl Contents<'_> {
    /// The first difference.
    pub fn compare(&mut self) -> Result<Differs, String> {
        for database in 0..DATABASES {
            let database = database.to_string();
            let request = words(&["SELECT", &database]);
            let (keys, other) = (keys(self.ours, &request)?, keys(self.theirs, &request)?);
            if keys != other {
                let list = |keys: &Words| {
                    keys.iter()
                        .map(|key| quote(key))
                        .collect::<Vec<_>>()
                        .join(" ")
                };
                let story = format!(
                    "keys of {database}\n  khoa      {}\n  reference {}",
                    list(&keys),
                    list(&other)
                );
                return Ok(Some(("contents: keys".to_owned(), story)));
            }
            let found = self.values(&keys)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        self.one("functions", b"", &words(&["FUNCTION", "LIST", "WITHCODE"]))
    }

    fn values(&mut self, keys: &Words) -> Result<Differs, String> {
        let about = |key: &Vec<u8>| ASPECTS.map(|aspect| with_key(aspect, key));
        let requests: Vec<Words> = keys.iter().flat_map(about).collect();
        let ours = self.ours.call_all(&requests)?;
        let theirs = self.theirs.call_all(&requests)?;
        let replies = ours.chunks(ASPECTS.len()).zip(theirs.chunks(ASPECTS.len()));
        for (key, (one, other)) in keys.iter().zip(replies) {
            let kind = text(&other[0]);
            for at in 0..ASPECTS.len() - 1 {
                let request = with_key(ASPECTS[at], key);
                let found = self.differs(
                    &format!("{kind} {}", ASPECTS[at]),
                    key,
                    &request,
                    &one[at],
                    &other[at],
                );
                if found.is_some() {
                    return Ok(found);
                }
            }
            // Where payloads differ, the values may still be the same: hash tables keep no order.
            if one.last() != other.last() {
                let found = self.elements(&kind, key)?;
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    fn elements(&mut self, kind: &str, key: &[u8]) -> Result<Differs, String> {
        let (before, behind): (&str, &[&str]) = match kind {
            "string" => ("GET", &[]),
            "list" => ("LRANGE", &["0", "-1"]),
            "set" => ("SMEMBERS", &[]),
            "hash" => ("HGETALL", &[]),
            "zset" => ("ZRANGE", &["0", "-1", "WITHSCORES"]),
            _ => ("XINFO STREAM", &["FULL", "COUNT", "0"]),
        };
        let mut request = with_key(before, key);
        request.extend(words(behind));
        let found = self.one(kind, key, &request)?;
        if found.is_some() || kind != "hash" {
            return Ok(found);
        }
        self.deadlines_of_fields(key)
    }

    fn deadlines_of_fields(&mut self, key: &[u8]) -> Result<Differs, String> {
        if self.reference == Reference::Redis7 {
            return Ok(None);
        }
        let Body::Many(fields) = self.ours.call(&with_key("HKEYS", key))?.body else {
            return Ok(None);
        };
        let mut request = with_key("HPEXPIRETIME", key);
        request.extend(words(&["FIELDS", &fields.len().to_string()]));
        request.extend(fields.into_iter().filter_map(into_text));
        self.one("hash HPEXPIRETIME", key, &request)
    }

    fn one(&mut self, aspect: &str, key: &[u8], request: &Words) -> Result<Differs, String> {
        let (one, other) = (self.ours.call(request)?, self.theirs.call(request)?);
        Ok(self.differs(aspect, key, request, &one, &other))
    }

    fn differs(
        &self,
        aspect: &str,
        key: &[u8],
        request: &Words,
        ours: &Reply,
        theirs: &Reply,
    ) -> Differs {
        let request: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        let mut used = vec![0; DIFFERENCES.len()];
        if same(&request, self.reference, ours, theirs, &mut used) {
            return None;
        }
        let show = |reply: &Reply| pattern::write(reply).join(" ");
        let story = format!(
            "{aspect} of {}\n  khoa      {}\n  reference {}",
            quote(key),
            show(ours),
            show(theirs)
        );
        Some((format!("contents: {aspect}"), story))
    }
}

fn words(words: &[&str]) -> Words {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn with_key(command: &str, key: &[u8]) -> Words {
    let mut request: Words = command
        .split(' ')
        .map(|word| word.as_bytes().to_vec())
        .collect();
    request.push(key.to_vec());
    request
}

fn into_text(reply: Reply) -> Option<Vec<u8>> {
    match reply.body {
        Body::Text(text) => Some(text),
        _ => None,
    }
}

/// The keys of the database that `select` chooses, in order.
fn keys(peer: &mut Peer, select: &Words) -> Result<Words, String> {
    peer.call(select)?;
    match peer.demand(&["KEYS", "*"])?.body {
        Body::Many(many) => {
            let mut keys: Words = many.into_iter().filter_map(into_text).collect();
            keys.sort();
            Ok(keys)
        }
        _ => Err("KEYS gave no list".to_owned()),
    }
}
