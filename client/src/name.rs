//! The keys of a lock: the key itself and its helpers, which always share its hash slot.

use std::fmt;

use crate::error::Error;

/// The longest name: more than anyone needs, far less than what a server takes.
pub const MAX_NAME_LEN: usize = 4096;

/// A named thing's key, and the rule by which its helper keys are named.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    key: Vec<u8>,
    helper_stem: Vec<u8>,
}

impl Name {
    /// Any bytes may be a name. Redis Cluster hashes only what stands in the first `{…}` of a
    /// key, so helpers repeat the lock's own tag, or put the whole key into one.
    pub(crate) fn new(prefix: &[u8], name: &[u8]) -> Result<Self, Error> {
        if name.is_empty() || name.len() > MAX_NAME_LEN {
            return Err(Error::InvalidName { length: name.len() });
        }
        let key = [prefix, name].concat();
        if has_hash_tag(&key) {
            return Ok(Self {
                helper_stem: [&key[..], b":"].concat(),
                key,
            });
        }
        if !key.contains(&b'}') {
            return Ok(Self {
                helper_stem: [b"{", &key[..], b"}:"].concat(),
                key,
            });
        }
        if key.first() == Some(&b'}') {
            return Err(Error::InvalidName { length: name.len() });
        }
        let key = [b"{", &key[..], b"}"].concat();
        Ok(Self {
            helper_stem: [&key[..], b":"].concat(),
            key,
        })
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(crate) fn helper(&self, suffix: &str) -> Vec<u8> {
        [&self.helper_stem[..], suffix.as_bytes()].concat()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.key.escape_ascii())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({self})")
    }
}

/// Whether the server would hash only a part of the key.
fn has_hash_tag(key: &[u8]) -> bool {
    hash_tag(key).is_some()
}

fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|b| *b == b'{')?;
    let rest = &key[open + 1..];
    let length = rest.iter().position(|b| *b == b'}')?;
    (length > 0).then(|| &rest[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashed(key: &[u8]) -> &[u8] {
        hash_tag(key).unwrap_or(key)
    }

    #[test]
    fn helpers_share_the_slot_of_their_lock_whatever_bytes_the_name_has() {
        let odd = [
            "a", "a{b", "a}b", "a{}b", "{}a", "}{", "{tag}x", "x{t}y}", "{{a}}", "a{b}{c}",
        ];
        for name in odd {
            for prefix in ["khoa:", "{p}:", "p{", "p}"] {
                let name = Name::new(prefix.as_bytes(), name.as_bytes()).unwrap();
                assert_eq!(hashed(&name.helper("fence")), hashed(name.key()), "{name}");
            }
        }
    }

    #[test]
    fn helpers_share_the_slot_for_every_short_name_over_the_bytes_that_matter() {
        for length in 1..=6_u32 {
            for code in 0..3_usize.pow(length) {
                let mut rest = code;
                let name: Vec<u8> = (0..length)
                    .map(|_| {
                        let byte = b"a{}"[rest % 3];
                        rest /= 3;
                        byte
                    })
                    .collect();
                let Ok(name) = Name::new(b"", &name) else {
                    continue;
                };
                assert_eq!(hashed(&name.helper("q")), hashed(name.key()), "{name}");
            }
        }
    }

    #[test]
    fn a_plain_name_is_its_own_key_so_that_other_libraries_can_share_it() {
        let name = Name::new(b"", b"orders").unwrap();
        assert_eq!(name.key(), b"orders");
        assert_eq!(name.helper("fence"), b"{orders}:fence");
    }

    #[test]
    fn empty_and_endless_names_are_refused() {
        assert!(Name::new(b"khoa:", b"").is_err());
        assert!(Name::new(b"khoa:", &vec![b'x'; MAX_NAME_LEN + 1]).is_err());
    }
}
